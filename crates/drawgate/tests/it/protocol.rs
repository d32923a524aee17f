//! The HTTP surface under requests that nobody should send.

pub(crate) mod raw;
mod rows;

use raw::{Received, Then, exchange};

use crate::support::{Gateway, TestFolder};

/// What the gateway may have of its own when everything is over.
const MAX_MEMORY_KIB: u64 = 32 * 1024;

const CONFIG: &str = r#"
[servers.echo]
protocol = "call"
names = "flat"
command = "sh"
args = ["-c", "read call; echo '{\"success\":true,\"content\":[]}'"]
manifest = [{ name = "echo", description = "answers", inputSchema = { type = "object" } }]
"#;

/// Whether an answer is what a row expects: `200/400 rpc -32602`. A code counts for errors alone.
fn check(name: &str, expected: &str, received: &Received) -> Result<(), String> {
    let (statuses, code) = expected
        .split_once(" rpc ")
        .map_or((expected, None), |(statuses, code)| (statuses, Some(code)));
    let status = received.status().to_string();
    let found = received.rpc_code().map(|code| code.to_string());
    let good = statuses.split('/').any(|allowed| allowed == status)
        && code.is_none_or(|code| found.as_deref() == Some(code));
    if good {
        Ok(())
    } else {
        Err(format!(
            "{name}: expected {expected}, got {status} {found:?}: {:.300}",
            received.head()
        ))
    }
}

/// Resident memory in KiB, without the program's own pages, of which an unoptimised one has many.
pub(crate) fn memory(gateway: &Gateway) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

async fn ready(place: &TestFolder) -> Gateway {
    let gateway = place.serve();
    crate::support::eventually("the tool `echo`", async || {
        gateway.tool_names(&gateway.token).await.contains(&"echo".to_owned()).then_some(())
    })
    .await;
    gateway
}

#[tokio::test]
async fn every_request_gets_its_answer() {
    let place = TestFolder::new(CONFIG);
    let gateway = ready(&place).await;
    let mut wrong = Vec::new();
    for row in rows::all() {
        let received =
            exchange(&gateway, &row.bytes(&gateway.address, &gateway.token), Then::Wait).await;
        wrong.extend(check(row.name, row.expected, &received).err());
        let head = received.head();
        wrong
            .extend(head.contains("access-control-allow").then(|| format!("{}: {head}", row.name)));
        wrong.extend(head.contains("mcp-session-id").then(|| format!("{}: {head}", row.name)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!gateway.tool_names(&gateway.token).await.is_empty());
    let memory = memory(&gateway);
    assert!(memory <= MAX_MEMORY_KIB, "{memory} KiB");
    assert!(!place.log().contains("panic"), "{}", place.log());
}

#[tokio::test]
async fn an_id_comes_back_as_it_was() {
    let place = TestFolder::new("");
    let gateway = place.serve();
    for id in [
        serde_json::json!(0),
        serde_json::json!(-7),
        serde_json::json!("a\nb\r\ndata: x"),
        serde_json::json!(u64::MAX),
    ] {
        let mut message = serde_json::json!({ "jsonrpc": "2.0", "method": "server/discover", "params": { "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} } } });
        message["id"] = id.clone();
        let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "server/discover")];
        let answer = gateway.post_as(&gateway.token, &headers, &message).await;
        assert_eq!(answer.json()["id"], id);
        assert!(!answer.body.contains(&b'\n'));
    }
}

/// A head that is in order, with these lines more.
fn head(gateway: &Gateway, lines: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n{lines}",
        gateway.address, gateway.token
    )
}

fn broken(gateway: &Gateway) -> Vec<(&'static str, Vec<u8>, Then, &'static str)> {
    let many = "X-Many: y\r\n".repeat(500);
    let head = |lines: &str| head(gateway, &format!("Connection: close\r\n{lines}")).into_bytes();
    let hello = b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03\r\n\r\n".to_vec();
    vec![
        (
            "body_chunk_garbage",
            head("Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"),
            Then::Wait,
            "400",
        ),
        (
            "length_twice",
            head("Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} "),
            Then::Wait,
            "400",
        ),
        ("length_negative", head("Content-Length: -1\r\n\r\n"), Then::Wait, "400"),
        (
            "coding_unknown",
            head("Transfer-Encoding: chunked, x\r\n\r\n0\r\n\r\n"),
            Then::Wait,
            "400",
        ),
        (
            "smuggle_obs_fold",
            head("X-Folded: a\r\n b\r\nContent-Length: 0\r\n\r\n"),
            Then::Wait,
            "400",
        ),
        ("smuggle_space_colon", head("Content-Length : 0\r\n\r\n"), Then::Wait, "400"),
        ("smuggle_bare_lf", head("Content-Length: 0\n\n"), Then::Wait, "400/200"),
        (
            "hdr_100k",
            head(&format!("X-Big: {}\r\n\r\n", "x".repeat(100_000))),
            Then::Wait,
            "431/400",
        ),
        ("hdr_500", head(&format!("{many}\r\n")), Then::Wait, "431/400"),
        ("hdr_nul", head("X-Nul: a\0b\r\n\r\n"), Then::Wait, "400"),
        (
            "uri_100k",
            format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000)).into(),
            Then::Wait,
            "414/431/400",
        ),
        ("http09", b"GET /mcp\r\n\r\n".to_vec(), Then::Wait, "400/505/0"),
        ("http_garbage", b"\0\x01garbage\xff\r\n\r\n".to_vec(), Then::Wait, "400/0"),
        ("http2_preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), Then::Wait, "400/505/0"),
        ("tls_hello_on_plain", hello, Then::Wait, "400/0"),
        (
            "half_close_request",
            head("Content-Length: 1000\r\n\r\n{\"half\":"),
            Then::Close,
            "400/0",
        ),
        ("half_close_head", head("X-Half: "), Then::Close, "400/0"),
        ("nothing", Vec::new(), Then::Close, "0"),
    ]
}

#[tokio::test]
async fn what_is_no_request_is_refused() {
    let place = TestFolder::new(CONFIG);
    let gateway = ready(&place).await;
    let mut wrong = Vec::new();
    for (name, bytes, then, expected) in broken(&gateway) {
        let received = exchange(&gateway, &bytes, then).await;
        wrong.extend(check(name, expected, &received).err());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!gateway.tool_names(&gateway.token).await.is_empty());
    assert!(memory(&gateway) <= MAX_MEMORY_KIB);
}

#[tokio::test]
async fn nothing_follows_a_request_with_two_ends() {
    let place = TestFolder::new("");
    let gateway = place.serve();
    let smuggled =
        format!("GET /healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", gateway.address);
    for lines in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    ] {
        let bytes = format!("{}\r\n0\r\n\r\n{smuggled}", head(&gateway, lines));
        let received = exchange(&gateway, bytes.as_bytes(), Then::Wait).await;
        assert_eq!((received.status(), received.answers()), (400, 1), "{received:?}");
    }
    // A request in order may be followed by another.
    let bytes = format!("{}Content-Length: 2\r\n\r\n{{}}{smuggled}", head(&gateway, ""));
    assert_eq!(exchange(&gateway, bytes.as_bytes(), Then::Wait).await.answers(), 2);
}

#[tokio::test]
async fn slow_peers_are_cut_and_hold_nobody_up() {
    let place = TestFolder::new("");
    let gateway = place.serve();
    let head = head(&gateway, "Content-Length: 1000\r\n");
    let (slow_head, slow_body) = (head.as_bytes(), format!("{head}\r\n{{"));
    let slow = async {
        tokio::join!(
            exchange(&gateway, slow_head, Then::Wait),
            exchange(&gateway, slow_body.as_bytes(), Then::Wait)
        )
    };
    let mut slow = std::pin::pin!(slow);
    let mut served = 0;
    let (head, body) = loop {
        tokio::select! {
            done = &mut slow => break done,
            _ = gateway.tool_names(&gateway.token) => served += 1,
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    assert!(served > 0);
    let wrong = [check("slow_headers", "408/0", &head), check("slow_body", "408/400/0", &body)];
    assert!(wrong.iter().all(Result::is_ok), "{wrong:?}");
}

#[tokio::test]
async fn idle_connections_cost_little() {
    let place = TestFolder::new("");
    let gateway = place.serve();
    gateway.tool_names(&gateway.token).await;
    let before = memory(&gateway);
    let mut idle = Vec::new();
    for _ in 0..1000 {
        idle.push(tokio::net::TcpStream::connect(&gateway.address).await.unwrap());
    }
    gateway.tool_names(&gateway.token).await;
    let grown = memory(&gateway).saturating_sub(before);
    assert!(grown < 32 * 1024, "{grown} KiB");
}
