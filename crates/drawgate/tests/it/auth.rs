//! Callers with tokens of an authorization server: which tokens count, and for what.

mod forged;
mod issuer;

use std::sync::Arc;

use axum::Router;
use axum::routing::post;
use forged::Forged;
use http::{HeaderMap, Method, StatusCode};
use issuer::{Issuer, Key};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::callers::{agent, ready};
use crate::load::events;
use crate::support::{Answer, Gateway, TestFolder, eventually, reserved_port};

const SCOPES: &str = r#"
[auth.scopes]
"files.read" = ["file.read"]
"files.write" = ["file.write"]
all = ["file.*", "echo"]
"#;

/// Far away, but a date.
const LATE: u64 = 4_102_444_800;

/// What the issuer signs with.
struct Keys {
    rsa: Key,
    ec: Key,
    ed: Key,
    /// A good token of an RSA key that is too small.
    small: String,
}

impl Keys {
    fn new() -> Self {
        Self {
            rsa: Key::rsa(),
            ec: Key::ec(),
            ed: Key::ed(),
            small: small()["token"].as_str().unwrap().to_owned(),
        }
    }

    /// All of them, and some that no token may use.
    fn published(&self) -> Vec<Value> {
        let with = |kid: &str, name: &str, value: Value| {
            let mut key = self.ed.public(kid);
            key[name] = value;
            key
        };
        vec![
            self.rsa.public("rsa"),
            self.ec.public("ec"),
            Key::ec().public("ec2"),
            self.ed.public("ed"),
            small()["key"].clone(),
            json!({ "kty": "oct", "kid": "oct", "k": issuer::encode("0123456789abcdef0123456789abcdef") }),
            with("enc", "use", json!("enc")),
            with("wrap", "key_ops", json!(["wrapKey"])),
            with("misnamed", "alg", json!("RS256")),
            json!({ "kty": "EC", "crv": "P-256", "kid": "short", "x": "AA", "y": "AA" }),
            json!("not a key"),
        ]
    }

    fn token(&self, change: &Value) -> String {
        self.ed.token(&header("EdDSA", "ed").to_string(), &claims(change).to_string())
    }

    fn scoped(&self, scope: &str) -> String {
        self.token(&json!({ "scope": scope }))
    }
}

fn small() -> Value {
    serde_json::from_str(include_str!("auth/small_rsa.json")).unwrap()
}

fn header(alg: &str, kid: &str) -> Value {
    json!({ "alg": alg, "kid": kid, "typ": "at+jwt" })
}

/// Good claims, after a change.
fn claims(change: &Value) -> Value {
    let mut claims = json!({
        "iss": "https://login.example",
        "aud": "https://gate.example/mcp",
        "sub": "alice",
        "exp": LATE,
        "scope": "files.read",
    });
    for (name, value) in change.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

/// A configuration that takes the tokens of these tests.
fn config(jwks_url: &str) -> String {
    format!(
        "[auth]\nissuer = \"https://login.example\"\naudience = \"https://gate.example/mcp\"\n\
         jwks_url = \"{jwks_url}\"\n{SCOPES}"
    )
}

async fn list(gateway: &Gateway, token: &str) -> Answer {
    gateway.stateless(token, "tools/list", json!({})).await
}

fn challenge(gateway: &Gateway) -> String {
    let address = &gateway.address;
    format!(
        "Bearer realm=\"drawgate\", \
         resource_metadata=\"http://{address}/.well-known/oauth-protected-resource/mcp\""
    )
}

#[tokio::test]
async fn forged_tokens_are_refused() {
    let keys = Keys::new();
    let issuer = Issuer::start(keys.published()).await;
    let place = TestFolder::new("");
    // An agent that is older than the section has a name that a token would like to have.
    place.ok(&["agents", "add", "oauth-older", "--quiet"]);
    place.configure(&config(&issuer.jwks_url()));
    let gateway = ready(&place).await;
    assert_eq!(list(&gateway, &keys.token(&json!({}))).await.status, StatusCode::OK);
    let expected = format!("{}, error=\"invalid_token\"", challenge(&gateway));
    let forged = forged::all(&keys);
    assert!(forged.len() > 100, "{}", forged.len());
    for Forged { name, reason, token } in &forged {
        let before = counted(&gateway, reason).await;
        let answer = list(&gateway, token).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{name}: {token}");
        assert_eq!(answer.headers["www-authenticate"], expected, "{name}");
        assert_eq!(&answer.body[..], b"unauthorized: this token is not accepted\n", "{name}");
        assert_eq!(counted(&gateway, reason).await, before + 1, "{name} is not {reason}");
    }
    // Unknown keys made it look once more, not once each.
    assert_eq!(issuer.looks(), 2);
    assert_eq!(list(&gateway, &keys.token(&json!({}))).await.status, StatusCode::OK);
    check_notes(&place, &forged);
}

/// How many callers were refused for a reason.
async fn counted(gateway: &Gateway, reason: &str) -> u64 {
    let bearer = format!("Bearer {}", gateway.token);
    let metrics = gateway.send(Method::GET, "/metrics", &[("authorization", &bearer)], "").await;
    let name = format!("drawgate_refused_callers_total{{reason=\"{reason}\"}} ");
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    text.lines().find_map(|line| line.strip_prefix(&name)).map_or(0, |count| count.parse().unwrap())
}

/// Refusals are written down, without the tokens.
fn check_notes(place: &TestFolder, forged: &[Forged]) {
    let refused: Vec<Value> =
        events(place).into_iter().filter(|event| event["kind"] == "caller_refused").collect();
    assert!(refused.len() >= 60, "{}", refused.len());
    let text = serde_json::to_string(&refused).unwrap();
    for reason in
        ["jwt_algorithm", "jwt_key", "jwt_header", "jwt_audience", "jwt_issuer", "jwt_expired"]
    {
        assert!(text.contains(reason), "{reason}: {text}");
    }
    let log = place.log();
    for Forged { name, token, .. } in forged.iter().filter(|forged| forged.token.len() > 40) {
        assert!(!text.contains(token) && !log.contains(token), "{name}");
    }
}

/// The token of the small key is good in every other way.
#[test]
fn the_small_key_has_signed_its_token() {
    use base64::Engine as _;
    let decode =
        |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(text).unwrap();
    let small = small();
    let key = ring::rsa::PublicKeyComponents {
        n: decode(small["key"]["n"].as_str().unwrap()),
        e: decode(small["key"]["e"].as_str().unwrap()),
    };
    let (signed, signature) = small["token"].as_str().unwrap().rsplit_once('.').unwrap();
    let rule = &ring::signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY;
    key.verify(rule, signed.as_bytes(), &decode(signature)).unwrap();
    let (_, body) = signed.split_once('.').unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&decode(body)).unwrap(), claims(&json!({})));
}

#[tokio::test]
async fn good_tokens_of_every_kind_are_taken() {
    let keys = Keys::new();
    let issuer = Issuer::start(keys.published()).await;
    let place = TestFolder::new(&config(&issuer.jwks_url()));
    let gateway = ready(&place).await;
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let plain = claims(&json!({})).to_string();
    let mut tokens = vec![
        ("RS256", keys.rsa.token(&header("RS256", "rsa").to_string(), &plain)),
        ("ES256", keys.ec.token(&header("ES256", "ec").to_string(), &plain)),
        ("EdDSA", keys.ed.token(&header("EdDSA", "ed").to_string(), &plain)),
        ("the only key of its kind", keys.ed.token(r#"{"alg":"EdDSA"}"#, &plain)),
    ];
    for kind in ["JWT", "jwt", "AT+JWT", "application/at+jwt"] {
        let header = json!({ "alg": "EdDSA", "kid": "ed", "typ": kind, "x5t": "ignored" });
        tokens.push((kind, keys.ed.token(&header.to_string(), &plain)));
    }
    for (name, change) in [
        (
            "one audience of several",
            json!({ "aud": ["https://a.example", "https://gate.example/mcp"] }),
        ),
        ("just ended", json!({ "exp": now - 30 })),
        ("about to begin", json!({ "nbf": now + 30 })),
        ("a fraction", json!({ "exp": 4_102_444_800.5 })),
        ("a long life", json!({ "exp": 253_402_300_799_u64 })),
        ("other claims", json!({ "jti": "1", "client_id": "c", "cnf": { "a": [1] } })),
    ] {
        tokens.push((name, keys.token(&change)));
    }
    for (name, token) in tokens {
        let answer = list(&gateway, &token).await;
        assert_eq!(answer.status, StatusCode::OK, "{name}: {answer:?}");
    }
    assert_eq!(issuer.looks(), 1);
}

#[tokio::test]
async fn algorithms_are_the_operators_choice() {
    let keys = Keys::new();
    let issuer = Issuer::start(keys.published()).await;
    let only = config(&issuer.jwks_url()).replacen("[auth]", "[auth]\nalgorithms = [\"ES256\"]", 1);
    let place = TestFolder::new(&only);
    let gateway = ready(&place).await;
    let plain = claims(&json!({})).to_string();
    let status = async |key: &Key, alg: &str, kid: &str| {
        list(&gateway, &key.token(&header(alg, kid).to_string(), &plain)).await.status.as_u16()
    };
    assert_eq!(status(&keys.ec, "ES256", "ec").await, 200);
    assert_eq!(status(&keys.ed, "EdDSA", "ed").await, 401);
    assert_eq!(status(&keys.rsa, "RS256", "rsa").await, 401);
}

#[tokio::test]
async fn scopes_decide_what_is_listed_and_called() {
    let keys = Keys::new();
    let issuer = Issuer::start(keys.published()).await;
    let place = TestFolder::new(&config(&issuer.jwks_url()));
    let gateway = ready(&place).await;
    let local = agent(&place, "writer", &["file.write"]);
    let reading = ["vfs_list", "vfs_read"];
    let files = ["vfs_delete", "vfs_list", "vfs_read", "vfs_write"];
    let everything = [&files[..], &["web_fetch"]].concat();
    let cases: [(Value, &[&str]); 8] = [
        (json!({ "scope": "files.read" }), &reading),
        (json!({ "scope": "openid files.write files.read" }), &files),
        (json!({ "scope": "all" }), &files),
        (json!({ "scope": null, "scp": ["files.read"] }), &[]),
        (json!({ "scope": ["files.read", 7] }), &reading),
        (json!({ "scope": "files.readX files FILES.READ file.read *" }), &[]),
        (json!({ "scope": "" }), &[]),
        (json!({ "scope": { "files.read": true } }), &[]),
    ];
    // In turn and again, so that one token's list could be kept for another.
    for _ in 0..2 {
        for (change, names) in &cases {
            assert_eq!(gateway.tool_names(&keys.token(change)).await, *names, "{change}");
        }
        assert_eq!(gateway.tool_names(&local).await, ["vfs_delete", "vfs_write"]);
        assert_eq!(gateway.tool_names(&gateway.token).await, everything);
    }
    let mut without = claims(&json!({ "scp": "files.read" }));
    without.as_object_mut().unwrap().remove("scope");
    let scp = keys.ed.token(&header("EdDSA", "ed").to_string(), &without.to_string());
    assert_eq!(gateway.tool_names(&scp).await, reading);

    let write = json!({ "path": "a.txt", "content": "b" });
    let refused = gateway
        .rpc(
            &keys.scoped("files.read"),
            "tools/call",
            json!({ "name": "vfs_write", "arguments": write }),
        )
        .await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let done = gateway.call(&keys.scoped("files.write"), "vfs_write", write).await;
    assert_eq!(done["isError"], Value::Null, "{done}");
}

/// A session is a name, not a right: each request stands by its own token.
#[tokio::test]
async fn a_session_holds_no_scopes() {
    let keys = Keys::new();
    let issuer = Issuer::start(keys.published()).await;
    let place = TestFolder::new(&config(&issuer.jwks_url()));
    let gateway = ready(&place).await;
    let session = gateway.open_session(&keys.scoped("all")).await;
    let count = async |token: &str| {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        let answer = gateway.post_as(token, &[("mcp-session-id", &session)], &message).await;
        (answer.status.as_u16(), answer.json()["result"]["tools"].as_array().map(Vec::len))
    };
    assert_eq!(count(&keys.scoped("all")).await, (200, Some(4)));
    assert_eq!(count(&keys.scoped("files.read")).await, (200, Some(2)));
    assert_eq!(count(&keys.scoped("none")).await, (200, Some(0)));
    assert_eq!(count(&keys.token(&json!({ "sub": "bob", "scope": "all" }))).await, (404, None));
}

#[tokio::test]
async fn the_audit_log_names_the_caller_and_the_scope() {
    let keys = Keys::new();
    let issuer = Issuer::start(keys.published()).await;
    let place = TestFolder::new(&config(&issuer.jwks_url()));
    let gateway = ready(&place).await;
    let token = keys.token(&json!({ "sub": "auth0|5f_7c" }));
    gateway.call(&token, "vfs_list", json!({})).await;
    let events = events(&place);
    let text = serde_json::to_string(&events).unwrap();
    let call: Vec<&Value> =
        events.iter().filter(|event| event["principal"] == "oauth-auth0_7c5f_5f7c").collect();
    assert!(!call.is_empty(), "{text}");
    assert!(serde_json::to_string(&call).unwrap().contains("\"oauth:files.read\""), "{text}");
    assert!(!text.contains(&token));
    // Such a name can be granted more, but never be a local agent's.
    place.ok(&["grants", "add", "file.write", "--agent", "oauth-auth0_7c5f_5f7c"]);
    assert_eq!(gateway.tool_names(&token).await.len(), 4);
    let refused = place.run(&["agents", "add", "oauth-x"]);
    assert!(!refused.status.success());
    assert!(String::from_utf8(refused.stderr).unwrap().contains("`auth.issuer`"));
}

#[tokio::test]
async fn keys_may_change_at_the_issuer() {
    let keys = Keys::new();
    let issuer = Issuer::start(keys.published()).await;
    let place = TestFolder::new(&config(&issuer.jwks_url()));
    let gateway = ready(&place).await;
    let old = keys.token(&json!({}));
    assert_eq!(list(&gateway, &old).await.status, StatusCode::OK);
    let next = Key::ed();
    issuer.publish(vec![next.public("next")]);
    let new = next.token(&header("EdDSA", "next").to_string(), &claims(&json!({})).to_string());
    // Many at once are served by one look.
    let gateway = Arc::new(gateway);
    let callers = (0..20).map(|_| {
        let (gateway, new) = (Arc::clone(&gateway), new.clone());
        tokio::spawn(async move { list(&gateway, &new).await.status })
    });
    for caller in callers.collect::<Vec<_>>() {
        assert_eq!(caller.await.unwrap(), StatusCode::OK);
    }
    assert_eq!(issuer.looks(), 2);
    assert_eq!(list(&gateway, &old).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(issuer.looks(), 2);
    // Without the issuer the keys stay.
    drop(issuer);
    assert_eq!(list(&gateway, &new).await.status, StatusCode::OK);
}

#[tokio::test]
async fn an_issuer_that_is_down_harms_nobody_else() {
    let keys = Keys::new();
    let (reserved, address) = reserved_port();
    let place = TestFolder::new(&config(&format!("http://{address}/jwks")));
    let gateway = ready(&place).await;
    let token = keys.token(&json!({}));
    let answer = list(&gateway, &token).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.headers["retry-after"], "5");
    assert!(!answer.headers.contains_key("www-authenticate"));
    assert_eq!(gateway.tool_names(&gateway.token).await.len(), 5);
    let _issuer = Issuer::start_on(reserved.listen(128).unwrap(), keys.published());
    eventually("the keys are there", async || {
        (list(&gateway, &token).await.status == StatusCode::OK).then_some(())
    })
    .await;
}

#[tokio::test]
async fn keys_are_found_by_the_issuers_metadata() {
    tokio::join!(
        check_metadata("", ".well-known/oauth-authorization-server"),
        check_metadata("", ".well-known/openid-configuration"),
        check_metadata("/realms/x", ".well-known/oauth-authorization-server/realms/x"),
        check_metadata("/realms/x", "realms/x/.well-known/openid-configuration"),
    );
}

async fn check_metadata(path: &str, document: &str) {
    let keys = Keys::new();
    let issuer = Issuer::start(keys.published()).await;
    let name = format!("http://{}{path}", issuer.address);
    let place = TestFolder::new(&format!("[auth]\nissuer = \"{name}\"\n{SCOPES}"));
    // Metadata of somebody else is nobody's.
    let wrong = json!({ "issuer": format!("{name}/"), "jwks_uri": issuer.jwks_url() });
    issuer.describe(json!({ document: wrong }));
    let gateway = ready(&place).await;
    let resource = format!("http://{}/mcp", gateway.address);
    let token = keys.token(&json!({ "iss": name, "aud": resource }));
    assert_eq!(list(&gateway, &token).await.status, StatusCode::SERVICE_UNAVAILABLE);
    let metadata = json!({ "issuer": name, "jwks_uri": issuer.jwks_url() });
    issuer.describe(json!({ document: metadata }));
    eventually("the metadata is read", async || {
        (list(&gateway, &token).await.status == StatusCode::OK).then_some(())
    })
    .await;
}

#[tokio::test]
async fn clients_are_told_where_tokens_come_from() {
    let issuer = Issuer::start(Vec::new()).await;
    let public = "[server]\npublic_url = \"https://gate.example\"\n\
        allowed_hosts = [\"gate.example\"]\n";
    let place = TestFolder::new(&format!("{public}{}", config(&issuer.jwks_url())));
    let gateway = ready(&place).await;
    for path in
        ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"]
    {
        let answer = gateway.send(Method::GET, path, &[], "").await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(answer.headers["content-type"], "application/json");
        let expected = json!({
            "resource": "https://gate.example/mcp",
            "authorization_servers": ["https://login.example"],
            "scopes_supported": ["all", "files.read", "files.write"],
            "bearer_methods_supported": ["header"],
            "resource_name": "Drawgate",
        });
        assert_eq!(answer.json(), expected);
        // A page of another site learns nothing.
        let page = [("origin", "https://evil.example")];
        assert_eq!(gateway.send(Method::GET, path, &page, "").await.status, StatusCode::FORBIDDEN);
    }
    let other = "/.well-known/oauth-protected-resource/other";
    let answer = gateway.send(Method::GET, other, &[], "").await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    let metadata = "https://gate.example/.well-known/oauth-protected-resource/mcp";
    assert_eq!(
        answer.headers["www-authenticate"],
        format!("Bearer realm=\"drawgate\", resource_metadata=\"{metadata}\"")
    );
}

#[tokio::test]
async fn without_the_section_there_is_nothing_of_it() {
    let keys = Keys::new();
    let place = TestFolder::new("");
    let gateway = ready(&place).await;
    for path in
        ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"]
    {
        let answer = gateway.send(Method::GET, path, &[], "").await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND);
    }
    let answer = list(&gateway, &keys.token(&json!({}))).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    let expected = "Bearer realm=\"drawgate\", error=\"invalid_token\"";
    assert_eq!(answer.headers["www-authenticate"], expected);
}

#[tokio::test]
async fn a_token_in_the_address_is_refused() {
    let keys = Keys::new();
    let issuer = Issuer::start(keys.published()).await;
    let place = TestFolder::new(&config(&issuer.jwks_url()));
    let gateway = ready(&place).await;
    let tokens = [keys.token(&json!({})), gateway.token.clone()];
    for token in &tokens {
        let bearer = format!("Bearer {token}");
        for headers in [&[][..], &[("authorization", bearer.as_str())]] {
            for query in [format!("access_token={token}"), format!("a=b&Access_Token={token}&c")] {
                let path = format!("/mcp?{query}");
                let answer = gateway.send(Method::POST, &path, headers, "{}").await;
                assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{query}");
                let expected = format!("{}, error=\"invalid_token\"", challenge(&gateway));
                assert_eq!(answer.headers["www-authenticate"], expected);
            }
        }
    }
}

/// A caller's token is passed on to nobody.
#[tokio::test]
async fn tokens_are_not_passed_on() {
    let keys = Keys::new();
    let issuer = Issuer::start(keys.published()).await;
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let keep = {
        let seen = Arc::clone(&seen);
        move |headers: HeaderMap, body: String| async move {
            seen.lock().push(format!("{headers:?} {body}"));
            r#"{"success":true,"content":[]}"#
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/call", listener.local_addr().unwrap());
    tokio::spawn(async move {
        axum::serve(listener, Router::new().route("/call", post(keep))).await.unwrap();
    });
    let server = format!(
        "[servers.echo]\nprotocol = \"call\"\nnames = \"flat\"\nurl = \"{url}\"\n\
         headers = {{ X-Own = \"ours\" }}\ncapabilities = [\"echo\"]\n\
         manifest = [{{ name = \"echo\", description = \"d\", inputSchema = {{ type = \"object\" }} }}]\n"
    );
    let place = TestFolder::new(&format!("{}{server}", config(&issuer.jwks_url())));
    let gateway = ready(&place).await;
    crate::load::offers(&gateway, "echo").await;
    let tokens = [keys.scoped("all"), gateway.token.clone()];
    for token in &tokens {
        let headers = [("cookie", "session=inbound-cookie"), ("x-agent-note", "inbound-note")];
        let session = gateway.open_session(token).await;
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "echo", "arguments": { "a": 1 } } });
        let all = [&headers[..], &[("mcp-session-id", session.as_str())]].concat();
        let answer = gateway.post_as(token, &all, &message).await.json();
        assert!(answer["result"].is_object(), "{answer}");
    }
    let seen = seen.lock();
    assert_eq!(seen.len(), tokens.len());
    for request in &*seen {
        assert!(request.contains("ours"), "{request}");
        let inbound = ["inbound-cookie", "inbound-note", "authorization", "Bearer"];
        for secret in inbound.into_iter().chain(tokens.iter().map(String::as_str)) {
            assert!(!request.contains(secret), "{request}");
        }
    }
}
