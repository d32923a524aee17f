//! The profile `network`: allowed hosts through the proxy, and nobody else in any way.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::caller::Caller;
use super::lab::Lab;
use super::outcome::{Outcome, run};

/// A server that greets, and counts whom.
struct Server {
    port: u16,
    greeted: Arc<AtomicUsize>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let greeted = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&greeted);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                counter.fetch_add(1, Ordering::SeqCst);
                let mut request = [0; 4096];
                let _head = stream.read(&mut request);
                let _gone = stream.write_all(
                    b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
                );
            }
        });
        Self { port, greeted }
    }

    fn greeted(&self) -> usize {
        self.greeted.load(Ordering::SeqCst)
    }
}

/// Ways to ask a server, each printing what it answers.
const WAYS: &[&str] = &[
    "curl -sS http://HOST/",
    "curl -sS -p http://HOST/",
    "python3 -c \"import urllib.request;print(urllib.request.urlopen('http://HOST/').read().decode())\"",
];

async fn ask(lab: &Lab, hosts: &[&str], command: &str) -> Outcome {
    let mut options = vec!["--profile", "network", "--timeout", "60"];
    for host in hosts {
        options.extend(["--allow-host", host]);
    }
    run(&mut lab.exec(&options, command)).await
}

#[tokio::test]
async fn an_allowed_host_is_reached_and_no_other() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        let (allowed, other) = (Server::start(), Server::start());
        for name in ["127.0.0.1", "localhost"] {
            let host = format!("{name}:{}", allowed.port);
            let forbidden = format!("{name}:{}", other.port);
            for way in WAYS {
                let outcome = ask(&lab, &[&host], &way.replace("HOST", &host)).await;
                assert!(
                    outcome.code == 0 && outcome.stdout.starts_with("hello"),
                    "{way}: {outcome:?}"
                );
                let outcome = ask(&lab, &[&host], &way.replace("HOST", &forbidden)).await;
                assert!(!outcome.stdout.contains("hello"), "{way}: {outcome:?}");
            }
        }
        assert_eq!(other.greeted(), 0);
        assert_eq!(allowed.greeted(), 2 * WAYS.len());
    }
}

#[tokio::test]
async fn there_is_no_way_around_the_proxy() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        let server = Server::start();
        let host = format!("127.0.0.1:{}", server.port);
        for way in [
            "curl -sS --noproxy '*' http://HOST/",
            "env -u http_proxy -u HTTP_PROXY -u all_proxy -u ALL_PROXY curl -sS http://HOST/",
            "bash -c 'exec 3<>/dev/tcp/127.0.0.1/PORT && echo hello'",
        ] {
            let command = way.replace("HOST", &host).replace("PORT", &server.port.to_string());
            let outcome = ask(&lab, &[&host], &command).await;
            assert!(outcome.code != 0 && !outcome.stdout.contains("hello"), "{way}: {outcome:?}");
        }
        // Nobody is allowed unless named.
        let outcome =
            ask(&lab, &[], &format!("curl -sS -o /dev/null -w '%{{http_code}}' http://{host}/"))
                .await;
        assert_eq!(outcome.stdout, "403", "{outcome:?}");
        assert_eq!(server.greeted(), 0);
    }
}

#[tokio::test]
async fn the_other_profiles_have_no_proxy() {
    let lab = Lab::new(Caller::Myself);
    for profile in ["strict", "workspace"] {
        let command = "env | grep -ic _proxy; curl -sS http://127.0.0.1:$TG_TCP/";
        let outcome = run(&mut lab.exec(&["--profile", profile], command)).await;
        assert!(outcome.stdout.starts_with("0\n") && outcome.code != 0, "{outcome:?}");
    }
    assert_eq!(lab.connections("tcp"), 0);
}
