//! Packs by the SDK, many in one process: each on a connection of its own, with tools that return
//! what they are given.

use std::io::Write;

use anyhow::{Context, Result};
use drawgate_sdk::{Call, Event, Pack, PackClient, ToolError, tool};
use futures_util::future::try_join_all;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::watch;

use super::{CAPABILITY, Door, PACK, tool_name};
use crate::listen::LISTENING;

/// Options of the role `grpc-packs`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    door: Door,
    /// How many packs
    #[arg(long, default_value_t = 1)]
    packs: usize,
    /// How many tools each of them has
    #[arg(long, default_value_t = 1)]
    tools: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Input {
    message: String,
}

/// Serves until killed; says so when all packs are registered.
pub(crate) async fn main(args: Args) -> Result<()> {
    let packs = (0..args.packs).map(|number| {
        let tools = (0..args.tools).map(move |tool| tool_name(number, tool));
        serve(&args.door, pack(&format!("{PACK}{number}"), tools))
    });
    let serving = try_join_all(packs).await?;
    println!("{LISTENING}{} packs", serving.len());
    std::io::stdout().flush()?;
    for task in serving {
        task.await?;
    }
    Ok(())
}

/// A pack whose tools return their message.
pub(super) fn pack(name: &str, tools: impl Iterator<Item = String>) -> Pack {
    tools.fold(Pack::new(name, "1.0.0"), |pack, name| {
        let definition = tool(name, "Returns the message that it was given").capability(CAPABILITY);
        pack.tool(
            definition.run(|input: Input, _: Call| async { Ok::<_, ToolError>(input.message) }),
        )
    })
}

/// Starts to serve a pack; it is registered when this returns. Aborting the task cuts it off.
pub(super) async fn serve(door: &Door, pack: Pack) -> Result<tokio::task::JoinHandle<()>> {
    let (connected, mut is_connected) = watch::channel(false);
    let client = PackClient::new(door.gateway()?, door.key()?).observe(move |event| {
        if matches!(event, Event::Connected { .. }) {
            connected.send_replace(true);
        }
    });
    let task = tokio::spawn(async move {
        if let Err(error) = client.serve(pack).await {
            eprintln!("a pack was refused: {error}");
        }
    });
    // The sender is dropped with the client, which ends only when it is refused.
    is_connected.wait_for(|connected| *connected).await.context("the pack was refused")?;
    Ok(task)
}
