//! A gateway in a process of its own, on a folder of its own.
#![expect(clippy::disallowed_methods, reason = "tests start the program itself")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_drawgate");

/// A folder with a configuration and a data folder, and perhaps a gateway that runs on it.
pub(crate) struct TestFolder {
    folder: TempDir,
}

impl TestFolder {
    /// A fresh folder with this `drawgate.toml`.
    pub(crate) fn new(config: &str) -> Self {
        let place = Self { folder: TempDir::new().unwrap() };
        place.configure(config);
        place
    }

    /// Replaces the configuration, and tells the gateway, if one runs, that it was written in one piece.
    pub(crate) fn configure(&self, config: &str) {
        use std::io::{Read as _, Write as _};
        let next = self.path().join("next.toml");
        std::fs::write(&next, config).unwrap();
        std::fs::rename(next, self.path().join("drawgate.toml")).unwrap();
        let socket = std::os::unix::net::UnixStream::connect(self.data().join("control.sock"));
        if let Ok(mut socket) = socket {
            let hash = drawgate_core::canonical::sha256_hex(config.as_bytes());
            let request = format!(
                "POST /configuration/look?written={hash} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
            );
            socket.write_all(request.as_bytes()).unwrap();
            socket.read_to_string(&mut String::new()).unwrap();
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Makes an empty data folder, which commands that only look do not.
    #[expect(clippy::unused_self, reason = "reads as what is done in the folder")]
    pub(crate) fn make_data(&self, folder: &Path) {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).unwrap();
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path().join(".drawgate")
    }

    /// Runs a command of the program in the folder.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        for name in ["DRAWGATE_CONFIG", "DRAWGATE_DATA", "DRAWGATE_LISTEN"] {
            command.env_remove(name);
        }
        // Not the gateway of whoever runs the tests.
        if self.path().join("drawgate.toml").exists() {
            command.env("DRAWGATE_CONFIG", "drawgate.toml");
        } else {
            command.env("DRAWGATE_DATA", ".drawgate");
        }
        command
    }

    /// A command on a terminal of its own, where a person gives this answer to its question. What they
    /// see is the output.
    pub(crate) fn person(&self, columns: usize, answer: &str, args: &[&str]) -> Command {
        let person = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/person.py");
        let own = self.command(args);
        let mut command = Command::new("python3");
        command.arg(person).arg(PROGRAM).args(args).current_dir(self.path()).stdin(Stdio::null());
        command.env("ANSWER", answer).env("SIZE", format!("24x{columns}"));
        command.env("TERM", "xterm").env("NO_COLOR", "1");
        for (name, value) in own.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Runs a command at a terminal where a person answers its question.
    pub(crate) fn at_terminal(&self, answer: &str, args: &[&str]) -> Output {
        self.person(80, answer, args).output().unwrap()
    }

    /// Runs a command at a terminal of this width.
    pub(crate) fn on_screen(&self, columns: usize, args: &[&str]) -> Output {
        self.person(columns, "n", args).output().unwrap()
    }

    /// Runs a command that must succeed, and returns what it printed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{args:?}: {out}{err}");
        out
    }

    /// Approves a call, as a program does that the operator gave their token to.
    pub(crate) fn approve(&self, id: &str) -> Output {
        self.decide("approve", id)
    }

    /// Approves or denies a call in that way.
    pub(crate) fn decide(&self, decision: &str, id: &str) -> Output {
        let token = self.data().join("admin.token");
        self.run(&["approvals", decision, id, "--token-file", token.to_str().unwrap()])
    }

    /// The same, with `--json`.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        serde_json::from_str(&self.ok(&args)).unwrap()
    }

    /// Starts the gateway on a free port.
    pub(crate) fn serve(&self) -> Gateway {
        self.serve_with(|_| {})
    }

    /// The same, where the configuration names another data folder.
    pub(crate) fn serve_on(&self, data: &str) -> Gateway {
        self.serve_at(&self.path().join(data), |_| {})
    }

    /// The same, after a change to the command.
    pub(crate) fn serve_with(&self, change: impl FnOnce(&mut Command)) -> Gateway {
        self.serve_at(&self.data(), change)
    }

    fn serve_at(&self, data: &Path, change: impl FnOnce(&mut Command)) -> Gateway {
        let mut command = self.command(&["serve", "--json", "--listen", "127.0.0.1:0"]);
        change(&mut command);
        Gateway::start(&mut command, data, &self.path().join("serve.log"))
    }

    /// Everything that the gateway has logged so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path().join("serve.log")).unwrap_or_default()
    }
}

/// A port of this machine that nobody listens on, and that nobody else gets while it is held.
pub(crate) fn reserved_port() -> (tokio::net::TcpSocket, String) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    // Who is told of it may want it for itself, and says the same.
    socket.set_reuseaddr(true).unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

/// What was read of a file, unless the gateway has removed it since it was listed.
#[track_caller]
pub(crate) fn unless_gone<T>(read: std::io::Result<T>) -> Option<T> {
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        read => Some(read.unwrap()),
    }
}

/// A gateway that runs; it is killed when this is dropped.
pub(crate) struct Gateway {
    pub(crate) child: Child,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
    /// The local user's token.
    pub(crate) token: String,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An HTTP answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The answer as JSON. One that took a while comes as the last event of a stream.
    pub(crate) fn json(&self) -> Value {
        let is_stream =
            self.headers.get("content-type").is_some_and(|it| it == "text/event-stream");
        let data = || {
            self.body.split(|byte| *byte == b'\n').rev().find_map(|it| it.strip_prefix(b"data: "))
        };
        let text = data().filter(|_| is_stream).unwrap_or(&self.body);
        serde_json::from_slice(text).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    pub(crate) fn rpc_code(&self) -> Option<i64> {
        serde_json::from_slice::<Value>(&self.body).ok()?["error"]["code"].as_i64()
    }
}

impl Gateway {
    /// Starts `serve --json` on this data folder, with its log in this file, and waits until it is up.
    pub(crate) fn start(command: &mut Command, data: &Path, log: &Path) -> Self {
        command.stdout(Stdio::piped()).stderr(std::fs::File::create(log).unwrap());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let report: Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            let log = std::fs::read_to_string(log).unwrap();
            panic!("the gateway did not start: {line}{log}")
        });
        let url = report["endpoint"].as_str().unwrap();
        let address = url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let token = std::fs::read_to_string(data.join("admin.token")).unwrap().trim().to_owned();
        Self { child, address, token }
    }

    /// Asks the gateway to end, and returns its exit code.
    pub(crate) fn terminate(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }

    /// Sends one request on a connection of its own.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let stream = tokio::net::TcpStream::connect(&self.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut request =
            Request::builder().method(method).uri(path).body(Body::from(body.into())).unwrap();
        request.headers_mut().insert("host", HeaderValue::from_str(&self.address).unwrap());
        for (name, value) in headers {
            let name = HeaderName::try_from(*name).unwrap();
            request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
        }
        let (head, body) = sender.send_request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        connection.abort();
        Answer { status: head.status, headers: head.headers, body }
    }

    /// Posts a message with this token and these further headers.
    pub(crate) async fn post_as(
        &self,
        token: &str,
        headers: &[(&str, &str)],
        message: &Value,
    ) -> Answer {
        let bearer = format!("Bearer {token}");
        let mut all = vec![
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        all.extend_from_slice(headers);
        self.send(Method::POST, "/mcp", &all, message.to_string()).await
    }

    /// Opens a session and returns its id.
    pub(crate) async fn open_session(&self, token: &str) -> String {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let message =
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let answer = self.post_as(token, &[], &message).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        answer.headers["mcp-session-id"].to_str().unwrap().to_owned()
    }

    /// One request without a session, by revision 2026-07-28. Returns the answer's JSON.
    pub(crate) async fn rpc(&self, token: &str, method: &str, params: Value) -> Value {
        self.stateless(token, method, params).await.json()
    }

    /// The same, with the whole answer.
    pub(crate) async fn stateless(&self, token: &str, method: &str, mut params: Value) -> Answer {
        let meta = &mut params["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": "t", "version": "1" });
        let name =
            params["name"].as_str().or(params["uri"].as_str()).unwrap_or_default().to_owned();
        let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        if !name.is_empty() {
            headers.push(("mcp-name", &name));
        }
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.post_as(token, &headers, &message).await
    }

    /// Calls a tool and returns its result.
    pub(crate) async fn call(&self, token: &str, tool: &str, arguments: Value) -> Value {
        let answer =
            self.rpc(token, "tools/call", json!({ "name": tool, "arguments": arguments })).await;
        answer["result"].clone()
    }

    /// The names that a caller sees, page by page.
    pub(crate) async fn tool_names(&self, token: &str) -> Vec<String> {
        let (mut names, mut params) = (Vec::new(), json!({}));
        loop {
            let answer = self.rpc(token, "tools/list", params).await;
            let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
            names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
            match answer["result"].get("nextCursor") {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => return names,
            }
        }
    }
}

/// Bytes as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Asks again and again until the answer is there; fails loudly if it never comes.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let until = std::time::Instant::now() + std::time::Duration::from_mins(1);
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(std::time::Instant::now() < until, "never happened: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
