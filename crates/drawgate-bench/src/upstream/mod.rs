//! The server at the far end: a small MCP server with the tool `echo`, over HTTP or stdio.
//!
//! It does what a real server of the 2025-11-25 era must (initialise, sessions, list, call) and
//! nothing else, so that the paths under measure differ as much as they can.

mod answers;
mod http_server;
mod stdio;
mod tools;

use std::net::SocketAddr;

use anyhow::Result;

use answers::Answers;

/// Options of the role `upstream`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// How many tools to list, `echo` included
    #[arg(long, default_value_t = 1)]
    tools: usize,
    /// Speak MCP over stdin and stdout instead of HTTP
    #[arg(long)]
    stdio: bool,
}

/// Serves until killed, or until stdin ends.
pub(crate) async fn main(args: Args) -> Result<()> {
    let answers = Answers::new(args.tools);
    if args.stdio {
        tokio::task::block_in_place(|| stdio::serve(&answers))
    } else {
        http_server::serve(args.listen, answers).await
    }
}
