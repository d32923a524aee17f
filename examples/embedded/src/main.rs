//! A gateway inside another program: state in memory, one server, one call, and the audit log of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use drawgate_core::model::{Caller, Principal, Surface, ToolInvocation};
use drawgate_core::pipeline::CallOptions;
use drawgate_core::redact::Redactor;
use drawgate_host::{Host, secrets::Secrets};
use drawgate_runtime::assemble::{RuntimeOptions, Start, StateLocation};
use drawgate_runtime::{Runtime, config::Config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    for line in Box::pin(run()).await? {
        eprintln!("{line}");
    }
    Ok(())
}

async fn run() -> anyhow::Result<Vec<String>> {
    // No variables for `env:` references, and no launcher: sandboxed programs would be refused.
    let host = Host::new(Secrets::new(BTreeMap::<String, String>::new()), None)?;
    let empty = Config::parse("", Path::new("embedded.toml"))?;
    let options = RuntimeOptions {
        host,
        loaded: &empty,
        state: StateLocation::Memory,
        start: Start::Sources,
        redactor: Arc::new(ArcSwap::from_pointee(Redactor::new([]))),
        embedder: None,
    };
    let runtime = Runtime::open(options).await?;

    let server = TcpListener::bind("127.0.0.1:0").await?;
    let text = format!(
        r#"[servers.greeter]
           protocol = "call"
           url = "http://{}/"
           manifest = [{{ name = "greet", description = "Greets.", inputSchema = {{ type = "object" }} }}]"#,
        server.local_addr()?
    );
    tokio::spawn(greet(server));
    runtime.apply(&Config::parse(&text, Path::new("embedded.toml"))?).await?;
    runtime.supervisor().settle(Duration::from_secs(5)).await;

    let caller = Caller {
        principal: Principal::local(),
        session: None,
        surface: Surface::EMBEDDED,
        carried: Arc::default(),
        lineage: None,
    };
    let call = ToolInvocation { tool_id: "greeter:greet".to_owned(), ..ToolInvocation::default() };
    let result = runtime.gateway().call(&caller, call, CallOptions::default()).await;
    let mut lines = vec![serde_json::to_string(&result.content)?];
    for event in runtime.audit().read(0, 100).await? {
        lines.push(event.event()?.kind.to_string());
    }
    runtime.close().await;
    Ok(lines)
}

/// A server of one tool: one call by POST, one result.
async fn greet(server: TcpListener) -> std::io::Result<()> {
    const RESULT: &str = r#"{"success":true,"content":[{"type":"text","text":"hello"}]}"#;
    loop {
        let (mut connection, _) = server.accept().await?;
        let _ = connection.read(&mut [0; 4096]).await?;
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
        let answer = format!("{head}Content-Length: {}\r\n\r\n{RESULT}", RESULT.len());
        connection.write_all(answer.as_bytes()).await?;
    }
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn the_call_is_answered_and_its_outcome_is_in_the_log() {
        let lines = Box::pin(super::run()).await.unwrap();
        assert_eq!(lines[0], r#"[{"type":"text","text":"hello"}]"#);
        assert!(lines.iter().any(|line| line == "config_loaded"), "{lines:?}");
        assert_eq!(lines.iter().filter(|line| *line == "outcome").count(), 1, "{lines:?}");
    }
}
