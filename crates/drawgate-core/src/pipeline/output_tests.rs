//! What comes back: caps, artifacts, schemas, secrets.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::tests::{Probe, code, gate_under, message, of_kind};
use super::*;
use crate::audit::EventKind;
use crate::model::{McpToolSpec, Principal, ToolOutput, ToolResult};
use crate::redact::Redactor;
use crate::registry::{SourceTerms, Validation};
use crate::source::SourceError;
use crate::store::{Artifacts, StoreError};
use crate::testing::{Operation, TestGate, caller, tool};

const BYTES: usize = 1000;
const LINES: usize = 20;

fn terms() -> SourceTerms {
    let mut terms = SourceTerms::default();
    terms.limits.max_output_bytes = BYTES;
    terms.limits.max_output_lines = LINES;
    terms
}

fn returning(spec: McpToolSpec, output: ToolOutput) -> Arc<Probe> {
    Probe::new("s", vec![spec], move |_, _| {
        let output = output.clone();
        Box::pin(async move { Ok(output) })
    })
}

async fn run(output: ToolOutput) -> (TestGate, ToolResult) {
    let gate = gate_under(&returning(tool("t", &Value::Null), output), terms()).await;
    let result = gate.call("ann", "s:t", json!({})).await;
    (gate, result)
}

fn structured(value: Value) -> ToolOutput {
    ToolOutput { structured: Some(value), ..ToolOutput::text("see there") }
}

/// As the official filesystem server answers: the text, and an object that holds nothing else.
fn twice(text: &str) -> ToolOutput {
    ToolOutput { structured: Some(json!({ "content": text })), ..ToolOutput::text(text) }
}

fn image_twice(data: &str) -> ToolOutput {
    let image = json!({ "type": "image", "data": data, "mimeType": "image/png" });
    ToolOutput { structured: Some(json!({ "content": [image.clone()] })), ..block(image) }
}

fn block(value: Value) -> ToolOutput {
    ToolOutput { content: vec![value], ..ToolOutput::default() }
}

fn blocks(count: usize, text: &str) -> ToolOutput {
    let content = (0..count).map(|_| json!({ "type": "text", "text": text })).collect();
    ToolOutput { content, ..ToolOutput::default() }
}

#[tokio::test]
async fn what_is_within_its_caps_passes_untouched_and_what_is_not_is_spooled() {
    let big = "x".repeat(BYTES + 100);
    let mut meta = Map::new();
    meta.insert("_meta".to_owned(), json!({ "note": big }));
    let cases: Vec<(&str, ToolOutput, bool)> = vec![
        ("nothing", ToolOutput::default(), false),
        ("short", ToolOutput::text("short"), false),
        ("at the cap", ToolOutput::text("x".repeat(BYTES)), false),
        ("over the cap", ToolOutput::text(big.clone()), true),
        ("lines at the cap", ToolOutput::text("\n".repeat(LINES)), false),
        ("lines over the cap", ToolOutput::text("\n".repeat(LINES + 1)), true),
        ("many blocks", blocks(30, &"x".repeat(50)), true),
        ("lines in many blocks", blocks(3, &"\n".repeat(10)), true),
        ("structured", structured(json!({ "a": big })), true),
        ("text and structure at the cap", twice(&"x".repeat(BYTES)), false),
        ("text and structure over the cap", twice(&big), true),
        ("an image in both", image_twice(&big), false),
        ("structured in keys", structured(json!({ big.clone(): 1 })), true),
        ("structured as `data`", structured(json!({ "data": big, "blob": big })), true),
        ("numbers", structured(json!((0..400).collect::<Vec<_>>())), true),
        ("empty lists", structured(json!(vec![json!([]); 600])), true),
        ("truths", structured(json!(vec![true; 400])), true),
        ("text called data", block(json!({ "type": "text", "text": "x", "data": big })), true),
        ("unknown block", block(json!({ "type": "hologram", "data": big })), true),
        ("image", block(json!({ "type": "image", "data": big, "mimeType": "image/png" })), false),
        ("audio", block(json!({ "type": "audio", "data": big, "mimeType": "audio/wav" })), false),
        (
            "blob",
            block(json!({ "type": "resource", "resource": { "uri": "x:y", "blob": big } })),
            false,
        ),
        (
            "text resource",
            block(json!({ "type": "resource", "resource": { "uri": "x:y", "text": big } })),
            true,
        ),
        ("huge image", block(json!({ "type": "image", "data": "x".repeat(9 << 20) })), true),
        ("further members", ToolOutput { rest: meta, ..ToolOutput::text("x") }, true),
    ];
    for (name, output, spooled) in cases {
        let (gate, result) = run(output.clone()).await;
        assert!(result.success, "{name}");
        assert_eq!(result.meta.output_spool.is_some(), spooled, "{name}");
        if !spooled {
            assert_eq!(result.content, output.content, "{name}");
            assert_eq!(result.structured_content, output.structured, "{name}");
            assert!(result.artifacts.is_empty(), "{name}");
            continue;
        }
        check_spooled(name, &gate, &result, &output).await;
    }
}

async fn check_spooled(name: &str, gate: &TestGate, result: &ToolResult, output: &ToolOutput) {
    let artifact = &result.artifacts[0];
    assert_eq!(result.meta.output_spool.as_ref(), Some(artifact), "{name}");
    let text = result.content[0]["text"].as_str().unwrap();
    assert!(text.contains("cut here") && text.contains(&artifact.uri), "{name}: {text}");
    assert!(text.len() <= BYTES + 400, "{name}: {}", text.len());
    assert!(text.matches('\n').count() <= LINES + 2, "{name}");
    assert_eq!(result.content[1]["type"], "resource_link", "{name}");
    assert_eq!(result.content[1]["uri"], artifact.uri.as_str(), "{name}");
    assert!(serde_json::to_string(result).unwrap().len() < BYTES + 2000, "{name}");
    assert!(serde_json::to_string(&result.rest).unwrap().len() < 5000, "{name}");
    let (info, bytes) =
        gate.store.get(&artifact.sha256, &caller("ann").principal).await.unwrap().unwrap();
    assert_eq!((info.tool_id.as_str(), bytes.len() as u64), ("s:t", artifact.size), "{name}");
    assert!(
        gate.store.get(&artifact.sha256, &caller("bob").principal).await.unwrap().is_none(),
        "{name}"
    );
    let kept = String::from_utf8(bytes).unwrap();
    let texts: Vec<&str> =
        output.content.iter().filter_map(|block| block["text"].as_str()).collect();
    if artifact.mime_type == "text/plain" {
        assert_eq!(kept, texts.join("\n"), "{name}: the whole is there");
    } else {
        let whole: Value = serde_json::from_str(&kept).unwrap();
        assert_eq!(whole["content"].as_array().unwrap().len(), output.content.len(), "{name}");
        assert_eq!(
            whole["structuredContent"],
            output.structured.clone().unwrap_or_default(),
            "{name}"
        );
        assert!(output.rest.iter().all(|(key, value)| whole[key] == *value), "{name}");
    }
    let outcome = of_kind(gate, EventKind::Outcome).await.pop().unwrap();
    assert_eq!(outcome.rest["artifact"], artifact.sha256.as_str(), "{name}");
}

#[tokio::test]
async fn a_preview_keeps_to_caps_smaller_than_itself() {
    for text in ["é".repeat(5000), "a\n".repeat(5000), "🙂".repeat(500)] {
        let mut terms = terms();
        terms.limits.max_output_bytes = 50;
        terms.limits.max_output_lines = 3;
        let gate =
            gate_under(&returning(tool("t", &Value::Null), ToolOutput::text(text)), terms).await;
        let result = gate.call("ann", "s:t", json!({})).await;
        let shown = result.content[0]["text"].as_str().unwrap();
        let (head, rest) = shown.split_once("\n\n[output of").unwrap();
        let tail = rest.split_once("]\n\n").unwrap().1;
        assert!(head.len() + tail.len() <= 50, "{shown:?}");
        assert!(head.matches('\n').count() + tail.matches('\n').count() <= 3, "{shown:?}");
        assert!(!head.is_empty() && !tail.is_empty());
    }
}

#[tokio::test]
async fn a_cut_output_shows_its_beginning_and_its_end() {
    let text = format!("first line {} last line", "x".repeat(2 * BYTES));
    let json = json!({ "first": text.clone(), "end": "of the structure" });
    let only_structured = ToolOutput { structured: Some(json), ..ToolOutput::default() };
    for (output, first, last) in [
        (ToolOutput::text(text.clone()), "first line", "last line"),
        (twice(&text), "first line", "last line"),
        (only_structured, "{\"first\":\"first line", "of the structure\"}"),
    ] {
        let (_, result) = run(output).await;
        let shown = result.content[0]["text"].as_str().unwrap();
        assert!(result.success && shown.starts_with(first) && shown.ends_with(last), "{shown}");
    }
}

#[tokio::test]
async fn a_cut_output_of_a_tool_with_an_output_schema_is_an_error_that_shows_the_same() {
    let mut spec = tool("t", &Value::Null);
    spec.rest.insert("outputSchema".to_owned(), json!({ "type": "object" }));
    let text = format!("first line {} last line", "x".repeat(2 * BYTES));
    let gate = gate_under(&returning(spec, twice(&text)), terms()).await;
    let result = gate.call("ann", "s:t", json!({})).await;
    assert_eq!(code(&result), Some(ErrorCode::ExecutionFailed));
    assert_eq!(result.structured_content, None);
    let shown = result.content[0]["text"].as_str().unwrap();
    let artifact = &result.artifacts[0];
    for part in ["the tool has done its work", "first line", "last line", &artifact.uri] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(result.content[1]["uri"], artifact.uri.as_str());
    assert_eq!(artifact.mime_type, "text/plain");
    let (_, kept) =
        gate.store.get(&artifact.sha256, &caller("ann").principal).await.unwrap().unwrap();
    assert_eq!(String::from_utf8(kept).unwrap(), text, "what is said twice is kept once");
}

#[tokio::test]
async fn where_the_artifact_can_not_be_stored_the_output_is_cut_all_the_same() {
    let text = "secretless ".repeat(10_000);
    for output in [ToolOutput::text(text.clone()), structured(json!({ "a": text }))] {
        let gate = gate_under(&returning(tool("t", &Value::Null), output), terms()).await;
        gate.store.faults().before(async |operation| match operation {
            Operation::PutArtifact => Err(StoreError::Quota { used: 1, quota: 1 }),
            _ => Ok(()),
        });
        let result = gate.call("ann", "s:t", json!({})).await;
        assert!(result.success);
        assert!(result.artifacts.is_empty() && result.meta.output_spool.is_none());
        assert_eq!(result.content.len(), 1);
        assert_eq!(result.structured_content, None);
        let shown = result.content[0]["text"].as_str().unwrap();
        assert!(shown.len() < BYTES + 400 && shown.contains("the rest is lost"), "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_answer_has_the_time_of_its_call() {
    let source = returning(tool("t", &Value::Null), ToolOutput::text("large ".repeat(10_000)));
    let gate = gate_under(&source, terms()).await;
    gate.store.faults().before(async |operation| match operation {
        Operation::PutArtifact => std::future::pending().await,
        _ => Ok(()),
    });
    let result = gate.call("ann", "s:t", json!({})).await;
    assert_eq!(code(&result), Some(ErrorCode::Timeout), "{result:?}");
}

#[tokio::test]
async fn structured_results_keep_to_the_output_schema() {
    let schema = json!({ "type": "object", "required": ["n"], "properties": { "n": { "type": "integer" } } });
    let mut spec = tool("t", &Value::Null);
    spec.rest.insert("outputSchema".to_owned(), schema);
    let failure = |value: Value| ToolOutput { is_error: true, ..structured(value) };
    let cases = [
        (structured(json!({ "n": 1 })), None),
        (structured(json!({ "n": "one" })), Some(ErrorCode::ValidationError)),
        (structured(json!({})), Some(ErrorCode::ValidationError)),
        (structured(json!([1])), Some(ErrorCode::ValidationError)),
        (ToolOutput::text("only text"), None),
        (structured(Value::Null), None),
        (failure(json!({ "why": 1 })), Some(ErrorCode::ExecutionFailed)),
    ];
    for (output, expected) in cases {
        let gate = gate_under(&returning(spec.clone(), output.clone()), terms()).await;
        let result = gate.call("ann", "s:t", json!({})).await;
        assert_eq!(code(&result), expected, "{output:?}");
        if expected == Some(ErrorCode::ValidationError) {
            assert!(result.structured_content.is_none());
            let [mark, own, json] = result.content.as_slice() else { panic!("{result:?}") };
            let mark = mark["text"].as_str().unwrap();
            assert!(
                mark.starts_with("[`s:t` returned what breaks its own output schema"),
                "{mark}"
            );
            assert_eq!(own["text"], "see there");
            assert_eq!(json["text"], output.structured.unwrap().to_string());
            assert!(
                !message(&result).contains("one\""),
                "the value is not echoed: {}",
                message(&result)
            );
        }
    }
}

#[tokio::test]
async fn a_tools_own_failure_passes_its_content_with_a_code() {
    let mut output = ToolOutput::failure("file not found: a.txt");
    output.content.push(json!({ "type": "hologram", "new": true }));
    let (gate, result) = run(output.clone()).await;
    assert!(!result.success);
    assert_eq!(code(&result), Some(ErrorCode::ExecutionFailed));
    assert_eq!(message(&result), "file not found: a.txt");
    assert_eq!(result.content, output.content);
    let outcome = of_kind(&gate, EventKind::Outcome).await.pop().unwrap();
    assert_eq!((outcome.success, outcome.code.as_deref()), (Some(false), Some("EXECUTION_FAILED")));
    let (_, silent) = run(ToolOutput { is_error: true, ..ToolOutput::default() }).await;
    assert_eq!(message(&silent), "the tool reports a failure");
}

#[tokio::test]
async fn a_sources_failure_passes_its_message_and_details_redacted() {
    let source = Probe::new("s", vec![tool("t", &Value::Null)], |_, _| {
        Box::pin(async {
            Err(SourceError::Failed {
                message: "bad token known-secret-value".to_owned(),
                details: Some(
                    json!({ "status": 401, "password": "hunter2", "at": "known-secret-value" }),
                ),
            })
        })
    });
    let gate = gate_under(&source, terms()).await;
    gate.control.parts().redactor.store(Arc::new(Redactor::new(["known-secret-value"])));
    let error = gate.call("ann", "s:t", json!({})).await.error.unwrap();
    assert_eq!(error.code, ErrorCode::ExecutionFailed);
    assert_eq!(error.details.as_ref().unwrap()["status"], 401);
    let all = serde_json::to_string(&error).unwrap();
    assert!(!all.contains("known-secret") && !all.contains("hunter2"), "{all}");
}

#[tokio::test]
async fn known_secrets_leave_in_no_part_of_an_answer() {
    let secret = "known-secret-value";
    let mut rest = Map::new();
    rest.insert("_meta".to_owned(), json!({ "deep": [{ "x": format!("a {secret} b") }] }));
    let outputs = [
        ToolOutput::text(format!("it is {secret}")),
        ToolOutput::failure(format!("it is {secret}")),
        structured(json!({ "a": [secret] })),
        block(
            json!({ "type": "resource", "resource": { "uri": format!("x:{secret}"), "text": secret } }),
        ),
        ToolOutput { rest, ..ToolOutput::text("x") },
        ToolOutput::text(format!("{secret} ").repeat(1000)),
    ];
    for output in outputs {
        let gate = gate_under(&returning(tool("t", &Value::Null), output.clone()), terms()).await;
        gate.control.parts().redactor.store(Arc::new(Redactor::new([secret])));
        let result = gate.call("ann", "s:t", json!({})).await;
        let all = format!("{result:?} {:?} {:?}", result.rest, gate.events().await);
        assert!(!all.contains(secret), "{output:?}: {all}");
        for artifact in &result.artifacts {
            let (_, bytes) =
                gate.store.get(&artifact.sha256, &Principal::local()).await.unwrap().unwrap();
            assert!(!String::from_utf8(bytes).unwrap().contains(secret));
        }
    }
}

#[tokio::test]
async fn output_hashes_are_of_the_redacted_output_and_always_the_same() {
    let hash = async |output: ToolOutput| {
        let (gate, _) = run(output).await;
        of_kind(&gate, EventKind::Outcome).await.pop().unwrap().output_hash.unwrap()
    };
    assert_eq!(hash(ToolOutput::text("a")).await, hash(ToolOutput::text("a")).await);
    assert_ne!(hash(ToolOutput::text("a")).await, hash(ToolOutput::text("b")).await);
    let one = structured(json!({ "password": "hunter2-one", "a": 1 }));
    let two = structured(json!({ "a": 1, "password": "hunter2-two" }));
    assert_eq!(hash(one).await, hash(two).await);
    let large = |c: char| ToolOutput::text(c.to_string().repeat(300_000));
    assert_eq!(hash(large('x')).await, hash(large('x')).await);
    assert_ne!(hash(large('x')).await, hash(large('y')).await);
}

#[tokio::test]
async fn where_the_source_validates_it_gets_what_does_not_fit() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let mut spec = tool("t", &Value::Null);
    spec.input_schema = schema;
    let source = Probe::new("s", vec![spec], |arguments, _| {
        let said = serde_json::to_string(&arguments).unwrap();
        Box::pin(async move { Ok(ToolOutput::text(said)) })
    });
    let odd = json!({ "n": "3" });
    let by_gate = gate_under(&source, terms()).await.call("ann", "s:t", odd.clone()).await;
    assert_eq!(code(&by_gate), Some(ErrorCode::InvalidArguments));
    let lenient = SourceTerms { validation: Validation::Source, ..terms() };
    let gate = gate_under(&source, lenient).await;
    let result = gate.call("ann", "s:t", odd.clone()).await;
    assert_eq!(result.content[0]["text"], r#"{"n":"3"}"#);

    let rules = json!({ "version": "1.0", "defaults": { "fallback": "allow" }, "rules": [
        { "id": "r", "action": "*", "when": { "arguments": { "n": { "equals": 3 } } }, "decision": "deny" }] });
    gate.control.parts().rules.store(Arc::new(crate::policy::Rules::from_value(rules).unwrap()));
    for (arguments, expected) in [
        (json!({ "n": 4 }), None),
        (json!({ "n": 3 }), Some(ErrorCode::PermissionDenied)),
        (odd, Some(ErrorCode::PermissionDenied)),
    ] {
        let result = gate.call("ann", "s:t", arguments.clone()).await;
        assert_eq!(code(&result), expected, "{arguments}");
    }
}
