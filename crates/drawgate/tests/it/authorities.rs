//! `[egress] ca_file`: servers that only an operator's own authority vouches for.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Gateway, TestFolder, eventually, text};

const CERTIFICATE: &[u8] = include_bytes!("callers/cert.pem");

/// A server that speaks TLS, whom nobody on this machine vouches for: another gateway.
struct Server {
    _place: TestFolder,
    _gateway: Gateway,
    port: String,
}

impl Server {
    fn start() -> Self {
        let place = TestFolder::new("[server.tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n");
        write(place.path(), "cert.pem", CERTIFICATE);
        write(place.path(), "key.pem", include_bytes!("callers/key.pem"));
        let gateway = place.serve();
        let port = gateway.address.rsplit(':').next().unwrap().to_owned();
        Self { _place: place, _gateway: gateway, port }
    }

    fn url(&self) -> String {
        format!("https://localhost:{}/healthz", self.port)
    }

    fn allowed(&self) -> String {
        format!("[egress]\nallow = [\"localhost:{}\"]\n", self.port)
    }
}

fn write(folder: &Path, name: &str, content: &[u8]) {
    std::fs::write(folder.join(name), content).unwrap();
}

#[test]
fn a_server_is_believed_by_the_file_alone() {
    let server = Server::start();
    let place = TestFolder::new(&server.allowed());
    let url = format!("url={}", server.url());
    let output = place.run(&["tools", "call", "web_fetch", &url]);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(!output.status.success() && said.contains("`[egress] ca_file`"), "{said}");
    write(place.path(), "ca.pem", CERTIFICATE);
    place.configure(&(server.allowed() + "ca_file = \"ca.pem\"\n"));
    let said = place.ok(&["tools", "call", "web_fetch", &url]);
    assert!(said.contains("Page `https://localhost:"), "{said}");
}

#[tokio::test]
async fn an_edit_of_the_configuration_gives_and_takes_trust() {
    let server = Server::start();
    let place = TestFolder::new(&server.allowed());
    write(place.path(), "ca.pem", CERTIFICATE);
    let gateway = place.serve();
    let fetch = async || -> Value {
        let arguments = json!({ "url": server.url() });
        gateway.call(&gateway.token, "web_fetch", arguments).await["structuredContent"].clone()
    };
    assert_eq!(fetch().await["error"], "tls");
    place.configure(&(server.allowed() + "ca_file = \"ca.pem\"\n"));
    eventually("trust is given", async || (fetch().await["status"] == 200).then_some(())).await;
    place.configure(&server.allowed());
    eventually("trust is taken", async || (fetch().await["error"] == "tls").then_some(())).await;
}

#[test]
fn a_file_that_holds_no_certificate_is_refused_at_the_start() {
    let place = TestFolder::new("[egress]\nca_file = \"ca.pem\"\n");
    for content in [&b"nonsense"[..], include_bytes!("callers/key.pem")] {
        write(place.path(), "ca.pem", content);
        let output = place.run(&["tools", "list"]);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains("it holds no certificate"), "{said}");
    }
}
