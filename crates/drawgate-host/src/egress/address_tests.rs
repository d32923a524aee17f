use super::*;

#[test]
fn hosts_come_out_in_one_spelling() {
    for (text, expected) in [
        ("https://Example.COM/a?b#c", "https://example.com/a?b"),
        ("HTTPS://example.com.:443/", "https://example.com/"),
        ("http://еxample.com/", "http://xn--xample-2of.com/"),
        ("http://bücher.example/a b", "http://xn--bcher-kva.example/a%20b"),
        ("http://0x7f.1:8080", "http://127.0.0.1:8080/"),
        ("http://[::FFFF:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
        ("https://example.com?q=\\", "https://example.com/?q=\\"),
    ] {
        let url = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(url.as_str(), expected, "{text}");
        let uri = to_uri(&url).unwrap();
        assert_eq!(uri.host(), url.host_str(), "both readers see the same host: {text}");
    }
}

#[test]
fn errors_say_what_is_wrong_without_the_address() {
    for text in
        ["https://user:hunter2@example.com/", "gopher://hunter2/", "https://exa mple/hunter2"]
    {
        let error = parse(text).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
    let scheme = parse(&format!("{}://x", "a".repeat(500))).unwrap_err().to_string();
    assert!(scheme.len() < 120, "{scheme}");
    assert!(matches!(parse(&format!("http://a.example/{}", "x".repeat(9000))), Err(Malformed(_))));
}

#[test]
fn relative_addresses_are_joined_and_checked_again() {
    let base = parse("https://a.example/x/y?q").unwrap();
    for (text, expected) in [
        ("z", "https://a.example/x/z"),
        ("/z?r=http://127.0.0.1/", "https://a.example/z?r=http://127.0.0.1/"),
        ("../z", "https://a.example/z"),
        ("?z", "https://a.example/x/y?z"),
        ("//b.example/z", "https://b.example/z"),
        ("http://b.example", "http://b.example/"),
        ("", "https://a.example/x/y?q"),
    ] {
        assert_eq!(join(&base, text).unwrap().as_str(), expected, "{text}");
    }
    for text in [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "//me@b.example/",
        "///b.example/",
        "/\\b.example/",
        "\\\\b.example/",
        "https:b.example",
        "http:/b.example",
        "/a\tb",
        "/a\r\nb",
        " /a",
        "http://b.example:0/",
    ] {
        assert!(join(&base, text).is_err(), "{text:?}");
    }
}

#[test]
fn numbers_in_disguise_are_no_names() {
    for text in ["127.1", "0x7f000001", "0x7f.1", "1", "a.1", "a.0x", "", "a..b", "-a", "a b", "A"]
    {
        assert!(!is_name(text), "{text}");
    }
    for text in ["a", "a.b", "x1", "1.a", "xn--p1ai", "_dmarc.example", "0xg", "a-b.c"] {
        assert!(is_name(text), "{text}");
    }
}
