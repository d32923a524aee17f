use super::*;

fn check(host: &str, origin: Option<&str>) -> u16 {
    let guard = Guard::new(
        "127.0.0.1:7700".parse().unwrap(),
        &["gate.example".to_owned()],
        &["https://app.example".to_owned()],
    );
    let mut headers = HeaderMap::new();
    headers.insert(HOST, host.parse().unwrap());
    if let Some(origin) = origin {
        headers.insert(ORIGIN, origin.parse().unwrap());
    }
    let local = "127.0.0.1".parse().unwrap();
    guard
        .check(&"/mcp".parse().unwrap(), &headers, local)
        .map_or_else(|(status, _)| status.as_u16(), |()| 200)
}

#[test]
fn hosts() {
    for (host, status) in [
        ("127.0.0.1:7700", 200),
        ("localhost:7700", 200),
        ("LOCALHOST:7700", 200),
        ("localhost", 200),
        ("[::1]:7700", 200),
        ("gate.example", 200),
        ("gate.example:7700", 200),
        ("gate.example:1", 403),
        ("localhost:1", 403),
        ("attacker.example:7700", 403),
        ("127.0.0.1.attacker.example", 403),
        ("localhost@evil", 403),
        ("localhost:7700@evil", 403),
        ("10.1.2.3", 403),
        ("0.0.0.0", 403),
        ("0.0.0.0:7700", 403),
        ("localhost.", 403),
        ("", 403),
    ] {
        assert_eq!(check(host, None), status, "{host}");
    }
}

#[test]
fn origins() {
    for (origin, status) in [
        ("http://localhost:7700", 200),
        ("http://127.0.0.1:7700", 200),
        ("http://[::1]:7700", 200),
        ("https://app.example", 200),
        ("https://app.example.evil", 403),
        ("http://localhost", 403),
        ("http://localhost:1", 403),
        ("http://localhost@evil.example", 403),
        ("http://localhost:7700@evil.example", 403),
        ("http://localhost:7700.evil.example", 403),
        ("http://localhost:7700/evil", 403),
        ("http://attacker.example", 403),
        ("http://attacker.example:7700", 403),
        ("file://", 403),
        ("null", 403),
        ("chrome-extension://abc", 403),
        ("", 403),
    ] {
        assert_eq!(check("127.0.0.1:7700", Some(origin)), status, "{origin}");
    }
}

#[test]
fn absolute_form_and_doubled_host() {
    let guard = Guard::new("127.0.0.1:7700".parse().unwrap(), &[], &[]);
    let local = "127.0.0.1".parse().unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(HOST, "localhost:7700".parse().unwrap());
    assert!(guard.check(&"http://evil/mcp".parse().unwrap(), &headers, local).is_err());
    headers.append(HOST, "localhost:7700".parse().unwrap());
    assert!(guard.check(&"/mcp".parse().unwrap(), &headers, local).is_err());
}
