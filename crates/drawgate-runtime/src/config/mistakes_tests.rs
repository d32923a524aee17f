//! Every kind of mistake, with the exact words that its author gets.

use std::path::Path;

use super::Config;

struct Case {
    name: &'static str,
    text: &'static str,
    said: &'static str,
}

/// What the reader says about a text, errors or warnings.
fn said(text: &str) -> String {
    let problems = match Config::parse(text, Path::new("drawgate.toml")) {
        Ok(loaded) => loaded.warnings,
        Err(errors) => errors.problems,
    };
    problems.iter().map(|problem| problem.to_string() + "\n").collect()
}

#[test]
fn every_mistake_is_explained() {
    for Case { name, text, said: expected } in CASES {
        assert_eq!(said(text), *expected, "{name}");
    }
}

const CASES: &[Case] = &[
    Case {
        name: "providers and models",
        text: "[providers.local]
kind = \"openai_chat\"
url = \"localhost:11434\"
key = \"sk-literal\"
models.\"qwen3:8b\" = { max_output = 200000 }
[models]
default = \"lokal/qwen3:8b\"
",
        said: "drawgate.toml:3:1: error: addresses begin with `http://` or `https://`, not with `localhost:`
drawgate.toml:4:1: warning: the key is written in the file; write `env:NAME`
drawgate.toml:5:8: error: `max_output` must be at least 1 and less than `context_tokens`
drawgate.toml:7:1: error: there is no provider `lokal` with that model; add `[providers.lokal]`, or name another
",
    },
    Case {
        name: "a price that is no number",
        text: "[providers.paid]
kind = \"openai\"
models.m.usd_per_million = { input = \"3\", output = 1.5 }
",
        said: "drawgate.toml:3:38: error: `input` must be a number, not a string
",
    },
    Case {
        name: "a kind of provider that does not exist",
        text: "[providers.local]
kind = \"ollama\"
",
        said: "drawgate.toml:2:8: error: unknown kind `ollama`; use `anthropic`, `openai`, `openai_chat` or `gemini`
",
    },
    Case {
        name: "programs that do the work of runs",
        text: "[invokers.claude]
command = \"claude\"
memory_mb = 1
[invokers.codex]
args = []
[invokers.copilot]
command = \"copilot\"
",
        said: "drawgate.toml:3:13: error: `memory_mb` can't be 1; use 64 to 1048576
drawgate.toml:4:11: error: `command` is missing in [invokers.codex]; add it, or remove the table
drawgate.toml:6:11: error: unknown key `copilot` in [invokers]; known keys are `claude`, `codex`, `gemini` and `opencode`
",
    },
    Case {
        name: "folders of programs that are not there",
        text: "[invokers.claude]
command = \"\"
read = [\"nowhere\"]
",
        said: "drawgate.toml:2:1: error: no program is named
drawgate.toml:3:9: error: there is no `nowhere`; create it or name another
",
    },
    Case {
        name: "a name that is not protected",
        text: "[builtin]\nunprotected = [\"AGENT.MD\"]\n",
        said: "drawgate.toml:2:16: error: `AGENT.MD` is not a protected name; did you mean `AGENT.md`?\n",
    },
    Case {
        name: "syntax",
        text: "listen =
[server
",
        said: "drawgate.toml:1:9: error: not valid TOML: string values must be quoted, expected literal string
drawgate.toml:2:8: error: not valid TOML: unclosed table, expected `]`
",
    },
    Case {
        name: "duplicate key",
        text: r#"data = "a"
data = "b""#,
        said: "drawgate.toml:2:1: error: not valid TOML: duplicate key
",
    },
    Case {
        name: "unknown key with suggestion",
        text: r#"[servers.everything]
comand = "npx""#,
        said: "drawgate.toml:2:1: error: unknown key `comand` in [servers.everything]; did you mean `command`?
",
    },
    Case {
        name: "unknown key without suggestion",
        text: "[builtin]
colour = 1",
        said: "drawgate.toml:2:1: error: unknown key `colour` in [builtin]; known keys are `enabled`, `workspace` and `unprotected`
",
    },
    Case {
        name: "unknown section",
        text: "[sevrer]
max_sessions = 1",
        said: "drawgate.toml:1:2: error: unknown key `sevrer` in the file; did you mean `server`?
",
    },
    Case {
        name: "server for servers",
        text: r#"[server.everything]
command = "npx""#,
        said: "drawgate.toml:1:9: error: unknown key `everything` in [server]; did you mean [servers.everything]?
",
    },
    Case {
        name: "camel case",
        text: "[server]
maxBodyBytes = 5000",
        said: "drawgate.toml:2:1: error: unknown key `maxBodyBytes` in [server]; did you mean `max_body_bytes`?
",
    },
    Case {
        name: "unknown key of a tool",
        text: r#"[servers.a]
command = "x"
[servers.a.tools.t]
capabilites = []"#,
        said: "drawgate.toml:4:1: error: unknown key `capabilites` in [servers.a.tools.t]; did you mean `capabilities`?
",
    },
    Case {
        name: "unknown word",
        text: r#"[servers.a]
transport = "carrier_pigeon"
command = "x""#,
        said: "drawgate.toml:2:13: error: unknown transport `carrier_pigeon`; use `stdio`, `streamable_http`, `sse`, `websocket`, `http` or `streamableHttp`
",
    },
    Case {
        name: "misspelt word",
        text: r#"[servers.a]
transport = "stdo"
command = "x""#,
        said: "drawgate.toml:2:13: error: unknown transport `stdo`; did you mean `stdio`?
",
    },
    Case {
        name: "misspelt verdict",
        text: r#"[policy.defaults]
fallback = "denny""#,
        said: "drawgate.toml:2:12: error: unknown fallback `denny`; did you mean `deny`?
",
    },
    Case {
        name: "string for number",
        text: r#"[limits]
timeout_seconds = "30""#,
        said: "drawgate.toml:2:19: error: `timeout_seconds` must be a whole number, not a string; write 30 without quotes
",
    },
    Case {
        name: "fraction for number",
        text: "[limits]
timeout_seconds = 1.5",
        said: "drawgate.toml:2:19: error: `timeout_seconds` must be a whole number, not a fraction
",
    },
    Case {
        name: "huge number",
        text: "[limits]
timeout_seconds = 99999999999999999999",
        said: "drawgate.toml:2:19: error: `timeout_seconds` must be a whole number, not a number beyond 64 bits
",
    },
    Case {
        name: "number for string",
        text: "data = 3",
        said: "drawgate.toml:1:8: error: `data` must be a string, not a number
",
    },
    Case {
        name: "string for array",
        text: r#"[servers.a]
command = "x"
args = "-y""#,
        said: "drawgate.toml:3:8: error: `args` must be an array, not a string; put it in `[` and `]`
",
    },
    Case {
        name: "string for table",
        text: r#"[servers.a]
command = "x"
env = "A=1""#,
        said: "drawgate.toml:3:7: error: `env` must be a table, not a string
",
    },
    Case {
        name: "string for flag",
        text: r#"[builtin]
enabled = "true""#,
        said: "drawgate.toml:2:11: error: `enabled` must be true or false, not a string; write true without quotes
",
    },
    Case {
        name: "number for word",
        text: "[audit]
durability = 1",
        said: "drawgate.toml:2:14: error: `durability` must be a string, not a number
",
    },
    Case {
        name: "wrong element",
        text: r#"[servers.a]
command = "x"
args = ["a", 2]"#,
        said: "drawgate.toml:3:14: error: `args[1]` must be a string, not a number
",
    },
    Case {
        name: "zero",
        text: "[limits]
timeout_seconds = 0",
        said: "drawgate.toml:2:19: error: `timeout_seconds` can't be 0; use 1 to 86400
",
    },
    Case {
        name: "too many",
        text: "[server]
drain_seconds = 4000",
        said: "drawgate.toml:2:17: error: `drain_seconds` can't be 4000; use 0 to 3600
",
    },
    Case {
        name: "negative",
        text: "[artifacts]
max_age_days = -1",
        said: "drawgate.toml:2:16: error: `max_age_days` can't be -1; use 1 to 36500
",
    },
    Case {
        name: "listen without address",
        text: r#"listen = "7700""#,
        said: "drawgate.toml:1:10: error: `7700` is not an address with a port; write `127.0.0.1:7700`
",
    },
    Case {
        name: "listen by name",
        text: r#"listen = "localhost:8080""#,
        said: "drawgate.toml:1:10: error: `localhost:8080` is not an address with a port; write `127.0.0.1:8080`
",
    },
    Case {
        name: "listen nonsense",
        text: r#"listen = "here""#,
        said: "drawgate.toml:1:10: error: `here` is not an address with a port; write `127.0.0.1:7700`
",
    },
    Case {
        name: "server name",
        text: r#"[servers."a b"]
command = "x""#,
        said: "drawgate.toml:1:10: error: `a b` is not a valid server name; use 1 to 64 of `a-z A-Z 0-9 _ -`
",
    },
    Case {
        name: "server names that look alike",
        text: r#"[servers.xx1]
command = "x"
[servers.Xx1]
command = "x"
[servers.xxl]
command = "x"
[servers.bui1tin]
command = "x""#,
        said: "drawgate.toml:1:10: error: the name `xx1` looks like `Xx1`, which is taken; choose another
drawgate.toml:5:10: error: the name `xxl` looks like `Xx1`, which is taken; choose another
drawgate.toml:7:10: error: the name `bui1tin` looks like `builtin`, which is taken; choose another
",
    },
    Case {
        name: "server name builtin",
        text: r#"[servers.builtin]
command = "x""#,
        said: "drawgate.toml:1:10: error: `builtin` is the name of the built-in tools; choose another
",
    },
    Case {
        name: "tool name",
        text: r#"[toolpacks.packs.a.tools."x y"]
enabled = false"#,
        said: "drawgate.toml:1:26: error: `x y` is not a valid tool name; use 1 to 128 of `a-z A-Z 0-9 _ - .`
",
    },
    Case {
        name: "operation beside tools",
        text: r#"[servers.a]
command = "x"
[servers.a.tools."@resources/read"]
capabilities = ["a"]
[servers.a.tools."@logging/setLevel"]
enabled = false
[servers.a.tools."@tools/call"]
enabled = false"#,
        said: "drawgate.toml:7:18: error: `@tools/call` is not an operation beside tools; use `@resources/read`, `@resources/subscribe`, `@resources/unsubscribe`, `@prompts/get`, `@completion/complete`, `@logging/setLevel`
",
    },
    Case {
        name: "capability",
        text: r#"[local]
capabilities = ["file.read", "all files"]"#,
        said: "drawgate.toml:2:30: error: `all files` is not a capability; use 1 to 128 of `a-z A-Z 0-9 . _ : / - *`
",
    },
    Case {
        name: "tls without key",
        text: r#"[server.tls]
cert = "a.pem""#,
        said: "drawgate.toml:1:9: error: `key` is missing in [server.tls]; add it, or remove the table
",
    },
    Case {
        name: "allowed host",
        text: r#"[server]
allowed_hosts = ["https://a.example"]"#,
        said: "drawgate.toml:2:18: error: `https://a.example` is not a host name; write `gateway.example` or `gateway.example:8443`
",
    },
    Case {
        name: "allowed origin any",
        text: r#"[server]
allowed_origins = ["*"]"#,
        said: "drawgate.toml:2:20: error: `*` is not an origin; write scheme and host alone, `https://console.example`
",
    },
    Case {
        name: "allowed origin path",
        text: r#"[server]
allowed_origins = ["https://a.example/x"]"#,
        said: "drawgate.toml:2:20: error: `https://a.example/x` is not an origin; write scheme and host alone, `https://console.example`
",
    },
    Case {
        name: "own policy action",
        text: r#"[policy]
actions = ["Mail"]"#,
        said: "drawgate.toml:2:12: error: `Mail` is not a policy action; write one like `mail.send`
",
    },
    Case {
        name: "insecure in the file",
        text: "[server]
insecure = true",
        said: "drawgate.toml:2:1: error: unknown key `insecure` in [server]; known keys are `allowed_hosts`, `allowed_origins`, `public_url`, `tls`, `max_body_bytes`, `max_sessions`, `session_idle_seconds`, `resume_seconds`, `max_connections` and `drain_seconds`
",
    },
    Case {
        name: "no command",
        text: r#"[servers.a]
transport = "stdio""#,
        said: "drawgate.toml:1:10: error: [servers.a] needs `command`; name the program to start
",
    },
    Case {
        name: "neither command nor url",
        text: "[servers.a]
enabled = true",
        said: "drawgate.toml:1:10: error: [servers.a] has neither `command` nor `url`; add the one that reaches the server
",
    },
    Case {
        name: "empty command",
        text: r#"[servers.a]
command = " ""#,
        said: "drawgate.toml:1:10: error: [servers.a] needs `command`; name the program to start
",
    },
    Case {
        name: "command line",
        text: r#"[servers.a]
command = "npx -y thing""#,
        said: "drawgate.toml:2:1: error: `command` is one program, without arguments; move the rest to `args`
",
    },
    Case {
        name: "no url",
        text: r#"[servers.a]
transport = "http""#,
        said: "drawgate.toml:1:10: error: [servers.a] needs `url`; write `https://host/path`
",
    },
    Case {
        name: "relative url",
        text: r#"[servers.a]
url = "search/mcp""#,
        said: "drawgate.toml:2:1: error: `search/mcp` is not an absolute HTTP URL; write `https://host/path`
",
    },
    Case {
        name: "url of another scheme",
        text: r#"[servers.a]
url = "ftp://a.example""#,
        said: "drawgate.toml:2:1: error: `ftp://a.example` is not an absolute HTTP URL; write `https://host/path`
",
    },
    Case {
        name: "password in url",
        text: r#"[servers.a]
url = "https://me:hunter22@a.example/mcp""#,
        said: "drawgate.toml:2:1: error: the URL contains a user name or password; remove it, and send an `Authorization` header with an `env:NAME` reference
",
    },
    Case {
        name: "both kinds",
        text: r#"[servers.a]
transport = "stdio"
command = "x"
url = "https://a.example""#,
        said: "drawgate.toml:4:1: error: `url` has no meaning for a `stdio` server; remove it, or change `transport`
",
    },
    Case {
        name: "command for http",
        text: r#"[servers.a]
transport = "streamableHttp"
url = "https://a.example"
args = ["x"]"#,
        said: "drawgate.toml:4:1: error: `args` has no meaning for a `streamable_http` server; remove it, or change `transport`
",
    },
    Case {
        name: "sse",
        text: r#"[servers.a]
transport = "sse"
url = "wss://a.example"
idle_shutdown_seconds = 60"#,
        said: "drawgate.toml:3:1: error: `wss://a.example` is not an absolute HTTP URL; write `https://host/path`
drawgate.toml:4:1: error: `idle_shutdown_seconds` has no meaning for a `sse` server; remove it, or change `transport`
",
    },
    Case {
        name: "websocket",
        text: r#"[servers.a]
transport = "websocket"
url = "https://a.example""#,
        said: "drawgate.toml:3:1: error: `https://a.example` is not an absolute WebSocket URL; write `wss://host/path`
",
    },
    Case {
        name: "websocket without an address",
        text: r#"[servers.a]
transport = "websocket""#,
        said: "drawgate.toml:1:10: error: [servers.a] needs `url`; write `wss://host/path`
",
    },
    Case {
        name: "connections for single calls",
        text: r#"[servers.a]
transport = "sse"
url = "https://a.example"
protocol = "call"
sessions = "per_client"
manifest = [{ name = "search", description = "d", inputSchema = {} }]"#,
        said: "drawgate.toml:2:1: error: transport `sse` is for MCP alone; use `stdio` or `streamable_http`
drawgate.toml:5:1: error: `sessions` has no meaning for `protocol = \"call\"`; remove it
",
    },
    Case {
        name: "unknown sessions",
        text: r#"[servers.a]
command = "x"
sessions = "mine""#,
        said: "drawgate.toml:3:12: error: unknown sessions `mine`; use `shared` or `per_client`
",
    },
    Case {
        name: "unknown client request",
        text: r#"[servers.a]
command = "x"
client_requests = ["roots", "money"]"#,
        said: "drawgate.toml:3:29: error: unknown client_requests[1] `money`; use `elicitation`, `elicitation_url`, `roots` or `sampling`
",
    },
    Case {
        name: "timeout above the cap",
        text: r#"[servers.a]
command = "x"
timeout_seconds = 601"#,
        said: "drawgate.toml:3:1: error: 601 is above `limits.max_timeout_seconds`, which is 600; lower it or raise the limit
",
    },
    Case {
        name: "tool timeout above the cap",
        text: r#"[servers.a]
command = "x"
tools.t.timeout_seconds = 700"#,
        said: "drawgate.toml:3:9: error: 700 is above `limits.max_timeout_seconds`, which is 600; lower it or raise the limit
",
    },
    Case {
        name: "default timeout above the cap",
        text: "[limits]
timeout_seconds = 20
max_timeout_seconds = 10",
        said: "drawgate.toml:2:1: error: 20 is above `limits.max_timeout_seconds`, which is 10; lower it or raise the limit
",
    },
    Case {
        name: "calls per agent",
        text: "[limits]
max_concurrent_calls = 5
max_concurrent_calls_per_agent = 6",
        said: "drawgate.toml:3:1: error: `max_concurrent_calls_per_agent` is above `max_concurrent_calls`; lower it or raise the other
",
    },
    Case {
        name: "hold",
        text: "[approvals]
hold_seconds = 30
expire_seconds = 10",
        said: "drawgate.toml:2:1: error: calls would wait longer than approvals last; make `hold_seconds` at most `expire_seconds`
",
    },
    Case {
        name: "reserved header",
        text: r#"[servers.a]
url = "https://a.example"
headers = { Mcp-Session-Id = "x" }"#,
        said: "drawgate.toml:3:13: error: `Mcp-Session-Id` is set by the gateway itself; remove it
",
    },
    Case {
        name: "bad header",
        text: r#"[servers.a]
url = "https://a.example"
headers = { "a b" = "x" }"#,
        said: "drawgate.toml:3:13: error: `a b` can't be the name of a header; use letters, digits and `-`
",
    },
    Case {
        name: "header injection",
        text: r#"[servers.a]
url = "https://a.example"
headers = { A = "x\r\nB: y" }"#,
        said: "drawgate.toml:3:13: error: the value of `A` has a control character; remove it
",
    },
    Case {
        name: "bad variable",
        text: r#"[servers.a]
command = "x"
env = { "A=B" = "x" }"#,
        said: "drawgate.toml:3:9: error: `A=B` can't be the name of a variable; leave out `=` and control characters
",
    },
    Case {
        name: "broken reference",
        text: r#"[servers.a]
command = "x"
env = { A = "env:" }"#,
        said: "drawgate.toml:3:9: error: the reference names no variable; write `env:NAME`, of letters, digits and `_`
",
    },
    Case {
        name: "a reference in a command line",
        text: r#"[servers.a]
command = "env:SERVER"
args = ["--token", "env:TOKEN", "--key=env:KEY", "--mode=env"]"#,
        said: "drawgate.toml:2:1: error: `env:NAME` can't stand in a command line, which other users of this machine can read; write it in `env`, in a header of a server with `url`, or in a file that the program reads
drawgate.toml:3:20: error: `env:NAME` can't stand in a command line, which other users of this machine can read; write it in `env`, in a header of a server with `url`, or in a file that the program reads
drawgate.toml:3:33: error: `env:NAME` can't stand in a command line, which other users of this machine can read; write it in `env`, in a header of a server with `url`, or in a file that the program reads
",
    },
    Case {
        name: "policy twice",
        text: r#"[policy]
file = "Cargo.toml"
defaults = { fallback = "deny" }"#,
        said: "drawgate.toml:2:1: error: rules stand both in `policy.file` and in [policy]; keep one of the two
drawgate.toml:2:1: error: in `Cargo.toml`: a policy file is JSON, and this is not: expected value at line 1 column 2
",
    },
    Case {
        name: "policy version",
        text: r#"[policy]
version = "2""#,
        said: "drawgate.toml:2:1: error: unknown version of the policy rules; use `1.0`
",
    },
    Case {
        name: "policy rule with an unknown key",
        text: r#"[[policy.rules]]
id = "a"
action = "file.*"
decision = "deny"
whn = {}"#,
        said: "drawgate.toml:5:1: error: unknown key `whn` in [policy.rules[0]]; did you mean `when`?
",
    },
    Case {
        name: "policy file of another kind",
        text: r#"[policy]
file = "Cargo.toml""#,
        said: "drawgate.toml:2:1: error: in `Cargo.toml`: a policy file is JSON, and this is not: expected value at line 1 column 2
",
    },
    Case {
        name: "policy rule",
        text: r#"[[policy.rules]]
id = "a"
[[policy.rules]]
id = "a"
action = "file.*"
decision = "deny""#,
        said: "drawgate.toml:1:1: error: `action` is missing in [policy.rules[0]]; add it, or remove the table
drawgate.toml:1:1: error: `decision` is missing in [policy.rules[0]]; add it, or remove the table
",
    },
    Case {
        name: "rules about nothing",
        text: r#"[builtin]
enabled = true
[servers.once]
protocol = "call"
url = "http://127.0.0.1/"
manifest = [{ name = "ping", description = "p", inputSchema = { type = "object" }, annotations = { policyAction = "connector.read" } }]
[[policy.rules]]
id = "typo"
action = "file.raed"
decision = "deny"
[[policy.rules]]
id = "own"
action = "mail.send"
decision = "deny"
[[policy.rules]]
id = "idle"
action = "connector.action"
decision = "deny"
[[policy.rules]]
id = "where"
action = "*"
when = { toolId = ["onec:ping", "once:pong", "builtin:vfs_read", "once:*", "vfs_read"], connectorScope = "far" }
decision = "deny"
[[policy.rules]]
id = "good"
action = "file.*"
when = { toolId = "*:vfs_*" }
decision = "deny""#,
        said: "drawgate.toml:7:1: warning: calls that no rule matches are denied, because `policy.defaults.fallback` is not set; set it to `allow` or `deny`
drawgate.toml:9:1: error: the rule `typo` is about an unknown policy action, `file.raed`; did you mean `file.read`?
drawgate.toml:13:1: error: the rule `own` is about an unknown policy action, `mail.send`; use `file.read`, `file.write`, `file.*`, `network.request`, `connector.read` or `connector.action`, or add it to `policy.actions`
drawgate.toml:17:1: warning: the rule `idle` can match no tool: none that is configured does `connector.action`; set `policy_action` for the tools that do
drawgate.toml:22:10: warning: the rule `where` can match no tool: there is no server or toolpack `onec`; did you mean `once`?
drawgate.toml:22:10: warning: the rule `where` can match no tool: `once` has no tool `pong`; did you mean `once:ping`?
drawgate.toml:22:10: warning: the rule `where` can match no tool: `vfs_read` is not the id of a tool; write it as `SERVER:TOOL`, or `*` for the one or the other
drawgate.toml:22:89: warning: the rule `where` can match no tool: there is no server or toolpack `far`; it counts only once a pack of that name dials in
",
    },
    Case {
        name: "rules that do not reach a server",
        text: r#"[servers.files]
command = "x"
[servers.told]
command = "x"
tools.read.policy_action = "file.read"
[policy.defaults]
fallback = "allow"
[[policy.rules]]
id = "no-keys"
action = "file.*"
when = { path = "**/*.pem" }
decision = "deny"
[[policy.rules]]
id = "elsewhere"
action = "file.*"
when = { toolId = "builtin:*" }
decision = "deny"
[[policy.rules]]
id = "all"
action = "*"
when = { path = "**/*.pem" }
decision = "deny""#,
        said: "drawgate.toml:10:1: warning: the rule `no-keys` does not hold for tools of `files`, which have no policy action; set `policy_action` for them in [servers.files.tools.NAME], or write `action = \"*\"` for a rule about every tool
",
    },
    Case {
        name: "rules where what is not known is denied",
        text: r#"[servers.files]
command = "x"
[[policy.rules]]
id = "no-keys"
action = "file.*"
decision = "deny""#,
        said: "drawgate.toml:3:1: warning: calls that no rule matches are denied, because `policy.defaults.fallback` is not set; set it to `allow` or `deny`
",
    },
    Case {
        name: "rules that need no fallback",
        text: r#"[[policy.rules]]
id = "all"
action = "*"
decision = "allow""#,
        said: "",
    },
    Case {
        name: "words and patterns of rules that can't be used",
        text: r#"[policy.defaults]
fallback = "confirm"
[[policy.rules]]
id = "asks"
action = "*"
decision = "ask"
[[policy.rules]]
id = "none"
action = "*"
when = { host = [], toolId = "" }
decision = "denny"
[[policy.rules]]
id = "empty"
action = "*"
decision = "deny"
[policy.rules.when]
host = []"#,
        said: "drawgate.toml:2:12: error: unknown fallback `confirm`; use `allow_with_confirm`
drawgate.toml:6:1: error: unknown decision `ask`; use `allow_with_confirm`
drawgate.toml:11:1: error: unknown decision `denny`; did you mean `deny`?
drawgate.toml:17:1: error: `when.host` of the rule can't be used: a condition needs at least one pattern
",
    },
    Case {
        name: "a manifest that the registry would refuse",
        text: r#"[servers.once]
protocol = "call"
url = "http://127.0.0.1/"
manifest = [
  { name = "a", description = "p", inputSchema = { type = "objet" } },
  { name = "b", description = "p", inputSchema = { type = "object" }, annotations = { policyAction = "no.such" } },
  { name = "c", description = "p", inputSchema = { type = "object" }, annotations = { colour = "red" } },
]"#,
        said: "drawgate.toml:5:3: error: the tool `a` can't be offered: `inputSchema`: the schema must have type `object`
drawgate.toml:6:3: error: the tool `b` can't be offered: `annotations.policyAction` is `no.such`, which is not known; add it to `policy.actions`
drawgate.toml:7:3: error: the tool `c` can't be offered: annotation `colour` is not supported
",
    },
    Case {
        name: "folders of servers that hold the gateway",
        text: r#"data = "state"
[servers.one]
command = "x"
permissions = { write = ["state", "/"] }
[servers.free]
command = "x"
sandbox = "none"
working_dir = "/""#,
        said: "drawgate.toml:4:26: warning: `state` holds the data folder, so that `one` is not started; name a folder of its own: programs must not reach what decides about them
drawgate.toml:4:35: warning: `/` holds the data folder, so that `one` is not started; name a folder of its own: programs must not reach what decides about them
",
    },
    Case {
        name: "a workspace that holds the gateway",
        text: r#"[builtin]
workspace = "..""#,
        said: "drawgate.toml:2:1: warning: the workspace of the built-in tools holds the data folder, so that they are not offered; name a folder of its own: tools must not reach what decides about them
",
    },
    Case {
        name: "policy file",
        text: r#"[policy]
file = "no-such-policy.json""#,
        said: "drawgate.toml:2:1: error: can't read `no-such-policy.json`: No such file or directory (os error 2)
",
    },
    Case {
        name: "file of authorities",
        text: r#"[egress]
ca_file = "no-such-ca.pem""#,
        said: "drawgate.toml:2:1: error: can't read `no-such-ca.pem`: No such file or directory (os error 2)
",
    },
    Case {
        name: "file of authorities of another kind",
        text: r#"[egress]
ca_file = "Cargo.toml""#,
        said: "drawgate.toml:2:1: error: in `Cargo.toml`: it holds no certificate; they begin with `-----BEGIN CERTIFICATE-----`
",
    },
    Case {
        name: "tls files",
        text: r#"[server.tls]
cert = "no-cert.pem"
key = "no-key.pem""#,
        said: "drawgate.toml:2:1: error: can't read `no-cert.pem`: No such file or directory (os error 2)
drawgate.toml:3:1: error: can't read `no-key.pem`: No such file or directory (os error 2)
",
    },
    Case {
        name: "working folder",
        text: r#"[servers.a]
command = "x"
working_dir = "no-such-folder""#,
        said: "drawgate.toml:3:1: error: there is no folder `no-such-folder`; create it or name another
",
    },
    Case {
        name: "unknown action",
        text: r#"[servers.a]
command = "x"
tools.t.policy_action = "file.raed""#,
        said: "drawgate.toml:3:9: error: unknown policy action `file.raed`; did you mean `file.read`?
",
    },
    Case {
        name: "call without manifest",
        text: r#"[servers.a]
command = "x"
protocol = "call""#,
        said: r#"drawgate.toml:1:10: error: [servers.a] needs `manifest`, for `protocol = "call"`; list the tools
"#,
    },
    Case {
        name: "empty manifest for mcp",
        text: r#"[servers.a]
command = "x"
manifest = []"#,
        said: "drawgate.toml:3:1: error: `manifest` lists no tool; make it an array of tools with `name`, `description` and `inputSchema`
",
    },
    Case {
        name: "manifest for mcp, whose other tools are not known",
        text: r#"[servers.a]
command = "x"
manifest = [
  { name = "a", description = "p", inputSchema = { type = "object" } },
  { name = "b", description = "p", inputSchema = { type = "object" }, annotations = { colour = "red" } },
]
tools.other.enabled = false"#,
        said: "drawgate.toml:5:3: error: the tool `b` can't be offered: annotation `colour` is not supported
",
    },
    Case {
        name: "empty manifest",
        text: r#"[servers.a]
command = "x"
protocol = "call"
manifest = []"#,
        said: "drawgate.toml:4:1: error: `manifest` lists no tool; make it an array of tools with `name`, `description` and `inputSchema`
",
    },
    Case {
        name: "bad tool",
        text: r#"[servers.a]
command = "x"
protocol = "call"
[[servers.a.manifest]]
name = "t""#,
        said: "drawgate.toml:4:1: error: not a tool: missing field `inputSchema`
",
    },
    Case {
        name: "two tools",
        text: r#"[servers.a]
command = "x"
protocol = "call"
[[servers.a.manifest.tools]]
name = "t"
description = "d"
inputSchema = {}
[[servers.a.manifest.tools]]
name = "t"
inputSchema = 1"#,
        said: "drawgate.toml:8:1: error: the tool `t` needs `description`; say what it does, for the model
drawgate.toml:8:1: error: `manifest` has two tools `t`; rename one
drawgate.toml:10:1: error: `inputSchema` must be a table; write a JSON Schema
",
    },
    Case {
        name: "trace endpoint",
        text: r#"[telemetry]
otlp_endpoint = "localhost:4318""#,
        said: "drawgate.toml:2:1: error: `localhost:4318` is not an absolute HTTP URL; write `https://host/path`
",
    },
    Case {
        name: "anchor address",
        text: r#"[audit]
anchor_url = "anchors.example""#,
        said: "drawgate.toml:2:1: error: `anchors.example` is not an absolute HTTP URL; write `https://host/path`
",
    },
    Case {
        name: "listen everywhere",
        text: r#"listen = "0.0.0.0:7700""#,
        said: "drawgate.toml:1:1: warning: `0.0.0.0:7700` can be reached from other machines; set [server.tls], unless something in front of it encrypts
",
    },
    Case {
        name: "secret in env",
        text: r#"[servers.a]
command = "x"
env = { API_KEY = "abcdefgh1", MODE = "fast", GH = "ghp_0123456789abcdef" }"#,
        said: "drawgate.toml:3:9: warning: the value of `API_KEY` looks like a secret; put it in an environment variable, and write `env:NAME`
drawgate.toml:3:47: warning: the value of `GH` looks like a secret; put it in an environment variable, and write `env:NAME`
",
    },
    Case {
        name: "secret in headers",
        text: r#"[servers.a]
url = "https://a.example"
headers = { Authorization = "Bearer abc" }"#,
        said: "drawgate.toml:3:13: warning: the value of `Authorization` looks like a secret; put it in an environment variable, and write `env:NAME`
",
    },
    Case {
        name: "secret in args",
        text: r#"[servers.a]
command = "x"
args = ["--key=sk-0123456789abcdef"]"#,
        said: "drawgate.toml:3:9: warning: the argument looks like a secret, and other users can read arguments; pass it in `env` as `env:NAME`
",
    },
    Case {
        name: "setting for a tool that is not there",
        text: r#"[servers.a]
command = "x"
protocol = "call"
manifest = [{ name = "search", description = "d", inputSchema = {} }]
tools.serch.enabled = false"#,
        said: "drawgate.toml:5:7: warning: `manifest` has no tool `serch`; did you mean `search`?
",
    },
    Case {
        name: "auth without issuer",
        text: r#"[auth]
audience = "x""#,
        said: "drawgate.toml:1:2: error: `issuer` is missing in [auth]; add it, or remove the table
",
    },
    Case {
        name: "shared secrets are no signatures",
        text: r#"[auth]
issuer = "https://login.example"
algorithms = ["ES256", "HS256"]"#,
        said: "drawgate.toml:3:24: error: unknown algorithms[1] `HS256`; did you mean `ES256`?
",
    },
    Case {
        name: "everything about auth",
        text: r#"[auth]
issuer = "http://login.example"
jwks_url = "https://user:pass@login.example/keys"
audience = ""
algorithms = []
principal_prefix = "-x"
principal_claim = ""
[auth.scopes]
"two words" = ["file.read"]"#,
        said: "drawgate.toml:2:1: error: keys would come from `login.example` in clear; use `https://`
drawgate.toml:3:1: error: the URL contains a user name or password; remove it, and send an `Authorization` header with an `env:NAME` reference
drawgate.toml:4:1: error: `audience` is empty; name it, or remove the key
drawgate.toml:5:1: error: without `algorithms` no token would be taken; name one, or remove the key
drawgate.toml:6:1: error: `-x` can't begin the name of a caller; use 1 to 32 of `a-z A-Z 0-9 _ - .`, not beginning with `-` or `.`
drawgate.toml:7:1: error: `principal_claim` is empty; name a claim
drawgate.toml:9:1: error: `two words` is not a scope; use printable ASCII without space, `\"` and `\\`
",
    },
    Case {
        name: "issuer with a query",
        text: r#"[auth]
issuer = "https://login.example/?a=b""#,
        said: "drawgate.toml:2:1: error: an issuer has neither query nor fragment; write it as it stands in the `iss` of tokens
",
    },
    Case {
        name: "auth without a public address",
        text: r#"listen = "0.0.0.0:7700"
[auth]
issuer = "https://login.example""#,
        said: "drawgate.toml:1:1: warning: `0.0.0.0:7700` can be reached from other machines; set [server.tls], unless something in front of it encrypts
drawgate.toml:2:2: warning: clients can't tell which address tokens must be meant for; set `server.public_url`, such as `https://gateway.example`
",
    },
    Case {
        name: "public address that is refused",
        text: r#"[server]
public_url = "https://gate.example""#,
        said: "drawgate.toml:2:1: warning: requests addressed to `gate.example` are refused; add it to `server.allowed_hosts`
",
    },
    Case {
        name: "public address with a path",
        text: r#"[server]
public_url = "https://gate.example/""#,
        said: "drawgate.toml:2:14: error: `https://gate.example/` is not an origin; write scheme and host alone, `https://console.example`
",
    },
    Case {
        name: "login of a program",
        text: r#"[servers.a]
command = "x"
[servers.a.oauth]
client_id = "drawgate""#,
        said: "drawgate.toml:3:12: error: `oauth` is for servers that speak MCP over HTTP; remove it
",
    },
    Case {
        name: "login beside credentials",
        text: r#"[servers.a]
url = "https://a.example/mcp"
headers = { Authorization = "env:A" }
[servers.a.oauth]
scopes = ["read"]"#,
        said: "drawgate.toml:4:12: error: `oauth` has no effect beside an `Authorization` header; remove one of the two
",
    },
    Case {
        name: "login without a port",
        text: r#"[servers.a]
url = "https://a.example/mcp"
[servers.a.oauth]
redirect_port = 0"#,
        said: "drawgate.toml:4:17: error: `redirect_port` can't be 0; use 1 to 65535
",
    },
    Case {
        name: "login with mistakes",
        text: r#"[servers.a]
url = "https://a.example/mcp"
[servers.a.oauth]
client_secret = "hunter2"
scopes = ["read write"]
issuer = "as.example"
client_metadata_url = "http://c.example/x""#,
        said: "drawgate.toml:4:1: error: `client_secret` must be a reference to the environment; write `env:NAME`
drawgate.toml:4:1: error: `client_secret` has no meaning without `client_id`; add it
drawgate.toml:5:11: error: `read write` is not a scope; write each scope as one text, without spaces
drawgate.toml:6:1: error: `as.example` is not an absolute HTTP URL; write `https://host/path`
drawgate.toml:7:1: error: `http://c.example/x` can't be a client's id; write `https://host/path`
",
    },
    Case {
        name: "grant without credentials",
        text: r#"[servers.a]
url = "https://a.example/mcp"
[servers.a.oauth]
grant = "client_credentials"
redirect_port = 7733"#,
        said: "drawgate.toml:4:1: error: the grant `client_credentials` needs `client_id`; add the client that you registered
drawgate.toml:4:1: error: the grant `client_credentials` needs either `client_secret` or `private_key`; set one of the two to `env:NAME`
drawgate.toml:5:1: error: `redirect_port` has no meaning with the grant `client_credentials`; remove it
",
    },
    Case {
        name: "key for a person's login",
        text: r#"[servers.a]
url = "https://a.example/mcp"
[servers.a.oauth]
client_id = "c"
private_key = "-----BEGIN PRIVATE KEY-----""#,
        said: "drawgate.toml:5:1: error: `private_key` must be a reference to the environment; write `env:NAME`
drawgate.toml:5:1: error: `private_key` is for the grant `client_credentials` only; set `grant`, or use `client_secret`
",
    },
    Case {
        name: "everything at once",
        text: r#"listen = "x"
[limits]
timeout_seconds = 0
[servers.a]
comand = "x"
[servers.b]
transport = "http"
[servers.c]
command = "x"
env = { TOKEN = "abcdefghij" }"#,
        said: "drawgate.toml:1:10: error: `x` is not an address with a port; write `127.0.0.1:7700`
drawgate.toml:3:19: error: `timeout_seconds` can't be 0; use 1 to 86400
drawgate.toml:5:1: error: unknown key `comand` in [servers.a]; did you mean `command`?
drawgate.toml:6:10: error: [servers.b] needs `url`; write `https://host/path`
drawgate.toml:10:9: warning: the value of `TOKEN` looks like a secret; put it in an environment variable, and write `env:NAME`
",
    },
];
