//! Finding tools instead of listing them: `expose = "search"`.

use serde_json::{Value, json};

use crate::load::{events, offers};
use crate::questions::asking;
use crate::support::{Gateway, TestFolder, eventually};

fn place() -> TestFolder {
    TestFolder::new(&asking())
}

async fn ready(place: &TestFolder) -> Gateway {
    let gateway = place.serve();
    offers(&gateway, "q__mirror").await;
    gateway
}

fn agent(place: &TestFolder, name: &str, capabilities: &[&str]) -> String {
    let mut args = vec!["agents", "add", name, "--quiet", "--expose", "search"];
    for capability in capabilities {
        args.extend(["--capability", capability]);
    }
    place.ok(&args).trim().to_owned()
}

async fn found(gateway: &Gateway, token: &str, query: &str) -> Vec<String> {
    let result = gateway.call(token, "search_tools", json!({ "query": query })).await;
    let tools =
        result["structuredContent"]["tools"].as_array().unwrap_or_else(|| panic!("{result}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_agent_finds_and_calls_what_it_may_and_nothing_else() {
    let place = place();
    let gateway = ready(&place).await;
    let reader = agent(&place, "reader", &["file.read"]);
    assert_eq!(gateway.tool_names(&reader).await, ["search_tools", "call_tool"]);
    let listed = gateway.rpc(&reader, "tools/list", json!({})).await;
    let about = listed["result"]["tools"][0]["description"].as_str().unwrap();
    assert!(about.contains("q (") && about.contains("builtin ("), "{about}");
    assert_eq!(found(&gateway, &reader, "mirror").await, ["q__mirror"]);
    let call = json!({ "name": "q__mirror", "arguments": { "plain": "hi" } });
    let result = gateway.call(&reader, "call_tool", call.clone()).await;
    assert_eq!(result["content"][0]["text"], "{\"plain\": \"hi\"}", "{result}");
    let stranger = agent(&place, "stranger", &[]);
    assert!(found(&gateway, &stranger, "mirror").await.is_empty());
    let listed = gateway.rpc(&stranger, "tools/list", json!({})).await;
    assert!(!listed.to_string().contains("q ("), "not even the source's name");
    let params = json!({ "name": "call_tool", "arguments": call });
    let refused = gateway.rpc(&stranger, "tools/call", params).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let outcomes: Vec<Value> = events(&place)
        .into_iter()
        .filter(|event| event["kind"] == "outcome" && event["principal"] == "reader")
        .collect();
    assert_eq!(outcomes.len(), 1, "{outcomes:?}");
    assert_eq!(outcomes[0]["toolId"], "q:mirror", "the log shows the tool that was meant");
}

#[tokio::test]
async fn a_tool_can_still_be_called_by_its_own_name_and_mistakes_are_explained() {
    let place = place();
    let gateway = ready(&place).await;
    let reader = agent(&place, "reader", &["file.read"]);
    let direct = gateway.call(&reader, "q__mirror", json!({ "plain": "x" })).await;
    assert!(direct["content"][0]["text"].as_str().unwrap().contains('x'));
    for arguments in [json!({}), json!({ "query": 7 }), json!({ "query": "x", "limit": 1000 })] {
        let params = json!({ "name": "search_tools", "arguments": arguments });
        let refused = gateway.rpc(&reader, "tools/call", params).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    let none = gateway.call(&reader, "search_tools", json!({ "query": "zebra" })).await;
    assert_eq!(none["content"][0]["text"], "no tool fits; try other words");
    let all = gateway
        .rpc(&gateway.token, "tools/call", json!({ "name": "search_tools", "arguments": {} }))
        .await;
    assert_eq!(all["error"]["code"], -32602, "who sees all tools has no such tool: {all}");
}

#[tokio::test]
async fn the_local_user_chooses_in_the_configuration() {
    let place = place();
    let gateway = ready(&place).await;
    place.configure(&format!("[local]\nexpose = \"search\"\n{}", asking()));
    let token = gateway.token.clone();
    eventually("the list is short", async || {
        (gateway.tool_names(&token).await == ["search_tools", "call_tool"]).then_some(())
    })
    .await;
}
