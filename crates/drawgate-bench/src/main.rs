//! The benchmark of Drawgate: what does the gate cost between a client and a server?
//!
//! One program with several roles, each run as a process of its own, so that processor time and
//! memory can be told apart: `upstream` (an MCP server), `hop` (a proxy that only forwards bytes),
//! `load` (the client), `models` (a provider of models), the same over gRPC (`grpc-echo`, `grpc-packs`, `grpc-load`, `grpc-crowd`) and
//! `run` (starts the others, measures and prints the tables).

#![expect(
    clippy::disallowed_methods,
    reason = "a measuring tool outside the product starts processes and clients itself"
)]
#![expect(clippy::print_stdout, reason = "the output of this program is its tables")]

mod grpc;
mod histogram;
mod hop;
mod listen;
mod load;
mod models;
mod process_stat;
mod run;
mod upstream;

use std::process::ExitCode;

use clap::Parser;

/// Measures Drawgate against a direct connection and a plain HTTP hop.
#[derive(Parser)]
#[command(name = "drawgate-bench", version)]
enum Role {
    /// Serve MCP over HTTP, or over stdin and stdout
    Upstream(upstream::Args),
    /// Forward HTTP to another server without looking at it
    Hop(hop::Args),
    /// Call a server back to back and print what was measured as JSON
    Load(load::Args),
    /// Answer gRPC with what comes in, bare
    GrpcEcho(grpc::echo::Args),
    /// Serve packs to a gateway
    GrpcPacks(grpc::packs::Args),
    /// Call over gRPC back to back and print what was measured as JSON
    GrpcLoad(grpc::load::Args),
    /// Join a gateway as many agents and print what was measured as JSON
    GrpcCrowd(grpc::crowd::Args),
    /// Speak the APIs of model providers
    Models,
    /// Start everything, measure, and print the tables
    Run(run::Args),
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Role::parse() {
        Role::Upstream(args) => upstream::main(args).await,
        Role::Hop(args) => hop::main(args).await,
        Role::Load(args) => load::main(args).await,
        Role::GrpcEcho(args) => grpc::echo::main(args).await,
        Role::GrpcPacks(args) => grpc::packs::main(args).await,
        Role::GrpcLoad(args) => grpc::load::main(args).await,
        Role::GrpcCrowd(args) => grpc::crowd::main(args).await,
        Role::Models => models::main().await,
        Role::Run(args) => run::main(args).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
