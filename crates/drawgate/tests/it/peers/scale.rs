//! A hundred packs with a thousand tools between them and a hundred agents, all connected at once:
//! everybody sees and reaches what is theirs, and hears of changes that concern them.

use drawgate_sdk::{Agent, Call, Pack, ToolError, tool};
use futures_util::future::join_all;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::company::{Serving, call, names, sees};
use super::{Peers, key, key_line};

const PACKS: usize = 100;
const TOOLS_EACH: usize = 10;
const AGENTS: usize = 100;
/// Packs and agents belong to one of these; agents may use the packs of theirs.
const GROUPS: usize = 10;

#[derive(Serialize, Deserialize, JsonSchema)]
struct Message {
    text: String,
}

/// A pack whose tools say who they are.
fn pack(number: usize, tools: usize) -> Pack {
    let group = format!("group{}", number % GROUPS);
    (0..tools).fold(Pack::new(format!("pack{number:02}"), "1.0.0"), |pack, tool_number| {
        let name = tool_name(number, tool_number);
        let run = {
            let name = name.clone();
            move |message: Message, _: Call| {
                let said = format!("{name}: {}", message.text);
                async move { Ok::<_, ToolError>(said) }
            }
        };
        pack.tool(tool(name, "Says who it is.").capability(group.clone()).run(run))
    })
}

fn tool_name(pack: usize, tool: usize) -> String {
    format!("p{pack:02}_t{tool}")
}

/// The names that the agents of a group see, of these packs.
fn of_group(group: usize, tools: impl Fn(usize) -> usize) -> Vec<String> {
    let packs = (0..PACKS).filter(|pack| pack % GROUPS == group);
    packs.flat_map(|pack| (0..tools(pack)).map(move |tool| tool_name(pack, tool))).collect()
}

fn lines() -> Vec<String> {
    let pack = |number| format!(r#"pack="pack{number:02}",tools="p{number:02}_*""#);
    let agent =
        |number| format!(r#"agent="agent{number}",capabilities="group{}""#, number % GROUPS);
    let packs = (0..PACKS).map(|number| key_line(&pack(number), &key(1)));
    packs.chain((0..AGENTS).map(|number| key_line(&agent(number), &key(2)))).collect()
}

/// Every agent calls a tool of each of its packs, and one that is not its own.
async fn call_all(agent: &Agent, number: usize) {
    for pack in (0..PACKS).filter(|pack| pack % GROUPS == number % GROUPS) {
        let tool = tool_name(pack, number % TOOLS_EACH);
        let text = format!("agent{number} to pack{pack}");
        let said = call(agent, &tool, json!({ "text": text })).await;
        assert_eq!(said, Ok(json!(format!("{tool}: {text}"))));
    }
    let foreign = tool_name((number + 1) % GROUPS, 0);
    let denied = call(agent, &foreign, json!({ "text": "" })).await;
    assert_eq!(denied, Err("PERMISSION_DENIED".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_calls_and_changes_stay_correct_with_many_packs_and_agents() {
    let peers = Peers::start(&lines());
    let (pack_key, agent_key) = (key(1), key(2));
    let packs = (0..PACKS).map(|number| peers.serve(&pack_key, pack(number, TOOLS_EACH)));
    let mut packs: Vec<Serving> = join_all(packs).await;
    let joining: Vec<_> = (0..AGENTS).map(|number| format!("agent{number}")).collect();
    let agents = join_all(joining.iter().map(|name| peers.join(name, &agent_key))).await;
    for (number, agent) in agents.iter().enumerate() {
        assert_eq!(names(agent), of_group(number % GROUPS, |_| TOOLS_EACH), "agent{number}");
    }
    join_all(agents.iter().enumerate().map(|(number, agent)| call_all(agent, number))).await;
    // Over MCP the local user sees all of them.
    let all = peers.gateway.tool_names(&peers.gateway.token).await;
    assert_eq!(all.iter().filter(|name| name.contains("_t")).count(), PACKS * TOOLS_EACH);

    let mut unconcerned: Vec<_> = agents.iter().map(Agent::tools).collect();
    for tools in &mut unconcerned {
        tools.mark_unchanged();
    }
    packs.remove(0).leave().await;
    all_see(&agents, |pack| if pack == 0 { 0 } else { TOOLS_EACH }).await;
    let gone = call(&agents[0], &tool_name(0, 0), json!({ "text": "" })).await;
    assert_eq!(gone, Err("UNAVAILABLE".to_owned()));
    let _back = peers.serve(&pack_key, pack(0, 3)).await;
    all_see(&agents, |pack| if pack == 0 { 3 } else { TOOLS_EACH }).await;
    let said = call(&agents[0], &tool_name(0, 2), json!({ "text": "again" })).await;
    assert_eq!(said, Ok(json!("p00_t2: again")));
    for (number, tools) in unconcerned.iter().enumerate() {
        assert_eq!(tools.has_changed().unwrap(), number % GROUPS == 0, "agent{number}");
    }
    join_all(agents.iter().enumerate().skip(1).map(|(number, agent)| async move {
        if number % GROUPS != 0 {
            call_all(agent, number).await;
        }
    }))
    .await;
}

/// Waits until every agent of the first group sees the tools of its packs.
async fn all_see(agents: &[Agent], tools: impl Fn(usize) -> usize) {
    let expected = of_group(0, tools);
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    join_all(agents.iter().step_by(GROUPS).map(|agent| sees(agent, &expected))).await;
}
