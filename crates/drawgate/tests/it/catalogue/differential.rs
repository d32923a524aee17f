//! The gate and the server see the same call, and every client its own answer.

use std::sync::Arc;

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::{attacker, record};
use crate::load::{Client, offers};
use crate::support::{Gateway, TestFolder};

/// Bodies, of which half have some name twice.
const BODIES: usize = 10_000;

/// Numbers that look random and are always the same.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}

/// The text of an object, nested a little, in which one name may stand twice.
fn object(dice: &mut Dice, depth: usize, twice: bool) -> String {
    let names =
        ["path", "Path", "PATH", "p\\u0061th", "__proto__", "name", "arguments", "id", "a b", ""];
    let values = [
        "1",
        "-0",
        "1.0",
        "1e2",
        "true",
        "null",
        "\"/secret\"",
        "\"/sec\\u0072et\"",
        "\"\\ud83d\\ude00\"",
        "[1,[2]]",
    ];
    let mut used: Vec<String> = Vec::new();
    let mut members = Vec::new();
    for _ in 0..dice.roll(4) {
        let name = dice.pick(&names);
        let plain: String = serde_json::from_str(&format!("\"{name}\"")).unwrap();
        if used.contains(&plain) {
            continue;
        }
        used.push(plain);
        members.push(format!("\"{name}\":{}", dice.pick(&values)));
    }
    let here = twice && (depth == 0 || dice.roll(2) == 0);
    if here {
        // The second spelling is another text of the same name.
        for (name, value) in [("twin", "\"/public\""), ("tw\\u0069n", "\"/secret\"")] {
            members.insert(dice.roll(members.len() + 1), format!("\"{name}\":{value}"));
        }
    }
    if depth > 0 {
        members.push(format!("\"deep\":[{}]", object(dice, depth - 1, twice && !here)));
    }
    format!("{{{}}}", members.join(","))
}

async fn connect(gateway: &Gateway) -> SendRequest<Body> {
    let stream = TcpStream::connect(&gateway.address).await.unwrap();
    let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn post(gateway: &Gateway, sender: &mut SendRequest<Body>, body: String) -> Value {
    let request = Request::post("/mcp")
        .header("host", &gateway.address)
        .header("authorization", format!("Bearer {}", gateway.token))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "x__echo")
        .body(Body::from(body))
        .unwrap();
    sender.ready().await.unwrap();
    let body = sender.send_request(request).await.unwrap().into_body();
    serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap()
}

#[tokio::test]
async fn parser_differential() {
    let place = TestFolder::new("");
    place.configure(&attacker(&place, ""));
    let gateway = place.serve();
    offers(&gateway, "x__echo").await;
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let mut sender = connect(&gateway).await;
    let (mut dice, mut passed) = (Dice(7), 0);
    for number in 0..BODIES {
        let twice = number % 2 == 0;
        let depth = dice.roll(4);
        let arguments = object(&mut dice, depth, twice);
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{{"name":"x__echo","arguments":{arguments},{meta}}}}}"#
        );
        let answer = post(&gateway, &mut sender, body).await;
        if twice {
            assert_eq!(answer["error"]["code"], -32600, "{arguments}: {answer}");
            continue;
        }
        let heard = answer["result"]["content"][0]["text"].as_str();
        let heard: Value =
            serde_json::from_str(heard.unwrap_or_else(|| panic!("{answer}"))).unwrap();
        assert_eq!(heard, serde_json::from_str::<Value>(&arguments).unwrap(), "{arguments}");
        passed += 1;
    }
    assert_eq!(passed, BODIES / 2);
    let seen = record(&place);
    assert_eq!(seen.matches("tools/call").count(), passed);
    assert!(!seen.contains("twin"), "a call with a name twice reached the server");
}

/// Many clients with the same ids, over one connection to one server.
#[tokio::test]
async fn cross_client_leak() {
    const CLIENTS: usize = 32;
    const EACH: usize = 160;
    let place = TestFolder::new(&crate::load::fixture());
    let gateway = Arc::new(place.serve());
    offers(&gateway, "fixture__echo").await;
    let clients = (0..CLIENTS).map(|client| {
        let gateway = Arc::clone(&gateway);
        tokio::spawn(async move {
            let mut alone = Client::connect(&gateway.address, &gateway.token).await.unwrap();
            let session = gateway.open_session(&gateway.token).await;
            for call in 0..EACH {
                let own = json!({ "client": client, "call": call });
                let answer = if call % 6 == 0 {
                    let params = json!({ "name": "fixture__echo", "arguments": own });
                    let message = json!({ "jsonrpc": "2.0", "id": "same", "method": "tools/call", "params": params });
                    gateway.post_as(&gateway.token, &[("mcp-session-id", &session)], &message).await.json()
                } else {
                    alone.call("same", "fixture__echo", &own).await.unwrap()
                };
                let heard = answer["result"]["content"][0]["text"].as_str();
                let heard: Value = serde_json::from_str(heard.unwrap_or_else(|| panic!("{answer}"))).unwrap();
                assert_eq!(heard, own);
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
}
