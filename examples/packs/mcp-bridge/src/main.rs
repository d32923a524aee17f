//! Offers the tools of any MCP server as a Drawgate pack.
//!
//! `options` is the command line, `upstream` the MCP server, `news` its reports of progress, `tools` what becomes
//! of its tools, and `bridge` keeps both ends together.

#![forbid(unsafe_code)]

mod bridge;
mod news;
mod options;
mod tools;
mod upstream;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use drawgate_sdk::CancellationToken;
use tokio::signal::unix::{SignalKind, signal};

use options::Options;

#[tokio::main]
async fn main() -> ExitCode {
    match serve(&Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("drawgate-mcp-bridge: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(options: &Options) -> Result<()> {
    // Two libraries below want to use one, and neither may choose it for the program.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let stop = CancellationToken::new();
    stop_on_signals(stop.clone())?;
    bridge::run(options, &stop).await
}

fn stop_on_signals(stop: CancellationToken) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for signals")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        eprintln!("stopping; calls under way are answered first");
        stop.cancel();
    });
    Ok(())
}
