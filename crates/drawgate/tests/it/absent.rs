//! Sources that are not there: who may use them hears why, nobody else hears anything, and a doctor who
//! asks has them tried.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Gateway, TestFolder, eventually, reserved_port, text};

/// One server that nobody listens for, one that can't start, one that is switched off.
fn config(address: &str) -> String {
    format!(
        "[servers.down]\nurl = \"http://{address}/mcp\"\n\n\
         [servers.typo]\ncommand = \"no-such-program-anywhere\"\n\n\
         [servers.off]\nurl = \"http://{address}/mcp\"\nenabled = false\n\n\
         [servers.shared]\nurl = \"http://{address}/mcp\"\nenabled = false\ncapabilities = [\"demo\"]\n"
    )
}

async fn call(gateway: &Gateway, token: &str, tool: &str) -> Value {
    gateway.rpc(token, "tools/call", json!({ "name": tool, "arguments": {} })).await
}

fn agent(place: &TestFolder, name: &str, capability: &str) -> String {
    place.ok(&["agents", "add", name, "--quiet", "--capability", capability]).trim().to_owned()
}

#[tokio::test]
async fn who_may_use_a_source_that_is_not_there_hears_why() {
    let (_held, address) = reserved_port();
    let place = TestFolder::new(&config(&address));
    let gateway = place.serve();
    let demo = agent(&place, "demo", "demo");
    for (token, tool, reason) in [
        (&gateway.token, "down__read", "`down` failed: no connection to"),
        (&gateway.token, "down:read", "`down` failed: no connection to"),
        (&gateway.token, "typo__x", "`typo` failed: "),
        (&gateway.token, "off__x", "`off` is disabled in the configuration"),
        (&demo, "shared__x", "`shared` is disabled in the configuration"),
    ] {
        let said = eventually("it is said", async || {
            let answer = call(&gateway, token, tool).await;
            answer["result"]["content"][0]["text"].as_str().map(str::to_owned)
        });
        let said = said.await;
        assert!(said.contains("UNAVAILABLE") && said.contains(reason), "{tool}: {said}");
    }
    for (token, tool) in
        [(&demo, "down__read"), (&demo, "off__x"), (&gateway.token, "nosuch__x"), (&demo, "off")]
    {
        let answer = call(&gateway, token, tool).await;
        assert_eq!(answer["error"]["code"], -32602, "{tool}: {answer}");
        let message = format!("unknown tool `{tool}`");
        assert_eq!(answer["error"]["message"], message.as_str());
    }
}

#[tokio::test]
async fn a_server_that_is_enabled_or_forgotten_is_not_called_disabled() {
    let (_held, address) = reserved_port();
    let place = TestFolder::new(&config(&address));
    let gateway = place.serve();
    let answer = call(&gateway, &gateway.token, "off__x").await;
    assert!(answer.to_string().contains("is disabled"), "{answer}");
    place.configure("");
    eventually("the configuration is in force", async || {
        let answer = call(&gateway, &gateway.token, "off__x").await;
        (answer["error"]["message"] == "unknown tool `off__x`").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_doctor_tries_a_server_at_once() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let place = TestFolder::new(&format!(
        "[servers.one]\nprotocol = \"call\"\nurl = \"http://{address}/call\"\n\n\
         [[servers.one.manifest.tools]]\nname = \"x\"\ndescription = \"x\"\ninputSchema = {{ type = \"object\" }}\n"
    ));
    let gateway = place.serve();
    drop(listener);
    // What is declared is listed, whether anybody is there or not.
    eventually("it is listed", async || {
        let names = gateway.tool_names(&gateway.token).await;
        names.iter().any(|name| name == "one__x").then_some(())
    })
    .await;
    let output = place.run(&["servers", "doctor", "one"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("tried now, and does not work: no connection to"), "{said}");
}

#[tokio::test]
async fn readiness_says_how_many_servers_are_starting() {
    let silent = |name: &str| format!("[servers.{name}]\ncommand = \"sleep\"\nargs = [\"600\"]\n");
    let place = TestFolder::new(&(silent("one") + &silent("two")));
    let gateway = place.serve();
    eventually("both are starting", async || {
        let ready = gateway.send(Method::GET, "/readyz", &[], "").await;
        let said = "ready, but servers are starting: 2\n";
        (ready.status == StatusCode::OK && text(&ready.body) == said).then_some(())
    })
    .await;
}
