//! The tools of a public profile, called by the official MCP client and by an agent over gRPC.

use std::fs;

use drawgate_agents::testing::fake_models::{Answer, FakeModels, Rule};
use serde_json::{Value, json};

use super::{KEY, config, folder_with};
use crate::load::offers;
use crate::peers::company::call;
use crate::peers::{Peers, key, key_line};
use crate::support::{Gateway, eventually};

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

/// The official client, by the revision that has tasks.
async fn client_with_tasks(
    gateway: &Gateway,
) -> rmcp::service::RunningService<rmcp::RoleClient, rmcp::model::ClientConfig> {
    use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
    use rmcp::service::{ClientLifecycleMode, ClientServiceExt};
    use rmcp::transport::StreamableHttpClientTransport;
    use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
    // Another part of the workspace gives this client TLS, and leaves the choice of it to us.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let uri = format!("http://{}/mcp", gateway.address);
    let transport = StreamableHttpClientTransportConfig::with_uri(uri);
    let transport = transport.auth_header(gateway.token.clone());
    let transport = StreamableHttpClientTransport::from_config(transport);
    let tasks = json!({ "extensions": { rmcp::model::TASKS_EXTENSION_ID: {} } });
    let capabilities: ClientCapabilities = serde_json::from_value(tasks).unwrap();
    let client = ClientConfig::new(capabilities, Implementation::new("tests", "1"));
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    let lifecycle = ClientLifecycleMode::Discover { preferred_versions };
    client.serve_with_lifecycle(transport, lifecycle).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_run_is_a_task_and_its_result_comes_by_the_task() {
    use rmcp::model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, GetTaskParams, TaskPayload,
        TaskStatus,
    };
    let rules = vec![
        Rule::text("analysed at last").containing("this").held("it is a task"),
        Rule::new(Answer::Hang).containing("forever"),
        Rule::text("analysed at once"),
    ];
    let fake = FakeModels::start(rules).await.unwrap();
    let config = format!("{}[limits]\ntask_after_seconds = 1\n", config(&fake, "env:MODEL_KEY"));
    let place = folder_with(&config, &[("analyst.md", ANALYST)]);
    let gateway = place.serve_with(|command| {
        command.env(KEY.0, KEY.1);
    });
    offers(&gateway, "analyst").await;
    let client = client_with_tasks(&gateway).await;
    let analyse = async |prompt: &str| {
        let arguments = json!({ "prompt": prompt }).as_object().unwrap().clone();
        let params = CallToolRequestParams::new("analyst").with_arguments(arguments);
        client.call_tool_once(params).await.unwrap()
    };
    let task_of = |response: CallToolResponse| match response {
        CallToolResponse::Task(created) => created.task.task_id,
        other => panic!("it took long and is no task: {other:?}"),
    };
    let look = async |id: &str| client.get_task(GetTaskParams::new(id)).await.unwrap().task;
    // From then on the gateway knows that this client follows tasks.
    assert!(client.get_task(GetTaskParams::new("none")).await.is_err());

    let short = analyse("that").await;
    assert!(matches!(short, CallToolResponse::Complete(_)), "{short:?}");
    let id = task_of(analyse("this").await);
    assert_eq!(look(&id).await.status(), TaskStatus::Working);
    fake.release("it is a task");
    let result = eventually("the task is completed", async || match look(&id).await.payload {
        TaskPayload::Completed { result } => Some(result),
        TaskPayload::Working => None,
        other => panic!("{other:?}"),
    })
    .await;
    assert_eq!(result["content"][0]["text"], "analysed at last", "{result:?}");

    let id = task_of(analyse("forever").await);
    client.cancel_task(CancelTaskParams::new(id.as_str())).await.unwrap();
    let endings = eventually("the run of the cancelled task ends", async || {
        let runs = place.json(&["runs", "list"]);
        let endings = runs.as_array()?.iter().map(|run| run["ending"].as_str().map(str::to_owned));
        endings.collect::<Option<Vec<String>>>()
    })
    .await;
    assert_eq!(endings, ["cancelled", "done", "done"], "newest first");
    assert_eq!(look(&id).await.status(), TaskStatus::Cancelled);
    client.cancel().await.unwrap();
}
