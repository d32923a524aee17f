use super::*;
use serde_json::json;

#[track_caller]
fn syntax(bytes: &[u8]) {
    match parse(bytes) {
        Err(JsonError::Syntax(message)) => assert!(message.contains("line"), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn builds_what_serde_json_builds() {
    let text = r#"{"b":[1,-2,3.5,1e3,null,true,"\u00e9\n"],"a":{"":{}},"big":18446744073709551615,"bigger":18446744073709551616}"#;
    let ours = parse(text.as_bytes()).unwrap();
    let theirs: Value = serde_json::from_str(text).unwrap();
    assert_eq!(ours, theirs);
    assert_eq!(ours.to_string(), theirs.to_string(), "order is kept");
}

#[test]
fn scalars_and_white_space_around_them() {
    assert_eq!(parse(b" 7 ").unwrap(), json!(7));
    assert_eq!(parse(b"\n\"x\"\t").unwrap(), json!("x"));
    assert_eq!(parse(b"null").unwrap(), Value::Null);
}

#[test]
fn duplicates_are_refused_at_every_depth() {
    for text in [
        r#"{"a":1,"a":1}"#,
        r#"[{"x":{"a":1,"b":2,"a":3}}]"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"{"x":[[[{"a":{},"a":{}}]]]}"#,
    ] {
        assert_eq!(parse(text.as_bytes()), Err(JsonError::Duplicate("a".to_owned())), "{text}");
    }
}

#[test]
fn the_same_key_in_different_objects_is_no_duplicate() {
    assert!(parse(br#"{"a":{"a":1},"b":[{"a":1},{"a":2}]}"#).is_ok());
}

#[test]
fn a_shown_key_is_short_and_harmless() {
    let key = "\\n".repeat(1000);
    let Err(JsonError::Duplicate(shown)) = parse(format!(r#"{{"{key}":1,"{key}":2}}"#).as_bytes())
    else {
        panic!("not refused")
    };
    assert_eq!(shown, "\\n".repeat(SHOWN_KEY));
}

#[test]
fn depth_is_bounded_exactly() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(nested(MAX_DEPTH).as_bytes()).is_ok());
    assert_eq!(parse(nested(MAX_DEPTH + 1).as_bytes()), Err(JsonError::Depth));
    let objects = format!("{}1{}", r#"{"a":"#.repeat(65), "}".repeat(65));
    assert_eq!(parse(objects.as_bytes()), Err(JsonError::Depth));
}

#[test]
fn values_are_bounded_exactly() {
    let text = |values: usize| format!("[{}0]", "0,".repeat(values - 2));
    assert!(parse(text(MAX_VALUES).as_bytes()).is_ok());
    assert_eq!(parse(text(MAX_VALUES + 1).as_bytes()), Err(JsonError::Values));
    let member = format!("{{\"a\":{}}}", text(MAX_VALUES + 1));
    assert_eq!(parse_members_lossy(member.as_bytes(), ["b"]), Err(JsonError::Values));
}

#[test]
fn a_million_brackets_do_not_overflow_the_stack() {
    assert_eq!(parse(&vec![b'['; 1_000_000]), Err(JsonError::Depth));
    assert_eq!(parse(r#"{"a":"#.repeat(1_000_000).as_bytes()), Err(JsonError::Depth));
}

#[test]
fn what_is_not_json_is_refused() {
    for bytes in [
        &b""[..],
        b"{",
        b"{}x",
        b"{} {}",
        b"1e999",
        b"-1e999",
        b"[1e999]",
        b"NaN",
        b"01",
        b"+1",
        b"'a'",
        b"{\"a\":1,}",
        b"[1,]",
        b"\xef\xbb\xbf{}",
        b"\"\xff\"",
        b"{\"\xc3\x28\":1}",
        b"{\"a\":\"\xed\xa0\x80\"}",
        br#""\ud800""#,
        b"\"\x01\"",
        b"// a\n1",
    ] {
        syntax(bytes);
    }
}

#[test]
fn errors_do_not_repeat_the_content() {
    let Err(error) = parse(br#"{"password": hunter2}"#) else { panic!("not refused") };
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

#[test]
fn what_is_not_unicode_is_replaced_in_answers_only() {
    let cases: [(&[u8], Value); 10] = [
        (br#"{"a":"x\ud800y"}"#, json!({ "a": "x\u{fffd}y" })),
        (br#""\uDFFF""#, json!("\u{fffd}")),
        (br#""\ud83d\ude00\ud83d""#, json!("\u{1f600}\u{fffd}")),
        (br#""\ud800\ud83d\ude00""#, json!("\u{fffd}\u{1f600}")),
        (br#""\ude00\ud83d""#, json!("\u{fffd}\u{fffd}")),
        (br#""\\ud800 \ud800""#, json!("\\ud800 \u{fffd}")),
        (br#""\ud800\n""#, json!("\u{fffd}\n")),
        (br#"{"\ud800":1}"#, json!({ "\u{fffd}": 1 })),
        (b"\"a\xffb\"", json!("a\u{fffd}b")),
        (b"[\"\xed\xa0\x80\"]", json!(["\u{fffd}\u{fffd}\u{fffd}"])),
    ];
    for (bytes, expected) in cases {
        assert_eq!(parse_lossy(bytes).unwrap(), expected, "{}", bytes.escape_ascii());
        assert!(parse(bytes).is_err(), "{}", bytes.escape_ascii());
    }
    for bytes in [br#"{"\ud800":1,"\udfff":2}"#.as_slice(), br#"{"a":1,"a":2}"#] {
        assert!(matches!(parse_lossy(bytes), Err(JsonError::Duplicate(_))));
    }
    for bytes in [br#""\ud8"#.as_slice(), br#""\u+123""#, br#""\ud800"#, b"\\", b"\xff", b""] {
        assert!(matches!(parse_lossy(bytes), Err(JsonError::Syntax(_))));
    }
}

#[test]
fn members_are_those_of_the_whole_value_and_refused_like_it() {
    const NAMES: [&str; 3] = ["id", "method", "absent"];
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(64), close.repeat(64));
    let texts = [
        r#"{"id":7,"method":"x","other":{"a":[1,{"b":2}]},"more":null}"#.to_owned(),
        r#" {"m\u0065thod":"x\n","\u00e9":1} "#.to_owned(),
        "{}".to_owned(),
        r#"[{"id":1},2]"#.to_owned(),
        r#""text""#.to_owned(),
        "-7".to_owned(),
        "1.5".to_owned(),
        "null".to_owned(),
        "true".to_owned(),
        r#"{"id":1,"id":1}"#.to_owned(),
        r#"{"id":1,"\u0069d":2}"#.to_owned(),
        r#"{"other":1,"id":2,"other":3}"#.to_owned(),
        r#"{"other":{"a":1,"a":2}}"#.to_owned(),
        r#"{"id":{"a":1,"a":2}}"#.to_owned(),
        r#"{"id":1e999}"#.to_owned(),
        r#"{"id":1} {}"#.to_owned(),
        r#"{"id":1,}"#.to_owned(),
        format!(r#"{{"id":{}}}"#, deep("[", "]")),
        format!(r#"{{"other":{}}}"#, deep("[", "]")),
        deep("[", "]"),
        String::new(),
    ];
    for text in texts {
        let whole = parse(text.as_bytes()).map(|value| match value {
            Value::Object(map) => Outermost::Object(NAMES.map(|name| map.get(name).cloned())),
            other => Outermost::Other(other),
        });
        assert_eq!(parse_members(text.as_bytes(), NAMES), whole, "{text}");
    }
}

#[test]
fn members_of_text_that_is_not_unicode_are_mended() {
    let text = b"{\"id\":\"a\xffb\\ud800\",\"other\":\"\xff\"}";
    assert!(matches!(parse_members(text, ["id"]), Err(JsonError::Syntax(_))));
    let mended = Outermost::Object([Some(json!("a\u{fffd}b\u{fffd}"))]);
    assert_eq!(parse_members_lossy(text, ["id"]), Ok(mended));
}

/// The comparison without a tree agrees with the one of trees, but for a key that comes twice.
#[test]
fn a_text_is_compared_with_a_value_as_it_is_read() {
    let values = [
        json!(null),
        json!(true),
        json!(0),
        json!(-7),
        json!(1.0),
        json!("a\n\u{e9}"),
        json!([]),
        json!([1, [2, { "a": null }]]),
        json!({}),
        json!({ "a": 1, "b": [1, 2] }),
        json!({ "a": 1 }),
    ];
    for value in &values {
        for other in &values {
            let text = serde_json::to_string_pretty(other).unwrap();
            assert_eq!(is_json_of(&text, value), value == other, "{text} and {value}");
        }
        for wrong in ["", " x", ",", "]"] {
            let text = format!("{value}{wrong}");
            assert_eq!(is_json_of(&text, value), wrong.is_empty(), "{text}");
        }
    }
    for (text, value) in [
        (r#"{"b":[1,2],"a":1}"#, json!({ "a": 1, "b": [1, 2] })),
        (" [ 1 , 2 ] ", json!([1, 2])),
        (r#""\u0061\n\u00e9""#, json!("a\n\u{e9}")),
    ] {
        assert!(is_json_of(text, &value), "{text}");
    }
    for (text, value) in [
        (r#"{"a":1,"a":1}"#, json!({ "a": 1 })),
        (r#"{"a":1,"a":1}"#, json!({ "a": 1, "b": 1 })),
        ("[1,2,3]", json!([1, 2])),
        ("[1]", json!([1, 2])),
        ("1.0", json!(1)),
    ] {
        assert!(!is_json_of(text, &value), "{text}");
    }
}

#[test]
fn what_a_type_does_not_know_is_bounded_too() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Known {
        a: u8,
    }
    assert_eq!(parse_as(br#"{"a":1,"more":[1,2]}"#), Ok(Known { a: 1 }));
    let many = format!(r#"{{"a":1,"more":[{}0]}}"#, "0,".repeat(MAX_VALUES));
    assert_eq!(parse_as::<Known>(many.as_bytes()), Err(JsonError::Values));
    assert!(matches!(parse_as::<Known>(br#"{"a":"x"}"#), Err(JsonError::Syntax(_))));
    assert!(matches!(parse_as::<Known>(br#"{"a":1,"a":1}"#), Err(JsonError::Duplicate(_))));
}

#[test]
fn what_is_not_json_is_told_in_plain_words() {
    let long = format!("{} end", "word ".repeat(100));
    let secret = "s".repeat(100);
    for (answer, expected) in [
        ("hello", "it is not JSON; it begins with `hello`"),
        ("hello\nworld\u{1b}[2J", r"it is not JSON; it begins with `hello\nworld\u{1b}[2J`"),
        (" \n", "it is empty"),
        (&long, &format!("it is not JSON; it begins with `{}word`", "word ".repeat(11))),
        (&secret, "it is not JSON"),
        (r#"{"a":1,"a":2}"#, "duplicate key `a`; give each key once"),
        (r#"{"a":x}"#, "it is not JSON (expected value at line 1 column 6)"),
    ] {
        let error = parse(answer.as_bytes()).unwrap_err();
        assert_eq!(error.about(answer.as_bytes()), expected);
    }
}
