//! Serves the APIs of model providers by a script, for tests that are not written in Rust.
//!
//! `fake-models SCRIPT.json` prints the server's address and serves until standard input ends.
//! `drawgate_agents::testing::fake_models` describes scripts.

use std::error::Error;
use std::io::Write;

use drawgate_agents::testing::fake_models::{FakeModels, Rule};
use tokio::io::{copy, sink, stdin};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: fake-models SCRIPT.json")?;
    let rules: Vec<Rule> = serde_json::from_slice(&std::fs::read(path)?)?;
    let server = FakeModels::start(rules).await?;
    writeln!(std::io::stdout(), "http://{}", server.address())?;
    copy(&mut stdin(), &mut sink()).await?;
    Ok(())
}
