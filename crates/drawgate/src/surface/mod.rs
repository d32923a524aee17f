//! The protocols by which callers and operators reach the gateway. A surface authenticates, converts, calls the gate, converts back; it
//! holds no rule about who may do what.

pub mod approvals;
pub mod control;
pub mod grpc;
pub mod guard;
pub mod intake;
pub mod mcp;
pub mod ops;
pub mod programs;
