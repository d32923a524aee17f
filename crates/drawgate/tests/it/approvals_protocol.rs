//! Approvals by protocol: a client is told where a person decides, and the page where they do.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::callers::agent;
use crate::load::{events, offers};
use crate::questions::Client;
use crate::support::{Answer, Gateway, TestFolder, text};

/// Writing needs a person's yes; a call is held for `hold` seconds.
fn config(hold: u64) -> String {
    format!(
        "[approvals]\nhold_seconds = {hold}\n[policy.defaults]\nfallback = \"allow\"\n\
         [[policy.rules]]\nid = \"ask\"\naction = \"file.write\"\ndecision = \"allow_with_confirm\"\n\
         riskTags = [\"overwrite\"]\nreason = \"writing is serious\"\n"
    )
}

async fn ready(place: &TestFolder) -> Gateway {
    let gateway = place.serve();
    offers(&gateway, "vfs_write").await;
    gateway
}

fn write(content: &str) -> Value {
    json!({ "path": "a.txt", "content": content })
}

fn url_capability() -> Value {
    json!({ "elicitation": { "url": {} } })
}

async fn alone(gateway: &Gateway, content: &str, state: Option<&Value>) -> Answer {
    let mut params = json!({ "name": "vfs_write", "arguments": write(content), "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": url_capability(),
    } });
    if let Some(state) = state {
        params["requestState"] = state.clone();
        params["inputResponses"] = json!({ "approval": { "action": "accept" } });
    }
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "vfs_write"),
    ];
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    gateway.post_as(&gateway.token, &headers, &message).await
}

/// The path of a page that a client was sent to.
fn path<'a>(gateway: &Gateway, question: &'a Value) -> &'a str {
    let url = question["params"]["url"].as_str().unwrap_or_else(|| panic!("{question}"));
    url.strip_prefix(&format!("http://{}", gateway.address)).unwrap()
}

async fn send_form(gateway: &Gateway, path: &str, form: &str) -> Answer {
    let origin = format!("http://{}", gateway.address);
    let headers =
        [("content-type", "application/x-www-form-urlencoded"), ("origin", origin.as_str())];
    gateway.send(Method::POST, path, &headers, form.to_owned()).await
}

/// Shows the call and returns the key of the form.
async fn key(gateway: &Gateway, path: &str) -> String {
    let shown = send_form(gateway, path, &format!("token={}", gateway.token)).await;
    assert_eq!(shown.status, StatusCode::OK, "{shown:?}");
    let html = text(&shown.body);
    let (_, rest) = html.split_once("name=\"key\" value=\"").unwrap_or_else(|| panic!("{html}"));
    rest.split_once('"').unwrap().0.to_owned()
}

async fn decide(gateway: &Gateway, path: &str, decision: &str) {
    let key = key(gateway, path).await;
    let done = send_form(gateway, path, &format!("key={key}&decision={decision}")).await;
    assert_eq!(done.status, StatusCode::OK, "{done:?}");
}

fn code(answer: &Value) -> &str {
    answer["result"]["_meta"]["drawgate/error"]["code"].as_str().unwrap_or("OK")
}

#[tokio::test]
async fn a_client_without_session_is_sent_to_a_page() {
    let place = TestFolder::new(&config(0));
    let gateway = ready(&place).await;
    // What is edited later does not take the page away.
    place.configure(&config(1));
    for (decision, expected) in [("approve", "OK"), ("deny", "PERMISSION_DENIED")] {
        let asked = alone(&gateway, decision, None).await.json();
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let question = &asked["result"]["inputRequests"]["approval"];
        assert_eq!(question["params"]["mode"], "url");
        let state = &asked["result"]["requestState"];
        let early = alone(&gateway, decision, Some(state)).await.json();
        assert_eq!(code(&early), "PERMISSION_ESCALATION_REQUIRED", "{early}");
        decide(&gateway, path(&gateway, question), decision).await;
        let other = alone(&gateway, "other arguments", Some(state)).await;
        assert_eq!(other.rpc_code(), Some(-32602), "{other:?}");
        let done = alone(&gateway, decision, Some(state)).await.json();
        assert_eq!(code(&done), expected, "{done}");
    }
    let decided: Vec<Value> = events(&place)
        .into_iter()
        .filter(|event| event["kind"] == "approval_decided")
        .map(|event| event["approved"].clone())
        .collect();
    assert_eq!(decided, [json!(true), json!(false)]);
}

#[tokio::test]
async fn a_client_with_a_session_is_sent_there_and_its_call_goes_on() {
    let place = TestFolder::new(&config(60));
    let gateway = ready(&place).await;
    let client = Client::open(&gateway, &url_capability()).await;
    for (decision, expected) in [("approve", "OK"), ("deny", "PERMISSION_DENIED")] {
        for answers_first in [true, false] {
            let content = format!("{decision} {answers_first}");
            let mut events = client.call("vfs_write", write(&content)).await;
            let question = events.next().await.unwrap();
            assert_eq!(question["method"], "elicitation/create", "{question}");
            let page = path(&gateway, &question);
            assert!(page.ends_with(question["params"]["elicitationId"].as_str().unwrap()));
            if answers_first {
                client.answer(&question, "result", json!({ "action": "accept" })).await;
            }
            decide(&gateway, page, decision).await;
            let notice = events.next().await.unwrap();
            assert_eq!(notice["method"], "notifications/elicitation/complete", "{notice}");
            assert_eq!(notice["params"]["elicitationId"], question["params"]["elicitationId"]);
            if !answers_first {
                let withdrawn = events.next().await.unwrap();
                assert_eq!(withdrawn["method"], "notifications/cancelled");
                assert_eq!(withdrawn["params"]["requestId"], question["id"]);
            }
            let done = events.next().await.unwrap();
            assert_eq!(code(&done), expected, "{done}");
            assert_eq!(events.next().await, None);
        }
    }
}

#[tokio::test]
async fn a_client_that_gives_up_leaves_the_approval_to_the_next_call() {
    let place = TestFolder::new(&config(60));
    let gateway = ready(&place).await;
    let client = Client::open(&gateway, &url_capability()).await;
    let mut events = client.call("vfs_write", write("x")).await;
    let question = events.next().await.unwrap();
    client
        .post(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 5 } }))
        .await;
    assert_eq!(events.next().await.unwrap()["params"]["requestId"], question["id"]);
    assert_eq!(code(&events.next().await.unwrap()), "CANCELLED");
    decide(&gateway, path(&gateway, &question), "approve").await;
    let done = client.call("vfs_write", write("x")).await.whole().await;
    assert_eq!(code(&done[0]), "OK", "{done:?}");
}

#[tokio::test]
async fn any_other_client_waits_as_before() {
    let place = TestFolder::new(&config(0));
    let gateway = ready(&place).await;
    for capabilities in [json!({}), json!({ "elicitation": {} })] {
        let client = Client::open(&gateway, &capabilities).await;
        let done = client.call("vfs_write", write("x")).await.whole().await;
        assert_eq!(code(&done[0]), "PERMISSION_ESCALATION_REQUIRED", "{done:?}");
    }
}

#[tokio::test]
async fn the_page_tells_nothing_before_the_token_and_everything_after() {
    let place = TestFolder::new(&config(0));
    let gateway = ready(&place).await;
    let content = "<script>alert(1)</script> \u{202e}hidden\u{200b} '\"& \u{7} end of the text";
    let asked = alone(&gateway, content, None).await.json();
    let question = asked["result"]["inputRequests"]["approval"].clone();
    let page = path(&gateway, &question);
    let first = gateway.send(Method::GET, page, &[], "").await;
    assert_eq!(first.status, StatusCode::OK);
    let html = text(&first.body);
    assert!(!html.contains("drawgate approvals"), "a program may read it too: {html}");
    assert!(!html.contains("vfs_write") && !html.contains("writing is serious"), "{html}");
    // A page that is none looks the same.
    let none = gateway.send(Method::GET, "/approvals/aaaaaaaaaaaaaaaaaaaa", &[], "").await;
    assert_eq!(none.status, StatusCode::OK);
    let policy = first.headers["content-security-policy"].to_str().unwrap();
    for part in ["default-src 'none'", "form-action 'self'", "style-src 'sha256-"] {
        assert!(policy.contains(part), "{policy}");
    }
    for (name, value) in [
        ("x-frame-options", "DENY"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),
    ] {
        assert_eq!(first.headers[name], value);
    }
    let shown = send_form(&gateway, page, &format!("token={}", gateway.token)).await;
    let html = text(&shown.body);
    for part in ["builtin:vfs_write", "local", "writing is serious", "overwrite", "end of the text"]
    {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert!(html.contains("&lt;script&gt;") && !html.contains("<script>"), "{html}");
    assert!(!html.contains('\u{202e}') && html.contains("\\u{202e}"), "{html}");
    assert!(!html.contains(&gateway.token), "{html}");
}

#[tokio::test]
async fn only_the_operator_decides_once_and_here() {
    let place = TestFolder::new(&config(0));
    let gateway = ready(&place).await;
    let other = agent(&place, "other", &["file.*"]);
    let asked = alone(&gateway, "x", None).await.json();
    let question = asked["result"]["inputRequests"]["approval"].clone();
    let page = path(&gateway, &question);
    for token in ["wrong", other.as_str(), ""] {
        let refused = send_form(&gateway, page, &format!("token={token}")).await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED, "{token}");
        assert!(!text(&refused.body).contains("vfs_write"));
    }
    let refusals: Vec<Value> =
        events(&place).into_iter().filter(|event| event["kind"] == "caller_refused").collect();
    assert_eq!(refusals.len(), 3);
    assert_eq!(refusals[0]["reason"], "approval_page");
    for form in ["decision=approve", "key=made-up&decision=approve", "token=a&token=b", "x=1"] {
        let refused = send_form(&gateway, page, form).await;
        assert!(refused.status.is_client_error(), "{form}: {refused:?}");
    }
    // A key counts for its own call, once.
    let key = key(&gateway, page).await;
    let form = format!("key={key}&decision=approve");
    let foreign = send_form(&gateway, "/approvals/aaaaaaaaaaaaaaaaaaaa", &form).await;
    assert_eq!(foreign.status, StatusCode::FORBIDDEN);
    assert_eq!(send_form(&gateway, page, &form).await.status, StatusCode::FORBIDDEN);
    // Another site's form is not taken.
    for origin in ["https://evil.example", "null"] {
        let headers = [("content-type", "application/x-www-form-urlencoded"), ("origin", origin)];
        let body = format!("token={}", gateway.token);
        let refused = gateway.send(Method::POST, page, &headers, body).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{origin}");
    }
    let waiting = place.json(&["approvals", "list"]);
    assert_eq!(waiting[0]["state"], "pending", "{waiting}");
    decide(&gateway, page, "approve").await;
    let late = send_form(&gateway, page, &format!("token={}", gateway.token)).await;
    assert_eq!(late.status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn wrong_tokens_are_slowed_down_and_the_right_one_is_not() {
    let place = TestFolder::new(&config(0));
    let gateway = ready(&place).await;
    let asked = alone(&gateway, "x", None).await.json();
    let question = asked["result"]["inputRequests"]["approval"].clone();
    let page = path(&gateway, &question);
    let mut statuses = Vec::new();
    for number in 0..12 {
        statuses.push(send_form(&gateway, page, &format!("token=wrong{number}")).await.status);
    }
    assert!(statuses.iter().take(10).all(|status| *status == StatusCode::UNAUTHORIZED));
    assert!(statuses.iter().skip(10).all(|status| *status == StatusCode::TOO_MANY_REQUESTS));
    let right = send_form(&gateway, page, &format!("token={}", gateway.token)).await;
    assert_eq!(right.status, StatusCode::OK, "strangers must not shut the operator out");
    let wrong = send_form(&gateway, page, "token=wrong").await;
    assert_eq!(wrong.status, StatusCode::TOO_MANY_REQUESTS, "a right one forgives nothing");
    let refused = events(&place).into_iter().filter(|event| event["kind"] == "caller_refused");
    assert_eq!(refused.count(), 10, "more than these are not written down");
}

#[tokio::test]
async fn a_question_is_no_success_anywhere() {
    let place = TestFolder::new(&config(0));
    let gateway = ready(&place).await;
    alone(&gateway, "x", None).await;
    let outcomes: Vec<Value> =
        events(&place).into_iter().filter(|event| event["kind"] == "outcome").collect();
    assert_eq!(outcomes.len(), 1, "{outcomes:?}");
    assert_eq!((&outcomes[0]["success"], &outcomes[0]["code"]), (&json!(false), &json!("ASKED")));
    let tail = place.ok(&["audit", "tail"]);
    let line = tail.lines().find(|line| line.contains("outcome")).unwrap();
    assert!(line.contains("ASKED") && !line.contains("OK"), "{line}");
    let bearer = format!("Bearer {}", gateway.token);
    let metrics = gateway.send(Method::GET, "/metrics", &[("authorization", &bearer)], "").await;
    let metrics = text(&metrics.body);
    let counted = |code: &str| {
        let code = format!("code=\"{code}\"");
        let calls = metrics.lines().filter(|line| line.starts_with("drawgate_calls_total"));
        let own = calls.filter(|line| line.contains("builtin:vfs_write") && line.contains(&code));
        own.filter(|line| line.ends_with(" 1")).count()
    };
    assert_eq!((counted("ASKED"), counted("OK")), (1, 0), "{metrics}");
}

/// Everything that the gateway keeps.
fn kept(place: &TestFolder) -> String {
    let files = std::fs::read_dir(place.data()).unwrap().map(|entry| entry.unwrap().path());
    files.filter_map(|path| std::fs::read(path).ok()).map(|bytes| text(&bytes)).collect()
}

#[tokio::test]
async fn a_person_can_unfold_what_is_masked_and_nothing_keeps_it() {
    let place = TestFolder::new(&config(0));
    let gateway = ready(&place).await;
    let content = "deploy --token=hunter2secret$(rm -rf /) <now>";
    let asked = alone(&gateway, content, None).await.json();
    let question = asked["result"]["inputRequests"]["approval"].clone();
    let page = path(&gateway, &question);
    let show = async |gateway: &Gateway| {
        text(&send_form(gateway, page, &format!("token={}", gateway.token)).await.body)
    };
    let html = show(&gateway).await;
    assert!(html.contains("--token=[REDACTED: 13 characters, digest "), "{html}");
    assert!(html.contains("]$(rm -rf /) &lt;now&gt;"), "{html}");
    let (_, folded) = html.split_once("<details>").unwrap_or_else(|| panic!("{html}"));
    assert!(folded.contains("deploy --token=hunter2secret$(rm -rf /) &lt;now&gt;"), "{html}");
    assert!(!kept(&place).contains("hunter2secret"));
    let id = page.rsplit('/').next().unwrap();
    let shown = place.ok(&["approvals", "show", id]);
    assert!(!shown.contains("hunter2secret") && shown.contains("--reveal"), "{shown}");
    assert_eq!(gateway.terminate(), Some(0));
    let gateway = ready(&place).await;
    let html = show(&gateway).await;
    assert!(html.contains("what they hide is not kept") && !html.contains("<details>"), "{html}");
    alone(&gateway, content, None).await;
    assert!(show(&gateway).await.contains("<details>"), "the same call brings it back");
    let plain = alone(&gateway, "nothing to hide", None).await.json();
    let question = plain["result"]["inputRequests"]["approval"].clone();
    let form = format!("token={}", gateway.token);
    let html = text(&send_form(&gateway, path(&gateway, &question), &form).await.body);
    assert!(!html.contains("<details>") && !html.contains("masked"), "{html}");
}

#[tokio::test]
async fn the_page_says_whether_a_call_waits() {
    let place = TestFolder::new(&config(0));
    let gateway = ready(&place).await;
    let asked = alone(&gateway, "x", None).await.json();
    let question = asked["result"]["inputRequests"]["approval"].clone();
    let page = path(&gateway, &question);
    let shown = send_form(&gateway, page, &format!("token={}", gateway.token)).await;
    assert!(text(&shown.body).contains("no call waits for your answer"), "{shown:?}");
    let form = format!("key={}&decision=approve", key(&gateway, page).await);
    let done = text(&send_form(&gateway, page, &form).await.body);
    assert!(
        done.contains("the next call of `local` with the same arguments passes, once, until"),
        "{done}"
    );
    let later = send_form(&gateway, page, &format!("token={}", gateway.token)).await;
    let later = text(&later.body);
    assert!(later.contains("This call was approved at"), "{later}");
    assert_eq!(code(&alone(&gateway, "x", None).await.json()), "OK");
    let used = send_form(&gateway, page, &format!("token={}", gateway.token)).await;
    assert!(text(&used.body).contains("was approved, and was made at"), "{used:?}");

    let place = TestFolder::new(&config(60));
    let gateway = ready(&place).await;
    let held = gateway.call(&gateway.token, "vfs_write", write("y"));
    let decide = async {
        let approval = crate::support::eventually("a held call", async || {
            let list = place.json(&["approvals", "list"]);
            list[0]["isAwaited"].as_bool().filter(|awaited| *awaited).map(|_| list[0].clone())
        })
        .await;
        let page = format!("/approvals/{}", approval["id"].as_str().unwrap());
        let shown = send_form(&gateway, &page, &format!("token={}", gateway.token)).await;
        assert!(text(&shown.body).contains("a call waits for your answer"), "{shown:?}");
        let form = format!("key={}&decision=approve", key(&gateway, &page).await);
        let done = text(&send_form(&gateway, &page, &form).await.body);
        assert!(done.contains("Approved: the call that waits goes on"), "{done}");
    };
    let (result, ()) = tokio::join!(held, decide);
    assert_eq!(result["isError"], Value::Null, "{result}");
}
