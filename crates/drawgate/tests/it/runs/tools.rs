//! The tools of a public profile, called by the official MCP client and by an agent over gRPC.

use std::fs;

use drawgate_agents::testing::fake_models::{FakeModels, Rule};
use serde_json::{Value, json};

use super::{KEY, config};
use crate::peers::company::call;
use crate::peers::{Peers, key, key_line};
use crate::support::eventually;

/// An agent that others may use, with a tool that they may use too.
const ANALYST: &str = "---\nname: analyst\ndescription: Analyses texts\npublic: true\ntools:\n  \
    - name: summarize\n    description: Summarizes a text\n    public: true\n    \
    parameters: {text: {type: string, description: The text}}\n    \
    result_schema: {type: object, properties: {bullets: {type: array, items: {type: string}}}, required: [bullets]}\n    \
    prompt: \"Summarize:\\n\\n{{text}}\"\n---\nAnalyse.\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn public_tools_are_called_over_mcp_and_over_grpc() {
    use rmcp::ServiceExt;
    use rmcp::model::CallToolRequestParams;
    use rmcp::transport::StreamableHttpClientTransport;
    use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
    // Another part of the workspace gives this client TLS, and leaves the choice of it to us.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let answer = json!({ "bullets": ["short"] });
    let rules = vec![
        Rule::calls([("return_result", answer.clone())]).with_tool("return_result"),
        Rule::text("analysed"),
    ];
    let fake = FakeModels::start(rules).await.unwrap();
    let reader = key_line("agent=\"reader\",capabilities=\"source.profile-analyst\"", &key(1));
    let stranger = key_line("agent=\"stranger\"", &key(2));
    let peers = Peers::start_with(&config(&fake, KEY.1), &[reader, stranger]);
    fs::create_dir(peers.place.path().join("agents")).unwrap();
    fs::write(peers.place.path().join("agents/analyst.md"), ANALYST).unwrap();
    eventually("the file is found", async || {
        peers.place.run(&["profiles", "accept", "analyst", "--yes"]).status.success().then_some(())
    })
    .await;
    eventually("its tools are there", async || {
        let names = peers.gateway.tool_names(&peers.gateway.token).await;
        names.contains(&"summarize".to_owned()).then_some(())
    })
    .await;

    let uri = format!("http://{}/mcp", peers.gateway.address);
    let client = StreamableHttpClientTransportConfig::with_uri(uri);
    let client = client.auth_header(peers.gateway.token.clone());
    let client = ().serve(StreamableHttpClientTransport::from_config(client)).await.unwrap();
    let arguments = json!({ "text": "long" });
    let params = CallToolRequestParams::new("summarize")
        .with_arguments(arguments.as_object().unwrap().clone());
    let result = serde_json::to_value(client.call_tool(params).await.unwrap()).unwrap();
    assert_eq!(result["structuredContent"], answer, "{result}");
    client.cancel().await.unwrap();

    let agent = peers.join("reader", &key(1)).await;
    let result = call(&agent, "summarize", json!({ "text": "long" })).await.unwrap();
    assert!(result.to_string().contains("short"), "{result}");
    let result = call(&agent, "analyst", json!({ "prompt": "look" })).await.unwrap();
    assert!(result.to_string().contains("analysed"), "{result}");
    let stranger = peers.join("stranger", &key(2)).await;
    let refused = call(&stranger, "summarize", json!({ "text": "long" })).await;
    assert!(refused.is_err(), "{refused:?}");

    let runs = peers.place.json(&["runs", "list"]);
    let of = |principal: &str| {
        let runs = runs.as_array().unwrap().iter();
        runs.filter(|run| run["principal"] == principal)
            .map(|run| run["profile"].clone())
            .collect::<Vec<Value>>()
    };
    assert_eq!((of("local").len(), of("reader").len(), of("stranger").len()), (1, 2, 0), "{runs}");
}
