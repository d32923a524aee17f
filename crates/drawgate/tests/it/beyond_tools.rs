//! Resources, prompts, completion, subscriptions and log levels, for clients of both eras.

use http::Method;
use serde_json::{Value, json};

use crate::callers::agent;
use crate::load::{events, offers};
use crate::streams::Events;
use crate::support::{Gateway, TestFolder, eventually};

/// Servers of these names, each with resources and prompts.
pub(crate) fn servers_with_resources(names: &[&str], more: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/server.py");
    let each = names.iter().map(|name| {
        format!(
            "[servers.{name}]\ncommand = \"python3\"\nsandbox = \"none\"\nargs = [\"{script}\", \"shelf\", \"{name}\"{more}]\n\
             capabilities = [\"shelf.{name}\"]\n"
        )
    });
    each.collect()
}

async fn ready(place: &TestFolder, servers: &[&str]) -> Gateway {
    let gateway = place.serve();
    for server in servers {
        offers(&gateway, &format!("{server}__echo")).await;
    }
    gateway
}

/// A client of one era.
struct Client<'a> {
    gateway: &'a Gateway,
    token: String,
    session: Option<String>,
}

impl<'a> Client<'a> {
    async fn with_session(gateway: &'a Gateway, token: &str) -> Self {
        let session = Some(gateway.open_session(token).await);
        Self { gateway, token: token.to_owned(), session }
    }

    /// One of each era.
    async fn both(gateway: &'a Gateway, token: &str) -> [Self; 2] {
        let alone = Self { gateway, token: token.to_owned(), session: None };
        [Self::with_session(gateway, token).await, alone]
    }

    async fn ask(&self, method: &str, params: Value) -> Value {
        let Some(session) = &self.session else {
            return self.gateway.rpc(&self.token, method, params).await;
        };
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let headers = [("mcp-session-id", session.as_str())];
        self.gateway.post_as(&self.token, &headers, &message).await.json()
    }

    async fn result(&self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params).await;
        assert!(answer["result"].is_object(), "{method}: {answer}");
        answer["result"].clone()
    }

    async fn code(&self, method: &str, params: Value) -> i64 {
        let answer = self.ask(method, params).await;
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method}: {answer}"))
    }

    async fn read(&self, uri: &str) -> Value {
        self.result("resources/read", json!({ "uri": uri })).await["contents"][0].clone()
    }

    /// The code of what is not there, which differs between the eras.
    fn not_found(&self) -> i64 {
        if self.session.is_some() { -32002 } else { -32602 }
    }

    /// What the server has been told, by its own account.
    async fn heard(&self, server: &str) -> Value {
        let result = self.gateway.call(&self.token, &format!("{server}__heard"), json!({})).await;
        serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
    }

    async fn update(&self, server: &str, uri: &str) {
        let arguments = json!({ "uri": uri });
        let result = self.gateway.call(&self.token, &format!("{server}__update"), arguments).await;
        assert_eq!(result["content"][0]["text"], "told");
    }
}

fn all(list: &Value, key: &str) -> Vec<String> {
    let items = list.as_array().unwrap().iter();
    items.map(|item| item[key].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn resources_are_listed_and_read() {
    let place = TestFolder::new(&servers_with_resources(&["a"], ""));
    let gateway = ready(&place, &["a"]).await;
    for client in Client::both(&gateway, &gateway.token).await {
        let list = client.result("resources/list", json!({})).await;
        assert_eq!(all(&list["resources"], "uri"), ["bytes://a", "note://a", "note://shared"]);
        assert_eq!(list["resources"][2]["x-own"], "a", "what is not known passes on");
        let templates = client.result("resources/templates/list", json!({})).await;
        assert_eq!(all(&templates["resourceTemplates"], "uriTemplate"), ["item://a/{id}"]);
        for (uri, text) in [("note://a", "note://a of a"), ("item://a/5", "item://a/5 of a")] {
            assert_eq!(client.read(uri).await, json!({ "uri": uri, "text": text }));
        }
        assert_eq!(client.read("bytes://a").await["blob"], "AAEC");
        let whole = client.result("resources/read", json!({ "uri": "note://a" })).await;
        assert_eq!(whole["x-own"], true);
        if client.session.is_none() {
            for result in [list, whole] {
                assert_eq!(result["resultType"], "complete");
                assert_eq!(result["cacheScope"], "private");
                assert!(result["ttlMs"].is_u64());
                let server = &result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"];
                assert_eq!(server, "drawgate");
            }
        }
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_resource_is_told() {
    let place = TestFolder::new(&servers_with_resources(&["a"], ""));
    let gateway = ready(&place, &["a"]).await;
    for client in Client::both(&gateway, &gateway.token).await {
        let broken = client.ask("resources/read", json!({ "uri": "note://broken" })).await;
        let told = json!({ "code": -32050, "message": "it is broken", "data": { "part": 7 } });
        assert_eq!(broken["error"], told);
        for uri in ["note://missing", "drawgate://artifacts/00", "drawgate://servers/x/note://a"] {
            let missing = client.ask("resources/read", json!({ "uri": uri })).await;
            assert_eq!(missing["error"]["code"], client.not_found(), "{missing}");
            assert_eq!(missing["error"]["data"]["uri"], uri);
        }
        assert_eq!(client.code("resources/read", json!({ "uri": 5 })).await, -32602);
        for list in ["resources/list", "resources/templates/list", "prompts/list", "tools/list"] {
            assert_eq!(client.code(list, json!({ "cursor": "x" })).await, -32602);
        }
    }
}

#[tokio::test]
async fn prompts_are_listed_given_and_completed() {
    let place = TestFolder::new(&servers_with_resources(&["a"], ""));
    let gateway = ready(&place, &["a"]).await;
    for client in Client::both(&gateway, &gateway.token).await {
        let list = client.result("prompts/list", json!({})).await;
        assert_eq!(all(&list["prompts"], "name"), ["a__greet"]);
        for name in ["a__greet", "greet"] {
            let params = json!({ "name": name, "arguments": { "who": "ann" } });
            let prompt = client.result("prompts/get", params).await;
            assert_eq!(prompt["messages"][0]["content"]["text"], "hello ann from a");
            assert_eq!(prompt.get("ttlMs"), None);
        }
        for params in [
            json!({ "name": "unknown" }),
            json!({ "name": 1 }),
            json!({ "name": "a__greet", "arguments": { "who": 1 } }),
            json!({ "name": "a__greet", "arguments": [] }),
        ] {
            assert_eq!(client.code("prompts/get", params).await, -32602);
        }
        let context = json!({ "arguments": { "x": "y" } });
        let argument = json!({ "name": "who", "value": "a" });
        for (shown, own) in [
            (json!({ "type": "ref/prompt", "name": "a__greet" }), json!("greet")),
            (json!({ "type": "ref/resource", "uri": "item://a/{id}" }), json!("item://a/{id}")),
        ] {
            let params = json!({ "ref": shown, "argument": argument, "context": context });
            let result = client.result("completion/complete", params).await;
            let values = all(&json!([{ "v": result["completion"]["values"][0] }]), "v");
            let seen: Value = serde_json::from_str(&values[0]).unwrap();
            assert_eq!(seen["ref"].get("name").or(seen["ref"].get("uri")), Some(&own));
            assert_eq!((&seen["argument"], &seen["context"]), (&argument, &context));
        }
        for params in [
            json!({ "ref": { "type": "ref/prompt", "name": "unknown" }, "argument": argument }),
            json!({ "ref": { "type": "ref/other" }, "argument": argument }),
            json!({ "ref": { "type": "ref/prompt", "name": "a__greet" } }),
        ] {
            assert_eq!(client.code("completion/complete", params).await, -32602);
        }
    }
}

#[tokio::test]
async fn what_two_servers_share_is_told_apart() {
    let place = TestFolder::new(&servers_with_resources(&["a", "b"], ""));
    let gateway = ready(&place, &["a", "b"]).await;
    for client in Client::both(&gateway, &gateway.token).await {
        let list = client.result("resources/list", json!({})).await;
        let uris = all(&list["resources"], "uri");
        assert_eq!(uris.len(), 6);
        for server in ["a", "b"] {
            let uri = format!("drawgate://servers/{server}/note://shared");
            assert!(uris.contains(&uri), "{uris:?}");
            let text = format!("note://shared of {server}");
            assert_eq!(client.read(&uri).await, json!({ "uri": uri, "text": text }));
            let params = json!({ "name": format!("{server}__greet"), "arguments": { "who": "x" } });
            let prompt = client.result("prompts/get", params).await;
            let text = format!("hello x from {server}");
            assert_eq!(prompt["messages"][0]["content"]["text"], text);
        }
        let several = client.ask("resources/read", json!({ "uri": "note://shared" })).await;
        assert_eq!(several["error"]["code"], -32602);
        assert_eq!(several["error"]["data"]["candidates"].as_array().map(Vec::len), Some(2));
        assert_eq!(client.code("prompts/get", json!({ "name": "greet" })).await, -32602);
    }
}

#[tokio::test]
async fn what_locks_the_tools_locks_the_rest_and_operations_have_terms_of_their_own() {
    let open = servers_with_resources(&["a"], "").replace("capabilities = [\"shelf.a\"]\n", "");
    let terms = "[servers.a.tools.update]\ncapabilities = [\"shelf.admin\"]\n\
                 [servers.a.tools.\"@prompts/get\"]\ncapabilities = [\"shelf.prompts\"]\n";
    let place = TestFolder::new(&format!("{open}{terms}"));
    let gateway = ready(&place, &["a"]).await;
    for (name, resources, prompts) in
        [("none", false, false), ("shelf.admin", true, false), ("shelf.prompts", false, true)]
    {
        let token = agent(&place, name, &[name]);
        for client in Client::both(&gateway, &token).await {
            let list = client.result("resources/list", json!({})).await;
            assert_eq!(!all(&list["resources"], "uri").is_empty(), resources, "{name}");
            let read = client.ask("resources/read", json!({ "uri": "note://a" })).await;
            assert_eq!(read["result"].is_object(), resources, "{name}: {read}");
            let list = client.result("prompts/list", json!({})).await;
            assert_eq!(!all(&list["prompts"], "name").is_empty(), prompts, "{name}");
            let greet = json!({ "name": "a__greet", "arguments": { "who": "x" } });
            let given = client.ask("prompts/get", greet).await;
            assert_eq!(given["result"].is_object(), prompts, "{name}: {given}");
        }
    }
}

#[tokio::test]
async fn a_stranger_can_not_tell_it_from_nothing() {
    let place = TestFolder::new(&servers_with_resources(&["a"], ""));
    let gateway = ready(&place, &["a"]).await;
    let token = agent(&place, "stranger", &["file.read"]);
    for client in Client::both(&gateway, &token).await {
        for (list, member) in [
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
            ("prompts/list", "prompts"),
        ] {
            assert_eq!(client.result(list, json!({})).await[member], json!([]));
        }
        let same = async |method: &str, params: &dyn Fn(&str) -> Value, there: &str, not: &str| {
            let hidden = client.ask(method, params(there)).await.to_string().replace(there, "IT");
            let unknown = client.ask(method, params(not)).await.to_string().replace(not, "IT");
            assert!(hidden.contains("error"), "{method}: {hidden}");
            assert_eq!(hidden, unknown, "{method}");
        };
        let by_uri = |uri: &str| json!({ "uri": uri });
        let by_name = |name: &str| json!({ "name": name });
        let by_ref = |name: &str| json!({ "ref": { "type": "ref/prompt", "name": name }, "argument": { "name": "a", "value": "" } });
        same("resources/read", &by_uri, "note://a", "note://x").await;
        let (there, not) = ("drawgate://servers/a/note://a", "drawgate://servers/x/note://a");
        same("resources/read", &by_uri, there, not).await;
        same("prompts/get", &by_name, "a__greet", "x__greet").await;
        same("completion/complete", &by_ref, "a__greet", "x__greet").await;
        if client.session.is_some() {
            same("resources/subscribe", &by_uri, "note://a", "note://x").await;
        }
    }
    place.ok(&["grants", "add", "shelf.a", "--agent", "stranger"]);
    for client in Client::both(&gateway, &token).await {
        assert_eq!(client.read("note://a").await["text"], "note://a of a");
    }
}

#[tokio::test]
async fn rules_and_the_audit_log_know_of_it() {
    let rule = "[policy.defaults]\nfallback = \"allow\"\n[[policy.rules]]\nid = \"no-reading\"\naction = \"*\"\n\
        when = { toolId = \"b:@resources/*\" }\ndecision = \"deny\"\n";
    let place = TestFolder::new(&format!("{rule}{}", servers_with_resources(&["a", "b"], "")));
    let gateway = ready(&place, &["a", "b"]).await;
    for client in Client::both(&gateway, &gateway.token).await {
        assert_eq!(client.read("note://a").await["text"], "note://a of a");
        let denied = client.ask("resources/read", json!({ "uri": "note://b" })).await;
        assert_eq!(denied["error"]["code"], client.not_found(), "{denied}");
        let params = json!({ "name": "b__greet", "arguments": { "who": "x" } });
        client.result("prompts/get", params).await;
    }
    assert_eq!(gateway.terminate(), Some(0));
    let log = events(&place);
    for id in ["a:@resources/read", "b:@resources/read", "b:@prompts/get"] {
        assert!(log.iter().any(|event| event["toolId"] == id), "{id}");
    }
}

#[tokio::test]
async fn a_session_hears_of_its_resources() {
    let place = TestFolder::new(&servers_with_resources(&["a", "b"], ""));
    let gateway = ready(&place, &["a", "b"]).await;
    let client = Client::with_session(&gateway, &gateway.token).await;
    let session = client.session.clone().unwrap();
    let mut stream = Events::of_session(&gateway, &gateway.token, &session).await;
    let shared = "drawgate://servers/a/note://shared";
    for uri in ["note://a", "note://a", shared] {
        client.result("resources/subscribe", json!({ "uri": uri })).await;
    }
    assert_eq!(client.heard("a").await["subscribed"], json!(["note://a", "note://shared"]));
    assert_eq!(client.heard("b").await["subscribed"], json!([]));
    for (own, shown) in [("note://shared", shared), ("note://a", "note://a")] {
        client.update("a", own).await;
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": shown } });
        assert_eq!(stream.next().await, Some(told));
    }
    client.result("resources/unsubscribe", json!({ "uri": "note://a" })).await;
    client.result("resources/unsubscribe", json!({ "uri": "note://never" })).await;
    assert_eq!(client.heard("a").await["subscribed"], json!(["note://shared"]));
    let missing = json!({ "uri": "other://x" });
    assert_eq!(client.code("resources/subscribe", missing).await, -32002);
    let refused = |event: &Value| event["toolId"] == "@resources/subscribe";
    assert_eq!(events(&place).iter().filter(|event| refused(event)).count(), 1, "in the log");
    let bearer = format!("Bearer {}", gateway.token);
    let headers = [("authorization", bearer.as_str()), ("mcp-session-id", &session)];
    gateway.send(Method::DELETE, "/mcp", &headers, "").await;
    eventually("the end of the session releases them", async || {
        (client.heard("a").await["subscribed"] == json!([])).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_listener_without_a_session_hears_of_its_resources() {
    let place = TestFolder::new(&servers_with_resources(&["a"], ""));
    let gateway = ready(&place, &["a"]).await;
    let [_, client] = Client::both(&gateway, &gateway.token).await;
    let listen = async |notifications: Value| {
        let params = json!({ "notifications": notifications });
        Events::stateless(&gateway, &gateway.token, "subscriptions/listen", params).await
    };
    let wanted = json!({ "resourceSubscriptions": ["note://a", "zzz://", "note://a"] });
    let mut first = listen(wanted.clone()).await;
    let acknowledged = first.next().await.unwrap();
    let granted = &acknowledged["params"]["notifications"];
    assert_eq!(granted["resourceSubscriptions"][0], "note://a", "{acknowledged}");
    let mut second = listen(wanted).await;
    second.next().await.unwrap();
    let mut other = listen(json!({ "promptsListChanged": true })).await;
    other.next().await.unwrap();
    client.update("a", "note://a").await;
    for stream in [&mut first, &mut second] {
        let told = stream.next().await.unwrap();
        assert_eq!(told["method"], "notifications/resources/updated");
        assert_eq!(told["params"]["uri"], "note://a");
        assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
    }
    drop(first);
    gateway.call(&gateway.token, "a__rename", json!({ "name": "hail" })).await;
    let told = other.next().await.unwrap();
    assert_eq!(told["method"], "notifications/prompts/list_changed", "and of nothing else");
    assert!(client.heard("a").await["subscribed"].to_string().contains("note://a"));
    client.update("a", "note://a").await;
    assert_eq!(second.next().await.unwrap()["params"]["uri"], "note://a");
    drop(second);
    eventually("the last listener has left", async || {
        let heard = client.heard("a").await;
        (!heard["subscribed"].to_string().contains("note://a")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn who_loses_the_right_hears_no_more() {
    let place = TestFolder::new(&servers_with_resources(&["a"], ""));
    let gateway = ready(&place, &["a"]).await;
    let token = agent(&place, "ann", &[]);
    let grant = place.ok(&["grants", "add", "shelf.a", "--agent", "ann", "--quiet"]);
    let client = Client::with_session(&gateway, &token).await;
    let session = client.session.clone().unwrap();
    let mut stream = Events::of_session(&gateway, &token, &session).await;
    client.result("resources/subscribe", json!({ "uri": "note://a" })).await;
    let operator = Client::with_session(&gateway, &gateway.token).await;
    operator.update("a", "note://a").await;
    assert_eq!(stream.next().await.unwrap()["method"], "notifications/resources/updated");
    place.ok(&["grants", "revoke", grant.trim()]);
    let mut notices = Vec::new();
    for _ in 0..3 {
        notices.push(stream.next().await.unwrap()["method"].as_str().unwrap().to_owned());
    }
    notices.sort();
    let lists = ["prompts", "resources", "tools"];
    assert_eq!(notices, lists.map(|list| format!("notifications/{list}/list_changed")));
    operator.update("a", "note://a").await;
    place.ok(&["grants", "add", "file.read", "--agent", "ann"]);
    let next = stream.next().await.unwrap();
    assert_eq!(next["method"], "notifications/tools/list_changed", "the update was not told");
}

#[tokio::test]
async fn long_lists_come_whole_and_in_order() {
    let place = TestFolder::new(&servers_with_resources(&["a"], ", \"4000\""));
    let gateway = ready(&place, &["a"]).await;
    let [_, client] = Client::both(&gateway, &gateway.token).await;
    let first = client.result("resources/list", json!({})).await;
    let (mut uris, mut page) = (all(&first["resources"], "uri"), first.clone());
    while let Some(cursor) = page.get("nextCursor") {
        page = client.result("resources/list", json!({ "cursor": cursor })).await;
        uris.extend(all(&page["resources"], "uri"));
    }
    assert_eq!(uris.len(), 4003);
    assert!(uris.is_sorted());
    assert_eq!(client.result("resources/list", json!({})).await, first);
}

#[tokio::test]
async fn a_level_reaches_the_server_if_it_asks_for_more() {
    let place = TestFolder::new(&servers_with_resources(&["a"], ""));
    let gateway = ready(&place, &["a"]).await;
    let client = Client::with_session(&gateway, &gateway.token).await;
    let level = async |level: &str| client.ask("logging/setLevel", json!({ "level": level })).await;
    assert_eq!(level("loud").await["error"]["code"], -32602);
    for name in ["warning", "error", "debug"] {
        assert_eq!(level(name).await["result"], json!({}));
        eventually("the server was told", async || {
            let levels = client.heard("a").await["levels"].clone();
            let last = if name == "error" { "warning" } else { name };
            (levels.as_array().unwrap().last() == Some(&json!(last))).then_some(())
        })
        .await;
    }
    assert_eq!(client.heard("a").await["levels"], json!(["warning", "debug"]));
}

#[tokio::test]
async fn both_eras_are_told_what_there_is() {
    let place = TestFolder::new("");
    let gateway = place.serve();
    let discovered = gateway.rpc(&gateway.token, "server/discover", json!({})).await;
    let capabilities = &discovered["result"]["capabilities"];
    assert_eq!(capabilities["tools"], json!({ "listChanged": true }));
    assert_eq!(capabilities["resources"], json!({ "subscribe": true, "listChanged": true }));
    assert_eq!(capabilities["prompts"], json!({ "listChanged": true }));
    assert_eq!((&capabilities["completions"], &capabilities["logging"]), (&json!({}), &json!({})));
    let [_, alone] = Client::both(&gateway, &gateway.token).await;
    for method in ["logging/setLevel", "resources/subscribe", "resources/unsubscribe", "ping"] {
        assert_eq!(alone.code(method, json!({ "uri": "x" })).await, -32601);
    }
}
