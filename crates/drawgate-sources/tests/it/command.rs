//! Programs as tools, run for real, without a sandbox.

use std::path::Path;
use std::sync::Arc;

use drawgate_core::model::{ErrorCode, ToolInvocation, ToolResult};
use drawgate_core::pipeline::CallOptions;
use drawgate_core::source::{ProgressSink, ToolSource};
use drawgate_core::testing::{TestGate, caller};
use drawgate_sources::command::CommandSource;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::support::{PATIENCE, code, gate, host, id, text, until};

/// A source with the tool `echo`, whose program works in this folder and may come from it.
pub(crate) fn source(folder: &Path, template: &str, parameters: Value) -> Arc<CommandSource> {
    let sandbox = json!({ "profile": "none", "workspace": folder });
    let mut tool = json!({ "name": "echo", "command_template": template, "sandbox": sandbox });
    tool["parameters"] = parameters;
    configured(&json!({ "folder": folder, "tools": [tool] }))
}

fn configured(config: &Value) -> Arc<CommandSource> {
    let config = serde_json::from_value(config.clone()).unwrap();
    Arc::new(CommandSource::new(id(), config, &host()).unwrap())
}

/// The parameter `message`, any text: with a pattern, as programs without a sandbox demand.
pub(crate) fn message() -> Value {
    let properties = json!({ "message": { "type": "string", "pattern": "(?s).*" } });
    json!({ "type": "object", "properties": properties, "required": ["message"] })
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

async fn call(gate: &TestGate, arguments: Value, options: CallOptions) -> ToolResult {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    let call = ToolInvocation {
        tool_id: "up:echo".to_owned(),
        request_id: "r".to_owned(),
        arguments,
        ..ToolInvocation::default()
    };
    let ann = caller("ann");
    let work = gate.gateway.call(&ann, call, options);
    tokio::time::timeout(PATIENCE, work).await.expect("a call ends")
}

/// One call of one template.
async fn run(folder: &TempDir, template: &str, parameters: Value, arguments: Value) -> ToolResult {
    let gate = gate(&source(folder.path(), template, parameters)).await;
    call(&gate, arguments, CallOptions::default()).await
}

#[tokio::test]
async fn hostile_values_arrive_as_one_argument_and_run_nothing() {
    let folder = folder(&[]);
    for hostile in [
        "x; touch PWNED",
        "$(touch PWNED)",
        "`touch PWNED`",
        "x' ; touch PWNED ; '",
        "a && touch PWNED",
        "*",
        "${IFS}touch${IFS}PWNED",
        "%s%n",
        "{{message}}",
        "env:PATH",
        "abc\u{202e}gpj",
        "--x",
    ] {
        let result =
            run(&folder, "printf '[%s]' -- {{message}}", message(), json!({ "message": hostile }))
                .await;
        let expected = format!("[--][{hostile}]");
        assert_eq!(
            result.structured_content.as_ref().unwrap()["stdout"],
            expected.as_str(),
            "{result:?}"
        );
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn exit_code_and_both_outputs_are_in_the_result() {
    let folder = folder(&[("notes.txt", "one\ntwo\n")]);
    let grep = "grep -n -- {{message}} notes.txt";
    let found = run(&folder, grep, message(), json!({ "message": "two" })).await;
    assert!(found.success);
    assert_eq!(text(&found), "2:two\n");
    let structured = json!({ "exitCode": 0, "stdout": "2:two\n", "stderr": "" });
    assert_eq!(found.structured_content, Some(structured));
    let missing = run(&folder, grep, message(), json!({ "message": "-e" })).await;
    assert_eq!((missing.success, code(&missing)), (false, Some(ErrorCode::ExecutionFailed)));
    assert_eq!(
        (text(&missing), missing.structured_content.as_ref().unwrap()["exitCode"].as_i64()),
        ("exit code 1", Some(1))
    );
    let path = json!({ "type": "string", "pattern": "[a-z .]+" });
    let paths = json!({ "type": "array", "items": path });
    let paths = json!({ "type": "object", "properties": { "paths": paths } });
    let counted =
        run(&folder, "wc -l -- {{paths...}}", paths, json!({ "paths": ["notes.txt", "no such"] }))
            .await;
    assert!(text(&counted).starts_with("exit code 1\n[stderr]\n"), "{}", text(&counted));
    assert!(text(&counted).contains("\n[stdout]\n") && text(&counted).contains("2 notes.txt"));
}

#[tokio::test]
async fn input_is_at_its_end_and_silence_is_said() {
    let result = run(&folder(&[]), "cat", Value::Null, json!({})).await;
    assert_eq!((result.success, text(&result)), (true, "[no output]"));
}

#[tokio::test]
async fn a_signal_and_bytes_that_are_no_text_are_told() {
    let folder = folder(&[("die.sh", "printf 'a\\377b'; kill -9 $$")]);
    let result = run(&folder, "sh ./die.sh", Value::Null, json!({})).await;
    let structured = json!({ "exitCode": null, "stdout": "a\u{fffd}b", "stderr": "", "signal": 9 });
    assert_eq!(result.structured_content, Some(structured));
    assert!(text(&result).starts_with("ended by signal 9"));
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_refused_before_anything_runs() {
    let folder = folder(&[]);
    let option = run(&folder, "touch {{message}}", message(), json!({ "message": "--help" })).await;
    let error = option.error.unwrap();
    assert_eq!(error.code, ErrorCode::InvalidArguments);
    assert_eq!(error.details, Some(json!({ "code": "E_OPTION", "argument": "message" })));
    assert!(
        error.message.contains("begins with `-`") && error.message.ends_with("(E_OPTION)"),
        "{}",
        error.message
    );
    let long = "A".repeat(131_072);
    for bad in [
        json!({}),
        json!({ "message": 5 }),
        json!({ "message": "x", "cwd": "/etc" }),
        json!({ "message": "" }),
        json!({ "message": "a\0b" }),
        json!({ "message": "a\nb" }),
        json!({ "message": long }),
    ] {
        let refused = run(&folder, "touch {{message}}", message(), bad.clone()).await;
        assert_eq!(code(&refused), Some(ErrorCode::InvalidArguments), "{bad}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_large_output_becomes_a_plain_file() {
    let result = run(&folder(&[]), "seq 1 200000", Value::Null, json!({})).await;
    assert!(result.success && text(&result).starts_with("1\n2\n"));
    let whole: usize = (1..=200_000).map(|number: u32| number.to_string().len() + 1).sum();
    assert_eq!(result.artifacts.len(), 1);
    assert_eq!(
        (result.artifacts[0].mime_type.as_str(), result.artifacts[0].size),
        ("text/plain", whole as u64)
    );
}

#[tokio::test]
async fn a_missing_program_is_named_until_it_is_there() {
    let folder = folder(&[]);
    let path = folder.path().join("late");
    let source = source(folder.path(), &format!("{}", path.display()), Value::Null);
    let missing = source.check().await.unwrap_err().to_string();
    assert!(missing.contains(&format!("needs the program `{}`", path.display())), "{missing}");
    assert_eq!(source.diagnostics()["programs"]["echo"]["path"], Value::Null);
    let gate = gate(&source).await;
    let refused = call(&gate, json!({}), CallOptions::default()).await;
    assert_eq!(code(&refused), Some(ErrorCode::Unavailable));
    std::fs::copy("/bin/echo", &path).unwrap();
    assert_eq!(text(&call(&gate, json!({}), CallOptions::default()).await), "\n");
    assert_eq!(source.diagnostics()["programs"]["echo"]["path"], json!(path));
    assert_eq!(source.confinement("echo"), Some("none"));
}

#[tokio::test]
async fn the_environment_is_what_was_configured() {
    let folder = folder(&[]);
    let sandbox = json!({ "profile": "none", "workspace": folder.path() });
    let tool = json!({
        "name": "echo", "command_template": "printenv GIVEN WHERE NO_COLOR", "sandbox": sandbox,
        "env": { "GIVEN": "yes", "WHERE": "env:PATH" },
    });
    let gate = gate(&configured(&json!({ "tools": [tool] }))).await;
    let result = call(&gate, json!({}), CallOptions::default()).await;
    assert_eq!(text(&result), "yes\n/usr/local/bin:/usr/bin:/bin\n1\n");
}

#[tokio::test]
async fn free_text_needs_a_sandbox() {
    let folder = folder(&[]);
    let load_with = |profile: &str, property: Value| {
        let sandbox = json!({ "profile": profile, "workspace": folder.path() });
        let parameters = json!({ "type": "object", "properties": { "message": property } });
        let mut tool = json!({ "name": "a", "command_template": "make {{message}}" });
        (tool["sandbox"], tool["parameters"]) = (sandbox, parameters);
        let config = serde_json::from_value(json!({ "tools": [tool] })).unwrap();
        CommandSource::new(id(), config, &host()).map(drop).map_err(|error| error.to_string())
    };
    let text = json!({ "type": "string" });
    assert_eq!(load_with("workspace", text.clone()), Ok(()));
    assert!(load_with("none", text).unwrap_err().ends_with("(E_TEMPLATE_PATTERN)"));
    for property in [
        json!({ "type": "string", "pattern": "[a-z]+" }),
        json!({ "enum": ["all", "clean"] }),
        json!({ "type": "integer" }),
    ] {
        assert_eq!(load_with("none", property), Ok(()));
    }
}

#[tokio::test]
async fn what_can_not_work_is_refused_when_it_is_loaded() {
    let folder = folder(&[]);
    let load = |tool: Value| {
        let mut base = json!({
            "name": "a", "command_template": "true",
            "sandbox": { "profile": "none", "workspace": folder.path() },
        });
        for (key, value) in tool.as_object().unwrap() {
            base[key] = value.clone();
        }
        let tools = json!({ "tools": [base, base] });
        let config = serde_json::from_value(tools).unwrap();
        CommandSource::new(id(), config, &host()).err().unwrap().to_string()
    };
    assert!(
        load(json!({ "command_template": "a | b" }))
            .contains("`tools[0].command_template`: `|` means")
    );
    assert!(
        load(json!({ "env": { "A": "env:ABSENT" } }))
            .contains("that refers to it (in `tools[0].env.A`)")
    );
    assert!(load(json!({ "annotations": { "readOnly": 5 } })).contains("`tools[0].annotations`"));
    assert!(load(json!({})).contains("`tools[1].name`: `a` is there twice"));
}

/// Removes a file when it hears of the first line.
struct Listener {
    file: std::path::PathBuf,
    heard: Mutex<Vec<Map<String, Value>>>,
}

impl ProgressSink for Listener {
    fn report(&self, progress: Map<String, Value>) {
        self.heard.lock().push(progress);
        let _gone = std::fs::remove_file(&self.file);
    }
}

#[tokio::test]
async fn a_long_run_is_told_of_while_it_goes_on() {
    let script = "echo one; echo two >&2; while [ -e wait ]; do sleep 0.02; done; echo end";
    let folder = folder(&[("long.sh", script), ("wait", "")]);
    let gate = gate(&source(folder.path(), "sh ./long.sh", Value::Null)).await;
    let file = folder.path().join("wait");
    let listener = Arc::new(Listener { file, heard: Mutex::default() });
    let options = CallOptions { progress: Some(listener.clone()), ..CallOptions::default() };
    let result = call(&gate, json!({}), options).await;
    assert_eq!(text(&result), "one\nend\n\n[stderr]\ntwo\n");
    let heard = listener.heard.lock();
    let told: String = heard.iter().filter_map(|report| report["message"].as_str()).collect();
    assert!(told.contains("one") && told.contains("two"), "{told}");
}

#[tokio::test]
async fn a_cancelled_call_ends_the_program_and_its_children() {
    let folder = folder(&[("slow.sh", "sleep 600 & echo $! > pid.new; mv pid.new pid; wait")]);
    let gate = gate(&source(folder.path(), "sh ./slow.sh", Value::Null)).await;
    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    let file = folder.path().join("pid");
    let child = || std::fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok();
    let watch = async {
        until("the grandchild runs", || child().is_some()).await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(call(&gate, json!({}), options), watch);
    assert_eq!(code(&result), Some(ErrorCode::Cancelled));
    let pid = child().unwrap();
    let gone = || {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .map_or(true, |stat| stat.contains(") Z "))
    };
    until("the grandchild is gone", gone).await;
}

#[tokio::test]
async fn who_holds_the_pipes_does_not_hold_the_call() {
    let folder = folder(&[
        (
            "leave.sh",
            "setsid sh \"${0%/*}/stay.sh\" & while [ ! -e up ]; do sleep 0.01; done; echo done",
        ),
        ("stay.sh", "touch up; exec sleep 20"),
    ]);
    let result = run(&folder, "sh ./leave.sh", Value::Null, json!({})).await;
    assert_eq!(text(&result), "done\n");
}
