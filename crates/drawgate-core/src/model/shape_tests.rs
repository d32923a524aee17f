use serde_json::json;

use super::*;

/// A definition or result, what is left of it, and what is said about the rest.
type Row = (Value, Value, &'static [&'static str]);

#[track_caller]
fn check(form: Form, base: &Value, rows: &[Row]) {
    for (odd, left, said) in rows {
        let mut value = base.clone();
        merge(&mut value, odd);
        let found = misfits(form, &value).unwrap();
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, *said, "{odd}");
        fit(form, &mut value).unwrap();
        let mut expected = base.clone();
        merge(&mut expected, left);
        assert_eq!(value, expected, "{odd}");
        assert_eq!(misfits(form, &value).unwrap(), [], "{odd}");
    }
}

fn merge(base: &mut Value, more: &Value) {
    let (Value::Object(base), Value::Object(more)) = (base, more) else { panic!("objects") };
    base.extend(more.clone());
}

#[test]
fn members_of_the_wrong_type_are_left_out_and_the_others_stay() {
    let icon = json!({ "src": "data:," });
    check(
        TOOL,
        &json!({ "name": "t", "inputSchema": { "type": "object" } }),
        &[
            (json!({ "later": null, "_later": [1] }), json!({ "later": null, "_later": [1] }), &[]),
            (json!({ "title": null }), json!({}), &["`title` must be a text"]),
            (json!({ "title": 5 }), json!({}), &["`title` must be a text"]),
            (json!({ "description": ["a"] }), json!({}), &["`description` must be a text"]),
            (json!({ "_meta": null }), json!({}), &["`_meta` must be an object"]),
            (json!({ "_meta": { "a": null } }), json!({ "_meta": { "a": null } }), &[]),
            (json!({ "icons": null }), json!({}), &["`icons` must be a list"]),
            (
                json!({ "icons": [{}, icon, 7, { "src": 1 }] }),
                json!({ "icons": [icon] }),
                &[
                    "`icons[0]` has no `src`",
                    "`icons[2]` must be an object",
                    "`icons[3]` has a `src` that must be a URI with `http:`, `https:` or `data:`",
                ],
            ),
            (
                json!({ "icons": [
                    { "src": "javascript:alert(1)" }, { "src": "HTTPS://a/b" }, { "src": "file:///a" },
                    { "src": " javascript:x" }, { "src": "http://a" }, { "src": "icon.png" },
                ] }),
                json!({ "icons": [{ "src": "HTTPS://a/b" }, { "src": "http://a" }] }),
                &[
                    "`icons[0]` has a `src` that must be a URI with `http:`, `https:` or `data:`",
                    "`icons[2]` has a `src` that must be a URI with `http:`, `https:` or `data:`",
                    "`icons[3]` has a `src` that must be a URI with `http:`, `https:` or `data:`",
                    "`icons[5]` has a `src` that must be a URI with `http:`, `https:` or `data:`",
                ],
            ),
            (
                json!({ "icons": [{ "src": "data:a", "theme": "red", "sizes": ["any", 1], "x": 1 }] }),
                json!({ "icons": [{ "src": "data:a", "sizes": ["any"], "x": 1 }] }),
                &[
                    "`icons[0].sizes[1]` must be a text",
                    "`icons[0].theme` must be one of `light`, `dark`",
                ],
            ),
            (
                json!({ "annotations": { "readOnlyHint": "yes", "title": null, "own": null } }),
                json!({ "annotations": { "own": null } }),
                &[
                    "`annotations.title` must be a text",
                    "`annotations.readOnlyHint` must be `true` or `false`",
                ],
            ),
            (json!({ "execution": [] }), json!({}), &["`execution` must be an object"]),
        ],
    );
}

#[test]
fn the_same_holds_beside_tools() {
    check(
        RESOURCE,
        &json!({ "uri": "a:b", "name": "n" }),
        &[
            (
                json!({ "size": 1.5, "mimeType": 1 }),
                json!({}),
                &["`mimeType` must be a text", "`size` must be a whole number"],
            ),
            (json!({ "size": 1.0 }), json!({ "size": 1.0 }), &[]),
            (
                json!({ "annotations": { "audience": ["user", "x"], "priority": 1.5, "lastModified": "now" } }),
                json!({ "annotations": { "audience": ["user"] } }),
                &[
                    "`annotations.audience[1]` must be one of `user`, `assistant`",
                    "`annotations.priority` must be a number from 0 to 1",
                    "`annotations.lastModified` must be a time such as `2026-01-31T12:00:00Z`",
                ],
            ),
        ],
    );
    check(
        PROMPT,
        &json!({ "name": "p" }),
        &[
            (json!({ "arguments": null }), json!({}), &["`arguments` must be a list"]),
            (
                json!({ "arguments": [{ "name": "a", "required": "yes" }, { "required": true }] }),
                json!({ "arguments": [{ "name": "a" }] }),
                &[
                    "`arguments[0].required` must be `true` or `false`",
                    "`arguments[1]` has no `name`",
                ],
            ),
        ],
    );
}

#[test]
fn what_lacks_a_member_that_it_must_have_does_not_fit() {
    for (form, value, why) in [
        (RESOURCE, json!({ "name": "n" }), "has no `uri`"),
        (
            RESOURCE,
            json!({ "uri": "a b", "name": "n" }),
            "has a `uri` that must be a URI with a scheme",
        ),
        (TEMPLATE, json!({ "name": "n" }), "has no `uriTemplate`"),
        (PROMPT, json!({ "name": null }), "has a `name` that must be a text"),
        (PROMPT, json!(null), "must be an object"),
    ] {
        assert_eq!(misfits(form, &value).unwrap_err().to_string(), why, "{value}");
    }
}

#[test]
fn answers_keep_their_content_and_lose_odd_members() {
    let block = |odd: Value| {
        let mut output = ToolOutput { content: vec![odd], ..ToolOutput::default() };
        fit_output(Operation::CallTool, &mut output);
        output.content.remove(0)
    };
    for (odd, left) in [
        (
            json!({ "type": "text", "text": "a", "annotations": null, "_meta": 1 }),
            json!({ "type": "text", "text": "a" }),
        ),
        (
            json!({ "type": "text", "text": null, "_meta": 1 }),
            json!({ "type": "text", "text": null, "_meta": 1 }),
        ),
        (
            json!({ "type": "later", "annotations": null }),
            json!({ "type": "later", "annotations": null }),
        ),
        (
            json!({ "type": "resource", "resource": { "uri": "a:b", "text": null, "blob": "", "mimeType": null } }),
            json!({ "type": "resource", "resource": { "uri": "a:b", "blob": "" } }),
        ),
        (
            json!({ "type": "resource_link", "uri": "a:b", "name": "n", "title": 5, "size": "1" }),
            json!({ "type": "resource_link", "uri": "a:b", "name": "n" }),
        ),
        (json!("text"), json!("text")),
    ] {
        assert_eq!(block(odd), left);
    }
    for (operation, odd, left) in [
        (
            Operation::CallTool,
            json!({ "isError": null, "_meta": { "progressToken": {}, "a": 1 } }),
            json!({ "_meta": { "a": 1 } }),
        ),
        (
            Operation::ReadResource,
            json!({ "contents": [{ "uri": "a:b", "mimeType": null, "text": "" }, {}], "ttlMs": null }),
            json!({ "contents": [{ "uri": "a:b", "text": "" }, {}] }),
        ),
        (
            Operation::GetPrompt,
            json!({ "description": null, "messages": [{ "role": "user", "content": { "type": "text", "text": "", "_meta": null } }] }),
            json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "" } }] }),
        ),
        (
            Operation::Complete,
            json!({ "completion": { "values": ["a", 1], "total": null, "hasMore": null } }),
            json!({ "completion": { "values": ["a"] } }),
        ),
    ] {
        let Value::Object(rest) = odd else { panic!("an object") };
        let mut output = ToolOutput { rest, ..ToolOutput::default() };
        fit_output(operation, &mut output);
        assert_eq!(Value::Object(output.rest), left);
    }
}

#[test]
fn times_are_those_of_the_calendar() {
    for good in ["2026-01-31T12:00:00Z", "2024-02-29T23:59:59.123+02:30", "2000-02-29T00:00-11:00"]
    {
        assert!(is_time(good), "{good}");
    }
    for bad in [
        "",
        "T",
        "now",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-01-31 12:00:00Z",
        "2026-02-29T12:00:00Z",
        "1900-02-29T12:00:00Z",
        "2026-13-01T12:00:00Z",
        "2026-04-31T12:00:00Z",
        "2026-01-00T12:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:60:00Z",
        "2026-01-31T12:00:60Z",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00.5Z",
        "2026-1-31T12:00:00Z",
        "2026-01-31T12:00:00+2:00",
        "+026-01-31T12:00:00Z",
        "2026-01-31T12:00:00+24:00",
        "2026-01-31T12:00:00+02:00Z",
    ] {
        assert!(!is_time(bad), "{bad}");
    }
}

#[test]
fn a_list_of_which_hardly_anything_fits_is_left_out() {
    for (unfit, left) in [(MAX_UNFIT, Some(1)), (MAX_UNFIT + 1, None), (100_000, None)] {
        let mut icons = vec![json!({ "src": 5 }); unfit];
        icons.push(json!({ "src": "https://a/b.png" }));
        let mut tool = json!({ "name": "a", "icons": icons });
        let found = misfits(TOOL, &tool).unwrap();
        assert!(found.len() <= MAX_UNFIT, "{unfit}: {}", found.len());
        fit(TOOL, &mut tool).unwrap();
        assert_eq!(tool["icons"].as_array().map(Vec::len), left, "{unfit}");
    }
}
