use serde_json::json;

use super::catalogue_tests::secret;
use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(Redactor::new([]).redact_text(text), expected);
}

#[test]
fn text_around_a_secret_stays() {
    check("user=u password=hunter2 host=h", "user=u password=[REDACTED] host=h");
    check("login(user=u, token=abc123)", "login(user=u, token=[REDACTED])");
    check("Server=x;Uid=u;Pwd=a1;Database=d", "Server=x;Uid=u;Pwd=[REDACTED];Database=d");
    check(
        "https://u:pw@h/p?a=1&token=x&b=2#f",
        "https://u:[REDACTED]@h/p?a=1&token=[REDACTED]&b=2#f",
    );
    check("curl -u a:b -v https://h", "curl -u a:[REDACTED] -v https://h");
    check(
        "curl -H 'Authorization: Bearer x' https://h",
        "curl -H 'Authorization: [REDACTED]' https://h",
    );
    check("Cookie: a=b; c=d\r\nHost: h", "Cookie: [REDACTED]\r\nHost: h");
    check("db:\n  password: a b\n  host: h\n", "db:\n  password: [REDACTED]\n  host: h\n");
    check(
        "key: |\n  a\nprivate_key: |\n  b\n  c\nx: 1",
        "key: |\n  a\nprivate_key: |\n  [REDACTED]\nx: 1",
    );
    check(r#"{"a": 1, "token": "x"}"#, r#"{"a":1,"token":"[REDACTED]"}"#);
    check(r#"got {"a": 1, "token": "x"}"#, r#"got {"a": 1, "token": "[REDACTED]"}"#);
    check("A=1\nGITHUB_TOKEN=x y\nB=2", "A=1\nGITHUB_TOKEN=[REDACTED] y\nB=2");
    check("<password>a</password><b>c</b>", "<password>[REDACTED]</password><b>c</b>");
    check("tool --token abc --name n", "tool --token [REDACTED] --name n");
    check("mysql -uroot -pabc db", "mysql -uroot -p[REDACTED] db");
}

#[test]
fn ordinary_text_stays() {
    for text in [
        "",
        "hello",
        "The tokenizer splits a sentence into tokens; the secretary is passwordless at her keyboard.",
        "Please enter your password below and press the key marked Enter.",
        "unexpected token: identifier",
        "Unexpected token < in JSON at position 0",
        "error: expected token `}` at line 3:14",
        "401 Unauthorized: the token is expired",
        "basic authentication is required",
        "the bearer of this letter",
        "fn login(user: &str, password: &str, token: Option<&str>) -> Result<(), Error>",
        "interface Login { password: string; token: string }",
        "let token = lexer.next_token();",
        "if token == expected { return Err(Error::Token) }",
        "use crate::token::Kind; Secret::new(value)",
        "password: ${DB_PASSWORD}",
        "token = env:GITHUB_TOKEN",
        "max_tokens=4096 token_count: 17 secret_name=db-prod key_id=k1",
        "id 0f8fad5b-d9cb-469f-a165-70867728950e",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "commit 94fbad5acee4e4716bff263a4c455dfd780e53a7 by ann@example.com",
        "/usr/local/share/applications/org.example.Keyboard.desktop",
        "https://example.com:8443/a/b?page=2&state=open&sort=name#section-3",
        "see https://example.com/@scope/package and git@example.com:org/repo.git",
        "mkdir -p target/debug && cargo test -p drawgate-core",
        "ssh -p 22 host; docker run -p 8080:80 -u 1000:1000 image",
        "100% of 50% is %d and %s",
        "aGVsbG8gd29ybGQsIHRoaXMgaXMgYSBsb25nIHRleHQ=",
        "std::collections::BTreeMap<String, serde_json::Value>",
        "the --token flag or the --password option",
        "a_very_long_identifier_in_snake_case_with_many_words",
        "2026-01-02T03:04:05.678Z INFO gateway: started port=8080 tools=12",
        "{\"a\": [1, 2, 3], \"key\": \"value\"}",
        "[REDACTED]",
    ] {
        check(text, text);
    }
}

#[test]
fn what_needs_no_change_is_borrowed() {
    let redactor = Redactor::new(["hunter-nG5ZFJoC6vWCBi"]);
    let value = json!({ "message": "hello", "n": [1, true, null], "max_tokens": 5 });
    assert!(matches!(redactor.redact(&value, &[]), Cow::Borrowed(_)));
    assert!(matches!(redactor.redact_map(value.as_object().unwrap(), &[]), Cow::Borrowed(_)));
    assert!(matches!(redactor.redact_text("hello"), Cow::Borrowed(_)));
    assert!(matches!(redactor.mask_known("the token=abc"), Cow::Borrowed(_)));
}

#[test]
fn the_whole_value_under_a_key_goes_whatever_its_type() {
    let value =
        json!({ "token": 12345, "secret": [1], "password": { "a": 1 }, "apiKey": "", "jwt": null });
    let expected =
        json!({ "token": MASK, "secret": MASK, "password": MASK, "apiKey": MASK, "jwt": null });
    assert_eq!(*Redactor::new([]).redact(&value, &[]), expected);
}

#[test]
fn extra_keys_add_at_every_depth_and_in_text() {
    let extra = ["card-number".to_owned()];
    let value = json!({ "a": { "cardNumber": "4111" }, "b": "{\"card_number\": \"4111\"}", "c": "card_number=4111" });
    let out = Redactor::new([]).redact(&value, &extra).into_owned();
    assert_eq!(
        out,
        json!({ "a": { "cardNumber": MASK }, "b": "{\"card_number\":\"[REDACTED]\"}", "c": "card_number=[REDACTED]" })
    );
    assert_eq!(*Redactor::new([]).redact(&value, &[]), value);
}

#[test]
fn known_values_are_masked_in_place_in_strings_names_and_numbers() {
    let redactor = Redactor::new([secret("plain").as_str(), "12345678"]);
    let mut value =
        json!({ secret("plain"): [secret("plain"), "other", 12_345_678], "token": "kept" });
    assert!(redactor.mask_known_in(&mut value));
    assert_eq!(value, json!({ MASK: [MASK, "other", MASK], "token": "kept" }));
    assert!(!redactor.mask_known_in(&mut value));
}

#[test]
fn without_known_values_nothing_is_masked_in_place() {
    let redactor = Redactor::new(["abc"]);
    assert!(!redactor.knows_any());
    let mut value = json!({ "token": "abc" });
    assert!(!redactor.mask_known_in(&mut value));
    assert!(Redactor::new(["long enough"]).knows_any());
}

#[test]
fn a_name_given_twice_hides_both_values() {
    check(r#"{"password": "hunter2", "password": null}"#, r#"{"password":null}"#);
}

#[test]
fn the_order_of_fields_stays() {
    let value = json!({ "z": 1, "token": "x", "a": 2 });
    let out = Redactor::new([]).redact(&value, &[]).to_string();
    assert_eq!(out, r#"{"z":1,"token":"[REDACTED]","a":2}"#);
}

#[test]
fn debug_shows_no_secret() {
    let shown = format!("{:?}", Redactor::new(["hunter-nG5ZFJoC6vWCBi"]));
    assert!(!shown.contains("hunter"), "{shown}");
}
