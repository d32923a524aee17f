use serde_json::json;

use super::*;

fn read(value: Value) -> Result<Narrowing, String> {
    serde_json::from_value(value).map_err(|error: serde_json::Error| error.to_string())
}

#[test]
fn the_json_form() {
    let all = json!({ "grantIds": ["a"], "redactKeys": ["pin"], "runId": "r", "timeoutMs": 7 });
    let full = Narrowing {
        grant_ids: Some(vec!["a".into()]),
        redact_keys: vec!["pin".to_owned()],
        run_id: Some("r".to_owned()),
        timeout_ms: Some(7),
    };
    assert_eq!(read(all.clone()), Ok(full.clone()));
    assert_eq!(serde_json::to_value(&full).unwrap(), all);
    assert_eq!(serde_json::to_value(Narrowing::default()).unwrap(), json!({}));
    let empty = Narrowing { grant_ids: Some(vec![]), ..Narrowing::default() };
    assert_eq!(read(json!({ "grantIds": [] })), Ok(empty));
    let nulls = json!({ "grantIds": null, "redactKeys": null, "runId": null, "timeoutMs": null });
    assert_eq!(read(nulls), Ok(Narrowing::default()));
}

#[test]
fn a_malformed_member_is_named() {
    let cases = [
        (json!({ "grantIds": "a" }), "grantIds"),
        (json!({ "grantIds": ["a", 7] }), "grantIds"),
        (json!({ "redactKeys": { "pin": true } }), "redactKeys"),
        (json!({ "redactKeys": [null] }), "redactKeys"),
        (json!({ "runId": 7 }), "runId"),
        (json!({ "timeoutMs": "7" }), "timeoutMs"),
        (json!({ "timeoutMs": -1 }), "timeoutMs"),
        (json!({ "timeoutMs": 1.5 }), "timeoutMs"),
        (json!({ "grantId": ["a"] }), "grantId"),
        (json!({ "grant_ids": ["a"] }), "grant_ids"),
    ];
    for (value, member) in cases {
        let error = read(value.clone()).unwrap_err();
        assert!(error.contains(&format!("`{member}`")), "{value}: {error}");
    }
    for value in [json!(null), json!([]), json!("x"), json!(7)] {
        assert!(read(value.clone()).is_err(), "{value}");
    }
}

#[test]
fn everything_is_bounded() {
    let text = |length: usize| "x".repeat(length);
    let ids = |count: usize, length: usize| Narrowing {
        grant_ids: Some(vec![text(length).into(); count]),
        ..Narrowing::default()
    };
    let keys = |keys: Vec<String>| Narrowing { redact_keys: keys, ..Narrowing::default() };
    let run = |id: String| Narrowing { run_id: Some(id), ..Narrowing::default() };
    let cases = [
        (ids(0, 0), None),
        (ids(MAX_GRANTS, MAX_GRANT_ID), None),
        (ids(MAX_GRANTS + 1, 1), Some("grantIds")),
        (ids(1, MAX_GRANT_ID + 1), Some("grantIds")),
        (ids(1, 0), Some("grantIds")),
        (keys(vec![text(MAX_REDACT_KEY); MAX_EXTRA_KEYS]), None),
        (keys(vec![text(1); MAX_EXTRA_KEYS + 1]), Some("redactKeys")),
        (keys(vec![text(MAX_REDACT_KEY + 1)]), Some("redactKeys")),
        (keys(vec![text(0)]), Some("redactKeys")),
        (keys(vec!["--".to_owned()]), Some("redactKeys")),
        (run(text(MAX_RUN_ID)), None),
        (run(text(MAX_RUN_ID + 1)), Some("runId")),
        (run(text(0)), Some("runId")),
        (Narrowing { timeout_ms: Some(u64::MAX), ..Narrowing::default() }, None),
    ];
    for (narrowing, member) in cases {
        let shown = format!("{narrowing:?}");
        let found = check(&narrowing.of(ToolInvocation::default()), true);
        match member {
            None => assert_eq!(found, Ok(()), "{shown}"),
            Some(member) => {
                let error = found.unwrap_err();
                assert_eq!(error.code, ErrorCode::InvalidArguments, "{shown}");
                assert!(error.message.contains(&format!("`{member}`")), "{error}");
            }
        }
    }
}
