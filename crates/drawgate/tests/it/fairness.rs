//! Who is silent, or queues, does not keep others out.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::support::{TestFolder, eventually};

/// Connections that say nothing, half of a head, or a request without a token.
fn strangers(address: &str, count: usize) -> Vec<TcpStream> {
    let words: [&[u8]; 3] = [b"", b"POST /mcp HT", b"GET /mcp HTTP/1.1\r\nhost: x\r\n\r\n"];
    let connect = |number: usize| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(words[number % words.len()]).unwrap();
        stream
    };
    (0..count).map(connect).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_strangers_do_not_keep_a_caller_out() {
    let place = TestFolder::new("[server]\nmax_connections = 8\n");
    let gateway = place.serve();
    let mut all = strangers(&gateway.address, 24);
    for _ in 0..3 {
        let names = gateway.tool_names(&gateway.token).await;
        assert!(names.iter().any(|name| name == "vfs_read"), "{names:?}");
    }
    // The oldest of them has made way.
    let mut left = [0];
    assert!(matches!(all[0].read(&mut left), Ok(0) | Err(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callers_call_under_way_keeps_its_connection() {
    let place = TestFolder::new(
        "[server]\nmax_connections = 4\n[approvals]\nhold_seconds = 3\n\
         [policy]\ndefaults = { fallback = \"allow_with_confirm\" }\n",
    );
    let gateway = place.serve();
    let held = gateway.call(&gateway.token, "vfs_list", json!({}));
    let flood = async {
        eventually("the call is under way", async || {
            let waiting = place.json(&["approvals", "list"]);
            (!waiting.as_array().unwrap().is_empty()).then_some(())
        })
        .await;
        for _ in 0..5 {
            drop(strangers(&gateway.address, 8));
            tokio::task::yield_now().await;
        }
    };
    let (result, ()) = tokio::join!(held, flood);
    assert!(result.to_string().contains("PERMISSION_ESCALATION_REQUIRED"), "{result}");
}
