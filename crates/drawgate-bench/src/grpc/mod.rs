//! gRPC: a bare echo server, packs by the SDK, and the load on either.
//!
//! The bare round trip uses the same messages, the same HTTP/2 stack and the same loop of callers, so
//! that what differs is the gateway and the second process behind it.

pub(crate) mod crowd;
pub(crate) mod echo;
mod line;
pub(crate) mod load;
pub(crate) mod packs;

use std::path::PathBuf;

use anyhow::{Context, Result};
use drawgate_sdk::{Gateway, Key};

/// The pack and the agents of the benchmark are called by this and a number.
pub(crate) const PACK: &str = "pack";
pub(crate) const AGENT: &str = "agent";
/// What they all hold and need.
pub(crate) const CAPABILITY: &str = "bench";
/// The pack that comes while the others are there.
pub(crate) const LATE_PACK: &str = "late";

/// Where the gateway is, and the key that opens it.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Door {
    /// Address of the gateway, or of the bare server, as `HOST:PORT`
    #[arg(long)]
    pub(crate) to: String,
    /// Private key of all packs and agents
    #[arg(long)]
    pub(crate) key: Option<PathBuf>,
}

impl Door {
    fn gateway(&self) -> Result<Gateway> {
        Ok(Gateway::at(&format!("http://{}", self.to))?)
    }

    fn key(&self) -> Result<Key> {
        Ok(Key::from_file(self.key.as_ref().context("`--key` is needed here")?)?)
    }
}

/// The name of a tool: packs and tools are counted from nought.
pub(crate) fn tool_name(pack: usize, tool: usize) -> String {
    format!("echo_{pack}_{tool}")
}
