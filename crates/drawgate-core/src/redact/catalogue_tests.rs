//! The catalogue of leaks: each row is a payload with a secret in it. After redaction the secret
//! must not be found in any of nine encodings, and the rows to keep must stay as they are.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde_json::Value;

use super::{MASK, Redactor};

/// Values are put together here, so that no scanner takes them for real ones.
pub(super) fn secret(kind: &str) -> String {
    let run = |len: usize| {
        "nG5ZFJoC6vWCBiX2kQ9mLpR4sTz7uY1h".chars().cycle().take(len).collect::<String>()
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
            let (begin, end) = ("-----BEGIN ", "-----END ");
            let key = "RSA PRIVATE KEY-----";
            format!("{begin}{key}\n{}\n{}\n{end}{key}", run(64), run(40))
        }
        "google" => format!("AI{}{}", "za", run(35)),
        "npm" => format!("npm{}{}", "_", run(36)),
        "dg" => format!("dg{}{}", "_", run(40)),
        other => panic!("no such kind of secret: {other}"),
    }
}

/// The secret as a leak may show it.
fn encodings(secret: &str) -> Vec<String> {
    let inner = |alignment: usize| {
        let text = STANDARD.encode(format!("{}{secret}", "x".repeat(alignment)));
        let (first, last) = ((alignment * 8).div_ceil(6), (alignment + secret.len()) * 8 / 6);
        text[first..last].to_owned()
    };
    let escaped = Value::from(secret).to_string();
    vec![
        secret.to_owned(),
        hex::encode(secret),
        hex::encode_upper(secret),
        inner(0),
        inner(1),
        inner(2),
        secret.bytes().map(|b| format!("%{b:02X}")).collect::<Vec<_>>().concat(),
        secret.chars().rev().collect(),
        escaped[1..escaped.len() - 1].to_owned(),
    ]
}

#[track_caller]
pub(super) fn assert_gone(secret: &str, output: &str, row: &str) {
    let plain = output.replace(r"\\", r"\").replace("\\\"", "\"");
    for hit in encodings(secret) {
        assert!(!output.contains(&hit) && !plain.contains(&hit), "{row}: {output}");
    }
    // No part of it either: a prefix or suffix of eight characters is a leak.
    if secret.starts_with("hunter-") {
        let tail = &secret[secret.len() - 8..];
        assert!(!output.contains(tail), "{row}: {output}");
    }
}

/// Fills `@kind` and its encoded forms into a payload.
fn filled(payload: &str, kind: &str, secret: &str) -> Value {
    fn walk(value: &mut Value, fill: &dyn Fn(&str) -> String) {
        match value {
            Value::String(text) => *text = fill(text),
            Value::Array(items) => items.iter_mut().for_each(|item| walk(item, fill)),
            Value::Object(map) => map.values_mut().for_each(|item| walk(item, fill)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let fill = |text: &str| {
        text.replace("@hex@", &hex::encode(secret))
            .replace("@b64@", &STANDARD.encode(format!("ab{secret}")))
            .replace("@basic@", &STANDARD.encode(format!("u:{secret}")))
            .replace("@b64json@", &STANDARD.encode(format!(r#"{{"apiKey":"{secret}"}}"#)))
            .replace("@rev@", &secret.chars().rev().collect::<String>())
            .replace(&format!("@{kind}@"), secret)
    };
    let mut value: Value = serde_json::from_str(payload).unwrap();
    walk(&mut value, &fill);
    value
}

#[track_caller]
fn check(name: &str, payload: &str, kind: &str, known: bool) {
    let secret = secret(kind);
    let value = filled(payload, kind, &secret);
    let redactor = Redactor::new(known.then_some(secret.as_str()));
    let output = redactor.redact(&value, &[]).to_string();
    assert!(output.contains(MASK), "{name}: {output}");
    assert_gone(&secret, &output, name);
    let line = redactor.redact_text(&value.to_string()).into_owned();
    assert_gone(&secret, &line, name);
    for text in strings(&value) {
        assert!(!known || !redactor.mask_known(text).contains(&secret), "{name}");
    }
}

fn strings(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(strings).collect(),
        Value::Object(map) => map.values().flat_map(strings).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

const BY_NAME_AND_PLACE: &[(&str, &str)] = &[
    ("top_level_key", r#"{"token": "@plain@"}"#),
    ("key_case", r#"{"PASSWORD": "@plain@", "Api_Key": "x"}"#),
    ("key_snake", r#"{"api_key": "@plain@"}"#),
    ("key_camel", r#"{"clientSecret": "@plain@"}"#),
    ("key_prefix", r#"{"githubToken": "@plain@"}"#),
    ("key_authorization", r#"{"Authorization": "Bearer @plain@"}"#),
    ("key_unusual", r#"{"connectionString": "Server=x;Uid=u;Pwd=@plain@;"}"#),
    ("key_cookie", r#"{"cookie": "sid=@plain@"}"#),
    ("key_refresh", r#"{"refresh_token": "@plain@"}"#),
    ("pair_name_value", r#"{"env": [{"name": "DB_PASSWORD", "value": "@plain@"}]}"#),
    ("argv_flag", r#"{"argv": ["curl", "--token", "@plain@", "https://x"]}"#),
    ("argv_user", r#"{"cmd": "curl -u admin:@plain@ https://x"}"#),
    ("json_in_json_in_string", r#"{"body": "{\"inner\": \"{\\\"apiKey\\\": \\\"@plain@\\\"}\"}"}"#),
    ("yaml_in_string", r#"{"body": "db:\n  password: @plain@\n"}"#),
    ("env_file", r#"{"text": "A=1\nGITHUB_TOKEN=@plain@\n"}"#),
    ("form_body", r#"{"body": "grant_type=x&client_secret=@plain@&a=b"}"#),
    ("url_query", r#"{"url": "https://h/p?access_token=@plain@&x=1"}"#),
    ("url_userinfo", r#"{"url": "https://user:@plain@@h/p"}"#),
    ("url_fragment", r#"{"url": "https://h/#id_token=@plain@"}"#),
    ("url_encoded", r#"{"next": "https%3A%2F%2Fh%2F%3Ftoken%3D@plain@"}"#),
    ("basic_b64", r#"{"h": "Basic @basic@"}"#),
    ("b64_json", r#"{"blob": "@b64json@"}"#),
];

const MORE_OF_THE_SAME: &[(&str, &str)] = &[
    ("deep_key", r#"{"a": [{"b": {"c": [{"Secret": "@plain@"}]}}]}"#),
    ("object_under_key", r#"{"credentials": {"user": "u", "x": "@plain@"}}"#),
    ("array_under_key", r#"{"tokens": ["@plain@"]}"#),
    ("dotted_key", r#"{"spring.datasource.password": "@plain@"}"#),
    ("header_key", r#"{"headers": {"X-Api-Key": "@plain@", "Set-Cookie": "a=@plain@"}}"#),
    ("header_pair", r#"{"headers": [{"key": "X-Auth-Token", "value": "@plain@"}]}"#),
    ("pair_reversed", r#"{"env": [{"value": "@plain@", "name": "API_KEY"}]}"#),
    ("pair_array", r#"{"headers": [["Authorization", "@plain@"]]}"#),
    ("raw_headers", r#"{"headers": ["Host", "h", "X-Api-Key", "@plain@"]}"#),
    ("header_line", r#"{"raw": "GET / HTTP/1.1\r\nAuthorization: Token @plain@\r\nHost: h"}"#),
    ("cookie_line", r#"{"raw": "Cookie: a=1; sid=@plain@; b=2\nHost: h"}"#),
    ("bearer_in_text", r#"{"text": "sent Bearer @plain@ upstream"}"#),
    ("argv_equals", r#"{"argv": ["tool", "--api-key=@plain@"]}"#),
    ("argv_password", r#"{"argv": ["tool", "--password", "@plain@"]}"#),
    ("argv_short", r#"{"argv": ["sshpass", "-p", "@plain@", "ssh", "h"]}"#),
    ("argv_short_unknown", r#"{"argv": ["tool", "-p", "@plain@"]}"#),
    ("argv_attached", r#"{"argv": ["mysql", "-uroot", "-p@plain@", "db"]}"#),
    ("argv_user_array", r#"{"argv": ["curl", "-u", "admin:@plain@", "https://x"]}"#),
    ("argv_user_attached", r#"{"argv": ["curl", "-uadmin:@plain@", "https://x"]}"#),
    ("argv_env", r#"{"argv": ["env", "PGPASSWORD=@plain@", "psql"]}"#),
    ("argv_header", r#"{"argv": ["curl", "-H", "Authorization: Bearer @plain@", "https://x"]}"#),
    ("line_header", r#"{"cmd": "curl -H 'X-Api-Key: @plain@' https://x"}"#),
    ("line_header_double", r#"{"cmd": "curl -H \"Authorization: Bearer @plain@\" https://x"}"#),
    ("line_password", r#"{"cmd": "tool --verbose --password @plain@ run"}"#),
    ("line_quoted", r#"{"cmd": "tool --password '@plain@ and more' run"}"#),
    ("line_env", r#"{"cmd": "PGPASSWORD=@plain@ psql -h db"}"#),
    ("line_export", r#"{"cmd": "export AWS_SECRET_ACCESS_KEY=\"@plain@\" && make"}"#),
    ("line_docker", r#"{"cmd": "docker login -u u -p @plain@ registry"}"#),
    ("line_redis", r#"{"cmd": "redis-cli -a @plain@ ping"}"#),
    ("line_shell", r#"{"argv": ["sh", "-c", "curl -u a:@plain@ https://x"]}"#),
    ("json_broken", r#"{"body": "{\"a\": 1, \"password\": \"@plain@"}"#),
    ("json_in_prose", r#"{"body": "got {\"apiKey\": \"@plain@\"} from x"}"#),
    ("json_escaped_in_prose", r#"{"body": "got {\\\"apiKey\\\": \\\"@plain@\\\", \\\"a\\\": 1}"}"#),
    ("json_list_broken", r#"{"body": "{\"tokens\": [\"a\", \"@plain@\""}"#),
    ("json_twice", r#"{"body": "{\"password\": \"@plain@\", \"password\": \"b\"}"}"#),
    ("json_unicode", r#"{"body": "{\"p\\u0061ssword\": \"@plain@\"}"}"#),
    ("json_lines", r#"{"body": "{\"a\": 1}\n{\"token\": \"@plain@\"}\n"}"#),
    ("json_pair", r#"{"body": "[{\"name\": \"DB_PASSWORD\", \"value\": \"@plain@\"}]"}"#),
    ("yaml_block", r#"{"body": "private_key: |\n  line one\n  @plain@\nother: 1\n"}"#),
    ("yaml_nested", r#"{"body": "credentials:\n  - a: @plain@\nother: 1\n"}"#),
    ("yaml_flow", r#"{"body": "db: {user: u, password: my @plain@, host: h}"}"#),
    ("yaml_words", r#"{"body": "password: correct horse @plain@\n"}"#),
    ("yaml_quoted", r#"{"body": "api_key: '@plain@'\n"}"#),
    ("yaml_pair", r#"{"body": "env:\n- name: DB_PASSWORD\n  value: @plain@\n"}"#),
    ("ini", r#"{"body": "[db]\npassword = two words @plain@\n"}"#),
    ("toml", r#"{"body": "[db]\napi_key = \"@plain@\"\n"}"#),
    ("properties", r#"{"body": "spring.datasource.password=@plain@"}"#),
    ("xml", r#"{"body": "<db><password>@plain@</password></db>"}"#),
    ("xml_attribute", r#"{"body": "<add key=\"ApiKey\" value=\"@plain@\"/>"}"#),
    ("netrc", r#"{"body": "machine h login u password @plain@"}"#),
    ("sql", r#"{"body": "ALTER USER u IDENTIFIED BY '@plain@'"}"#),
    ("php", r#"{"body": "['password' => '@plain@']"}"#),
    ("python", r#"{"body": "os.environ[\"API_TOKEN\"] = \"@plain@\""}"#),
    ("code", r#"{"body": "let client_secret = \"@plain@\";"}"#),
    ("markdown", r#"{"body": "**Password:** @plain@"}"#),
    ("two_words", r#"{"body": "API Key: @plain@"}"#),
    ("two_words_inside", r#"{"body": "with api key: @plain@ it works"}"#),
    ("spoken", r#"{"body": "the password is @plain@ for now"}"#),
    ("form_more", r#"{"body": "username=u&password=@plain@"}"#),
    ("form_escaped_name", r#"{"body": "a=b&client%5Fsecret=@plain@"}"#),
    ("url_key", r#"{"url": "https://h/p?key=@plain@"}"#),
    ("url_signature", r#"{"url": "https://h/p?a=1&sig=@plain@"}"#),
    ("url_code", r#"{"url": "https://h/cb?code=@plain@&state=xyz"}"#),
    ("url_twice", r#"{"next": "https%253A%252F%252Fh%252F%253Ftoken%253D@plain@"}"#),
    ("url_encoded_userinfo", r#"{"next": "https%3A%2F%2Fu%3A@plain@%40h%2F"}"#),
    ("url_in_text", r#"{"text": "cloning https://x-access-token:@plain@@h/r.git failed"}"#),
    ("url_user_only", r#"{"text": "cloning https://@plain@@h/r.git failed"}"#),
    ("url_database", r#"{"url": "postgres://u:@plain@@db:5432/x?sslmode=off"}"#),
    ("url_slash", r#"{"url": "postgres://u:a/@plain@@db:5432/x"}"#),
    ("url_driver", r#"{"url": "u:@plain@@tcp(db:3306)/x"}"#),
    ("url_path_in_json", r#"{"body": "{\"url\": \"https://h/?token=@plain@\"}"}"#),
    ("basic_lower", r#"{"text": "authorization was basic @basic@"}"#),
    ("b64_in_text", r#"{"text": "payload=@b64json@ end"}"#),
    ("data_url", r#"{"text": "data:application/json;base64,@b64json@"}"#),
    (
        "wide",
        "{\"text\": \"p\\u0000a\\u0000s\\u0000s\\u0000w\\u0000o\\u0000r\\u0000d\\u0000=\\u0000@plain@\"}",
    ),
];

const BY_SHAPE: &[(&str, &str)] = &[
    ("shape_ghp", "ghp"),
    ("shape_slack", "slack"),
    ("shape_ant", "ant"),
    ("shape_jwt", "jwt"),
    ("shape_pem", "pem"),
    ("shape_google", "google"),
    ("shape_npm", "npm"),
    ("shape_own", "dg"),
];

const KNOWN: &[(&str, &str)] = &[
    ("known_bare", r#"{"text": "value @plain@ here"}"#),
    ("known_hex", r#"{"text": "@hex@"}"#),
    ("known_b64", r#"{"text": "@b64@"}"#),
    ("known_reversed", r#"{"text": "@rev@"}"#),
    ("known_json_escaped", r#"{"body": "\"\\\"p @plain@\\\"\""}"#),
    ("known_in_stderr", r#"{"stderr": "fatal: could not read from https://x:@plain@@github.com"}"#),
    (
        "known_in_panic",
        r#"{"msg": "called `Result::unwrap()` on Err(InvalidUri(\"https://h?k=@plain@\"))"}"#,
    ),
    ("known_in_upstream_error", r#"{"error": "401 for key @plain@"}"#),
    ("known_in_benign", r#"{"secret_name": "@plain@", "max_tokens": "@plain@"}"#),
];

const KEEP: &[&str] = &[
    r#"{"max_tokens": 4096}"#,
    r#"{"token_count": 17}"#,
    r#"{"secret_name": "db-prod"}"#,
    r#"{"author": "Ann"}"#,
    r#"{"key_id": "k1"}"#,
    r#"{"id": "0f8fad5b-d9cb-469f-a165-70867728950e"}"#,
    r#"{"hash": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}"#,
    r#"{"sha": "94fbad5acee4e4716bff263a4c455dfd780e53a7"}"#,
    r#"{"usage": {"prompt_tokens": 5, "completion_tokens": 7, "tokens": {"in": 1, "out": 2}}}"#,
    r#"{"maxTokens": "4096", "tokens": [1, 2, 3], "password": null, "has_password": true}"#,
    r#"{"tokenizer": "bpe", "secretary": "Bob", "passwordless": "yes", "keyboard": "qwertz"}"#,
    r#"{"token_type": "bearer", "password_policy": "strict", "public_key": "abc", "keys": ["a", "b"]}"#,
    r#"{"argv": ["mkdir", "-p", "src/Some2Dir"], "run": ["docker", "run", "-u", "1000:1000", "-p", "8080:80"]}"#,
    r#"{"argv": ["cargo", "test", "-p", "drawgate-core"], "fields": ["password", "token"]}"#,
    r#"{"env": [{"name": "LOG_LEVEL", "value": "debug"}], "order": {"key": "name", "value": "asc"}}"#,
    r#"{"body": "{\"a\": 1, \"max_tokens\": 5, \"key\": \"v\"}"}"#,
    r#"{"url": "https://example.com/pages?state=open&page=2#top", "ssh": "ssh://git@example.com/r.git"}"#,
];

#[test]
fn by_name_and_place() {
    for (name, payload) in BY_NAME_AND_PLACE.iter().chain(MORE_OF_THE_SAME) {
        check(name, payload, "plain", false);
    }
}

#[test]
fn by_shape_in_values_and_names() {
    for (name, kind) in BY_SHAPE {
        check(name, &format!(r#"{{"text": "see @{kind}@ ok"}}"#), kind, false);
        check(name, &format!(r#"{{"list": ["x@{kind}@"]}}"#), kind, false);
        let secret = secret(kind);
        let value = serde_json::json!({ secret.clone(): 1 });
        if *kind != "pem" {
            assert_gone(&secret, &Redactor::new([]).redact(&value, &[]).to_string(), name);
        }
    }
}

#[test]
fn by_known_value() {
    for (name, payload) in KNOWN {
        check(name, payload, "plain", true);
    }
}

#[test]
fn rows_to_keep_stay_as_they_are() {
    let secret = secret("plain");
    for row in KEEP {
        let value: Value = serde_json::from_str(row).unwrap();
        for redactor in [Redactor::new([]), Redactor::new([secret.as_str()])] {
            assert_eq!(redactor.redact(&value, &[]).to_string(), value.to_string());
            assert_eq!(redactor.redact_text(row), *row);
        }
    }
}
