//! Requests in good form and in bad, and what each is answered with.

use serde_json::{Value, json};

/// One request and its expected answer: statuses, and perhaps a code of the protocol.
pub(super) struct Row {
    pub(super) name: &'static str,
    method: &'static str,
    path: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    pub(super) expected: &'static str,
}

impl Row {
    fn new(
        name: &'static str,
        method: &'static str,
        body: impl Into<Vec<u8>>,
        expected: &'static str,
    ) -> Self {
        let headers = [
            ("Host", "{address}"),
            ("Connection", "close"),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("Authorization", "Bearer {token}"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/list"),
        ];
        let headers = headers.map(|(name, value)| (name, value.to_owned())).to_vec();
        Self { name, method, path: "/mcp", headers, body: body.into(), expected }
    }

    /// Replaces a header.
    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self = self.without(name);
        self.headers.push((name, value.into()));
        self
    }

    fn and(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self
    }

    fn at(mut self, path: &'static str) -> Self {
        self.path = path;
        self
    }

    /// The request as it goes out.
    pub(super) fn bytes(&self, address: &str, token: &str) -> Vec<u8> {
        let mut lines = vec![format!("{} {} HTTP/1.1", self.method, self.path)];
        lines.extend(self.headers.iter().map(|(name, value)| format!("{name}: {value}")));
        lines.push(format!("Content-Length: {}\r\n\r\n", self.body.len()));
        let head = lines.join("\r\n").replace("{address}", address).replace("{token}", token);
        [head.into_bytes(), self.body.clone()].concat()
    }
}

fn post(name: &'static str, body: impl Into<Vec<u8>>, expected: &'static str) -> Row {
    Row::new(name, "POST", body, expected)
}

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
    })
}

fn message() -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta() } })
}

fn list(name: &'static str, expected: &'static str) -> Row {
    post(name, message().to_string(), expected)
}

/// A list request with one member changed; `null` removes it.
fn edited(name: &'static str, key: &str, value: Option<Value>, expected: &'static str) -> Row {
    let mut message = message();
    match value {
        Some(value) => message[key] = value,
        None => drop(message.as_object_mut().unwrap().shift_remove(key)),
    }
    post(name, message.to_string(), expected)
}

fn call(name: &'static str, tool: &str, arguments: &Value, expected: &'static str) -> Row {
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta() });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    post(name, message.to_string(), expected)
        .with("Mcp-Method", "tools/call")
        .with("Mcp-Name", tool)
}

/// A list request whose parameters hold this text as `x`.
fn holding(name: &'static str, x: impl AsRef<[u8]>, expected: &'static str) -> Row {
    let start = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":"#;
    let end = format!(r#","_meta":{}}}}}"#, meta());
    post(name, [start, x.as_ref(), end.as_bytes()].concat(), expected)
}

/// Every row.
pub(super) fn all() -> Vec<Row> {
    [json(), json_depth(), ids(), messages(), calls(), headers(), hosts(), methods()]
        .into_iter()
        .flatten()
        .collect()
}

fn json() -> Vec<Row> {
    let ok = message().to_string();
    let utf16: Vec<u8> = ok.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let twice = ok
        .replace(r#""tools/list""#, r#""tools/call""#)
        .replace(r#""params":{"#, r#""params":{"name":"danger","name":"echo","arguments":{},"#);
    vec![
        list("ok_list", "200"),
        post("json_garbage", "{", "400 rpc -32700"),
        post("json_two_docs", format!("{ok}{ok}"), "400 rpc -32700"),
        post("json_trailing", format!("{ok} x"), "400 rpc -32700"),
        post("json_comment", format!("{ok} // x"), "400 rpc -32700"),
        post("json_single_quotes", "{'jsonrpc':'2.0'}", "400 rpc -32700"),
        holding("json_nan", "NaN", "400 rpc -32700"),
        holding("json_1e999", "1e999", "400 rpc -32700"),
        holding("json_invalid_utf8", b"\"\xff\xfe\"", "400 rpc -32700"),
        post("json_utf16", [vec![0xff, 0xfe], utf16].concat(), "400 rpc -32700"),
        holding("json_raw_control", "\"a\u{1}b\"", "400 rpc -32700"),
        post("json_dup_tool_name", twice, "400 rpc -32600")
            .with("Mcp-Method", "tools/call")
            .with("Mcp-Name", "echo"),
        post(
            "json_case_Method",
            r#"{"jsonrpc":"2.0","id":1,"Method":"tools/list"}"#,
            "400 rpc -32600",
        ),
        holding("json_proto", r#"1,"__proto__":{"admin":true},"constructor":{}"#, "200"),
        holding("json_amplify_zeros", format!("[{}0]", "0,".repeat(1_900_000)), "400 rpc -32700"),
        post("json_whitespace_3mb", format!("{}{ok}", " ".repeat(3_000_000)), "200"),
        post("body_empty", "", "400 rpc -32700"),
        post("body_5mb", " ".repeat(5_000_000), "413"),
    ]
}

fn json_depth() -> Vec<Row> {
    let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    vec![
        holding("json_depth_60", nested(60), "200"),
        holding("json_depth_10000", nested(10_000), "400 rpc -32700"),
        holding("json_depth_1000000", nested(1_000_000), "400 rpc -32700"),
        post(
            "json_depth_objects",
            format!("{}1{}", r#"{"a":"#.repeat(200_000), "}".repeat(200_000)),
            "400 rpc -32700",
        ),
    ]
}

fn ids() -> Vec<Row> {
    let id = |name, value, expected| edited(name, "id", Some(value), expected);
    let float = message().to_string().replace(r#""id":1,"#, r#""id":1e2,"#);
    vec![
        id("id_null", Value::Null, "400 rpc -32600"),
        id("id_float", json!(1.5), "400 rpc -32600"),
        id("id_array", json!([1]), "400 rpc -32600"),
        id("id_object", json!({ "a": 1 }), "400 rpc -32600"),
        id("id_boolean", json!(true), "400 rpc -32600"),
        edited("id_missing_request", "id", None, "202/400"),
        id("id_zero", json!(0), "200"),
        post("id_1e2", float, "400 rpc -32600"),
        id("id_string_1mb", "i".repeat(1_000_000).into(), "400 rpc -32600"),
        id("id_newline", "a\nb\r\ndata: x".into(), "200"),
    ]
}

fn messages() -> Vec<Row> {
    let root = |name, body: &str| post(name, body, "400 rpc -32600");
    let params = |name, value, expected| edited(name, "params", Some(value), expected);
    let mut wrong_type = meta();
    wrong_type["io.modelcontextprotocol/protocolVersion"] = 5.into();
    let mut unknown = meta();
    unknown["io.modelcontextprotocol/protocolVersion"] = "1999-01-01".into();
    let method =
        |name, value: String, expected| edited(name, "method", Some(value.into()), expected);
    vec![
        edited("jsonrpc_missing", "jsonrpc", None, "400 rpc -32600"),
        edited("jsonrpc_1.0", "jsonrpc", Some("1.0".into()), "400 rpc -32600"),
        root("batch_empty", "[]"),
        root("batch_two", &json!([message(), message()]).to_string()),
        root("root_null", "null"),
        root("root_number", "1"),
        root("root_string", "\"x\""),
        method("method_unknown", "no/such".into(), "404 rpc -32601").with("Mcp-Method", "no/such"),
        method("method_1mb", "m".repeat(1_000_000), "400/404/431"),
        method("method_internal", "rpc.discover".into(), "404 rpc -32601")
            .with("Mcp-Method", "rpc.discover"),
        params("params_string", "x".into(), "400 rpc -32602"),
        params("params_null", Value::Null, "400 rpc -32602"),
        params("meta_missing", json!({}), "400 rpc -32602"),
        params("meta_version_wrong_type", json!({ "_meta": wrong_type }), "400"),
        params("version_unknown", json!({ "_meta": unknown }), "400 rpc -32022")
            .with("MCP-Protocol-Version", "1999-01-01"),
        list("version_header_mismatch", "400 rpc -32020")
            .with("MCP-Protocol-Version", "2025-11-25"),
        list("version_header_missing", "400 rpc -32020").without("MCP-Protocol-Version"),
        post(
            "both_result_error",
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
            "400 rpc -32600",
        ),
    ]
}

fn calls() -> Vec<Row> {
    let none = json!({});
    vec![
        call("call_echo", "echo", &none, "200"),
        call("call_unknown_tool", "nope", &none, "200/400 rpc -32602"),
        call("call_args_array", "echo", &json!([]), "200/400 rpc -32602"),
        call("call_extra_arg", "echo", &json!({ "x": 1, "zzz": 2 }), "200/400"),
        call("call_tool_name_nul", "echo\0", &none, "200/400 rpc -32602")
            .with("Mcp-Name", "=?base64?ZWNobwA=?="),
        call("call_qualified_colon", "srv:echo:x", &none, "200/400 rpc -32602"),
        list("call_unknown_scope_path", "404").at("/mcp/no-such-view"),
        call("hdr_name_missing", "echo", &none, "400 rpc -32020").without("Mcp-Name"),
        list("hdr_method_case", "400 rpc -32020").with("Mcp-Method", "Tools/List"),
        call("hdr_name_bad_base64", "echo", &none, "400 rpc -32020")
            .with("Mcp-Name", "=?base64?!!!?="),
        call("hdr_name_base64_ok", "echo", &none, "200").with("Mcp-Name", "=?base64?ZWNobw==?="),
        call("hdr_name_twice", "echo", &none, "400 rpc -32020").and("Mcp-Name", "danger"),
    ]
}

fn headers() -> Vec<Row> {
    vec![
        list("ct_missing", "415/400").without("Content-Type"),
        list("ct_form", "415").with("Content-Type", "text/plain"),
        list("ct_utf7", "415/400").with("Content-Type", "application/json; charset=utf-7"),
        list("accept_none", "406/400/200").without("Accept"),
        list("accept_html", "406").with("Accept", "text/html"),
        list("encoding_gzip", "415/400").with("Content-Encoding", "gzip"),
        list("auth_query_token", "401").without("Authorization").at("/mcp?access_token={token}"),
        list("auth_two_headers", "400/401").and("Authorization", "Bearer {token}"),
        list("auth_1mb", "401/431/400")
            .with("Authorization", format!("Bearer {}", "A".repeat(1_000_000))),
        list("session_garbage_modern", "200").with("Mcp-Session-Id", "zzz"),
    ]
}

fn hosts() -> Vec<Row> {
    let origin = |name, origin: &str| list(name, "403").with("Origin", origin);
    let host = |name, host: &str, expected| list(name, expected).with("Host", host);
    vec![
        origin("origin_userinfo", "http://localhost@evil.example"),
        origin("origin_other_port", "http://localhost:1"),
        origin("origin_scheme", "file://"),
        origin("origin_ext", "chrome-extension://abc"),
        origin("origin_null", "null"),
        host("host_rebind", "attacker.example:8080", "403"),
        list("host_missing", "400").without("Host"),
        host("host_ip_other", "10.1.2.3", "403"),
        host("host_zero", "0.0.0.0", "403"),
        host("host_userinfo", "localhost@evil", "403/400"),
        host("host_trailing_dot", "localhost.", "200/403/421"),
        list("host_dup", "400").and("Host", "{address}"),
        list("host_absolute_form", "400/403/421").at("http://evil/mcp"),
    ]
}

fn methods() -> Vec<Row> {
    vec![
        Row::new("http_delete", "DELETE", "", "405/404/400"),
        Row::new("http_put", "PUT", message().to_string(), "405"),
        Row::new("http_options_cors", "OPTIONS", "", "403/405/204")
            .with("Origin", "http://evil.example")
            .with("Access-Control-Request-Method", "POST"),
        Row::new("http_trace", "TRACE", "", "405/404"),
        Row::new("http_connect", "CONNECT", "", "400/403/404/405").at("evil.example:80"),
        list("http_path_encoded", "404/400").at("/%6dcp"),
        list("http_path_dots", "404/400").at("/x/../mcp"),
    ]
}
