//! A provider of models that answers at once.
//!
//! A run takes three turns: a call, another call, a text. Prompts with `idle` get no answer.

use std::io::Write;

use anyhow::Result;
use drawgate_agents::testing::fake_models::{Answer, FakeModels, Rule};
use serde_json::json;

use crate::listen::LISTENING;

/// Requests to the model in each run.
pub(crate) const TURNS: u32 = 3;

pub(crate) async fn main() -> Result<()> {
    let list = || Rule::calls([("vfs_list", json!({}))]);
    let rules = vec![
        Rule::new(Answer::Hang).containing("idle"),
        list().at_turn(0),
        list().at_turn(1),
        Rule::text("That is all."),
    ];
    let models = FakeModels::start(rules).await?;
    println!("{LISTENING}{}", models.address());
    std::io::stdout().flush()?;
    std::future::pending().await
}
