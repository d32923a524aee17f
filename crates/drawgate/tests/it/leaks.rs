//! Payloads with a secret in them, and the forms in which a leak may show it.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde_json::Value;

/// A payload, and the kind of secret in it.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    payload: &'static str,
    kind: &'static str,
    /// Whether the gateway knows the value, since its configuration refers to it.
    pub(crate) known: bool,
    /// Whether it is found in free text too, and so must not be in an error's words.
    pub(crate) found_in_text: bool,
}

const fn plain(name: &'static str, payload: &'static str) -> Row {
    Row { name, payload, kind: "plain", known: false, found_in_text: false }
}

const fn known(name: &'static str, payload: &'static str) -> Row {
    Row { name, payload, kind: "plain", known: true, found_in_text: true }
}

const fn shape(name: &'static str, kind: &'static str) -> Row {
    Row { name, payload: r#"{"text": "see @secret@ ok"}"#, kind, known: false, found_in_text: true }
}

/// `@secret@` is filled with the secret, and the other marks with its encodings.
pub(crate) const ROWS: &[Row] = &[
    plain("top_level_key", r#"{"token": "@secret@"}"#),
    plain("nested_key", r#"{"a": [{"b": {"c": [{"Secret": "@secret@"}]}}]}"#),
    plain("key_case", r#"{"PASSWORD": "@secret@", "Api_Key": "x"}"#),
    plain("key_kebab", r#"{"api-key": "@secret@"}"#),
    plain("key_snake", r#"{"api_key": "@secret@"}"#),
    plain("key_camel", r#"{"clientSecret": "@secret@"}"#),
    plain("key_prefix", r#"{"githubToken": "@secret@"}"#),
    plain("key_authorization", r#"{"Authorization": "Bearer @secret@"}"#),
    plain("key_unusual", r#"{"connectionString": "Server=x;Uid=u;Pwd=@secret@;"}"#),
    plain("key_cookie", r#"{"cookie": "sid=@secret@"}"#),
    plain("key_refresh", r#"{"refresh_token": "@secret@"}"#),
    plain("pair_name_value", r#"{"env": [{"name": "DB_PASSWORD", "value": "@secret@"}]}"#),
    plain("argv_flag", r#"{"argv": ["curl", "--token", "@secret@", "https://x"]}"#),
    plain("argv_user", r#"{"cmd": "curl -u admin:@secret@ https://x"}"#),
    plain(
        "json_in_json_in_string",
        r#"{"body": "{\"inner\": \"{\\\"apiKey\\\": \\\"@secret@\\\"}\"}"}"#,
    ),
    plain("yaml_in_string", r#"{"body": "db:\n  password: @secret@\n"}"#),
    plain("env_file", r#"{"text": "A=1\nGITHUB_TOKEN=@secret@\n"}"#),
    plain("form_body", r#"{"body": "grant_type=x&client_secret=@secret@&a=b"}"#),
    plain("url_query", r#"{"url": "https://h/p?access_token=@secret@&x=1"}"#),
    plain("url_userinfo", r#"{"url": "https://user:@secret@@h/p"}"#),
    plain("url_fragment", r#"{"url": "https://h/#id_token=@secret@"}"#),
    plain("url_encoded", r#"{"next": "https%3A%2F%2Fh%2F%3Ftoken%3D@secret@"}"#),
    plain("basic_b64", r#"{"h": "Basic @basic@"}"#),
    plain("b64_json", r#"{"blob": "@b64json@"}"#),
    shape("shape_ghp", "ghp"),
    shape("shape_slack", "slack"),
    shape("shape_ant", "ant"),
    shape("shape_jwt", "jwt"),
    shape("shape_pem", "pem"),
    shape("shape_google", "google"),
    shape("shape_npm", "npm"),
    known("known_bare", r#"{"text": "value @secret@ here"}"#),
    known("known_hex", r#"{"text": "@hex@"}"#),
    known("known_b64", r#"{"text": "@b64@"}"#),
    known("known_reversed", r#"{"text": "@reversed@"}"#),
    known("known_json_escaped", r#"{"body": "\"\\\"p @secret@\\\"\""}"#),
    known(
        "known_in_stderr",
        r#"{"stderr": "fatal: could not read from https://x:@secret@@github.com"}"#,
    ),
    known(
        "known_in_panic",
        r#"{"msg": "called `Result::unwrap()` on Err(InvalidUri(\"https://h?k=@secret@\"))"}"#,
    ),
    known("known_in_upstream_error", r#"{"error": "401 for key @secret@"}"#),
];

/// What must stay as it is: an audit log without content is useless too.
pub(crate) const KEEP: &[&str] = &[
    r#"{"max_tokens": 4096}"#,
    r#"{"token_count": 17}"#,
    r#"{"secret_name": "db-prod"}"#,
    r#"{"author": "Ann"}"#,
    r#"{"key_id": "k1"}"#,
    r#"{"id": "0f8fad5b-d9cb-469f-a165-70867728950e"}"#,
    r#"{"hash": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}"#,
    r#"{"sha": "94fbad5acee4e4716bff263a4c455dfd780e53a7"}"#,
];

/// A secret of a kind, another one for each number. Values are put together here, so that no
/// scanner takes them for real ones.
pub(crate) fn secret(kind: &str, number: usize) -> String {
    let run = |len: usize| {
        "nG5ZFJoC6vWCBiX2kQ9mLpR4sTz7uY1h"
            .chars()
            .cycle()
            .skip(number % 32)
            .take(len)
            .collect::<String>()
    };
    match kind {
        "plain" => format!("hunter-{}", run(14)),
        "ghp" => format!("ghp{}{}", "_", run(36)),
        "slack" => format!("xoxb{}{}-{}", "-", "123456789012", run(24)),
        "ant" => format!("sk-ant{}api03-{}-{}AA", "-", run(40), run(30)),
        "jwt" => {
            let part = |text: &str| URL_SAFE.encode(text).replace('=', "");
            let claims = format!(r#"{{"sub":"{}"}}"#, run(12));
            format!("{}.{}.{}", part(r#"{"alg":"HS256","typ":"JWT"}"#), part(&claims), run(43))
        }
        "pem" => {
            let (begin, end, key) = ("-----BEGIN ", "-----END ", "RSA PRIVATE KEY-----");
            format!("{begin}{key}\n{}\n{}\n{end}{key}", run(64), run(40))
        }
        "google" => format!("AI{}{}", "za", run(35)),
        "npm" => format!("npm{}{}", "_", run(36)),
        other => panic!("no such kind of secret: {other}"),
    }
}

impl Row {
    /// The secret of this row; `known_secret` for those that are about it.
    pub(crate) fn secret(&self, number: usize, known_secret: &str) -> String {
        if self.known { known_secret.to_owned() } else { secret(self.kind, number) }
    }

    /// The payload with the secret filled in.
    pub(crate) fn filled(&self, secret: &str) -> Value {
        let mut value: Value = serde_json::from_str(self.payload).unwrap();
        fill(&mut value, secret);
        value
    }
}

fn fill(value: &mut Value, secret: &str) {
    match value {
        Value::String(text) => {
            *text = text
                .replace("@hex@", &hex::encode(secret))
                .replace("@b64@", &STANDARD.encode(format!("ab{secret}")))
                .replace("@basic@", &STANDARD.encode(format!("u:{secret}")))
                .replace("@b64json@", &STANDARD.encode(format!(r#"{{"apiKey":"{secret}"}}"#)))
                .replace("@reversed@", &secret.chars().rev().collect::<String>())
                .replace("@secret@", secret);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, secret)),
        Value::Object(map) => map.values_mut().for_each(|item| fill(item, secret)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The secret as a leak may show it.
pub(crate) fn encodings(secret: &str) -> [String; 9] {
    let inner = |alignment: usize| {
        let text = STANDARD.encode(format!("{}{secret}", "x".repeat(alignment)));
        let (first, last) = ((alignment * 8).div_ceil(6), (alignment + secret.len()) * 8 / 6);
        text[first..last].to_owned()
    };
    let escaped = Value::from(secret).to_string();
    [
        secret.to_owned(),
        hex::encode(secret),
        hex::encode_upper(secret),
        inner(0),
        inner(1),
        inner(2),
        secret.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat(),
        secret.chars().rev().collect(),
        escaped[1..escaped.len() - 1].to_owned(),
    ]
}

/// Fails if the secret stands in the text in any form.
#[track_caller]
pub(crate) fn assert_gone(secret: &str, text: &str, place: &str) {
    for form in encodings(secret) {
        if let Some(at) = text.find(&form) {
            let before: String =
                text[..at].chars().rev().take(80).collect::<Vec<_>>().into_iter().rev().collect();
            panic!("{place} has `{secret}` as `{form}`, after: {before}");
        }
    }
}
