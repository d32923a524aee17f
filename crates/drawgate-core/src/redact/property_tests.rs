//! Whatever comes in: no panic, the same result twice, and time that grows with the length.

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::catalogue_tests::{assert_gone, secret};
use super::{MASK, Redactor};

/// Pieces that make the readers meet each other.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec![
            "token", "password", "api_key", "Authorization", "cookie", "auth", "tokens", "key", "name",
            "value", "DB_PASSWORD", "--token", "-p", "-u", "curl", "mysql", "Bearer", "Basic", "code",
            "state", "https://", "u:p@h", "%3D", "%20", "%25", "eyJ", "AKIA", "-----BEGIN RSA PRIVATE KEY-----",
            "-----END ", "login", "IDENTIFIED BY", MASK, "dTpodW50ZXI=", "is", "env:X", "null", "\u{e4}",
            "hunter-nG5ZFJoC6vWCBi", "68756e7465722d6e47355a464a6f43",
        ]).prop_map(String::from),
        5 => prop::sample::select(vec![
            "=", ":", " ", "\n", "\"", "'", "\\", "\\\"", "{", "}", "[", "]", ",", ";", "&", "?", "#", "<",
            ">", "|", "(", ")", "`", "*", "-", "\0", "@", "/", "  ", ": ", " = ", "=>", "\r\n", "%",
        ]).prop_map(String::from),
        2 => "[a-zA-Z0-9+/_=-]{1,40}",
        1 => any::<String>(),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(piece(), 0..24).prop_map(|pieces| pieces.concat())
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((piece(), inner), 0..5)
                .prop_map(|pairs| Value::Object(Map::from_iter(pairs))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text_is_redacted_once_and_for_all(text in text()) {
        let redactor = Redactor::new(["hunter-nG5ZFJoC6vWCBi"]);
        let once = redactor.redact_text(&text).into_owned();
        prop_assert_eq!(redactor.redact_text(&once), once.as_str());
        prop_assert!(!once.contains("hunter-nG5ZFJoC6vWCBi"));
    }

    #[test]
    fn values_are_redacted_once_and_for_all(value in value()) {
        let redactor = Redactor::new(["hunter-nG5ZFJoC6vWCBi"]);
        let once = redactor.redact(&value, &[]).into_owned();
        prop_assert_eq!(redactor.redact(&once, &[]).into_owned(), once);
    }

    #[test]
    fn a_value_under_a_telling_name_is_gone(name in "[a-z]{0,6}_?(token|secret|password|apiKey)", text in "[a-zA-Z0-9!-]{12,40}") {
        let secret = format!("x9{text}");
        let line = format!("a {name}={secret} b");
        let out = Redactor::new([]).redact_text(&line).into_owned();
        prop_assert!(!out.contains(&secret), "{}", out);
    }
}

const CASES: u32 = 256;

const LARGE: usize = 2 * 1024 * 1024;

/// Each of these made some reader quadratic, or could. A quadratic one does not end in a day.
#[test]
fn large_inputs_end() {
    for unit in [
        "a",
        "AKIA",
        "eyJ",
        "eyJ.",
        "-----BEGIN ",
        "-----BEGIN RSA PRIVATE KEY-----",
        "token=[",
        "token=[\n",
        "token='\n",
        "cookie: a=b; ",
        "ghp_\na1B2c3D4\n",
        "\\n",
        "auth:{",
        "tokens:[1",
        "?k=",
        "&state=a",
        "u:p@",
        "@",
        "://a:",
        "\"",
        "\\\"",
        "%41",
        "%",
        "password ",
        "-p ",
        "Bearer ",
        "login a password ",
        "name=token value=",
        "token:\n",
        "a: b\n",
        "{\"a\":",
        "=",
        ":",
        "\0",
        "token: x(",
        "cookie: ",
        "<password>",
        "-----BEGIN RSA PRIVATE KEY-----END ",
        ",token:",
        "code=",
    ] {
        let text = unit.repeat(LARGE / 16 / unit.len());
        let out = Redactor::new(["hunter-nG5ZFJoC6vWCBi"]).redact_text(&text).into_owned();
        assert!(out.len() <= text.len() * MASK.len(), "{unit}");
    }
    for unit in ["a", "AKIA", "eyJ"] {
        let text = unit.repeat(LARGE / unit.len());
        let out = Redactor::new([]).redact_text(&text).into_owned();
        assert!(out == text || out == MASK, "{unit}");
    }
}

#[test]
fn depth_is_bounded_and_the_deep_part_hidden() {
    let secret = secret("plain");
    for depth in [10, 60, 64, 70, 120] {
        let mut value = serde_json::json!({ "password": secret, "x": secret });
        for _ in 0..depth {
            value = serde_json::json!({ "a": value });
        }
        let out = Redactor::new([secret.as_str()]).redact(&value, &[]).to_string();
        assert_gone(&secret, &out, "deep");
        assert_eq!(out.contains("password"), depth <= 64, "{depth}");
    }
}

#[test]
fn strings_in_strings_are_opened_four_times_and_then_hidden() {
    let secret = secret("plain");
    let mut text = format!(r#"{{"password":"{secret}"}}"#);
    for level in 1..8 {
        let out = Redactor::new([]).redact_text(&text).into_owned();
        assert_gone(&secret, &out, "nested");
        assert_eq!(out.contains("password"), level <= 4, "{level}: {out}");
        text = serde_json::json!({ "body": text }).to_string();
    }
}
