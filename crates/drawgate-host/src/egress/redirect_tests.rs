use http::HeaderValue;

use super::*;

fn step(method: Method, url: &str, body: &'static str) -> Step {
    let headers = ["accept", "authorization", "cookie", "x-api-key", "content-type", "user-agent"];
    let value = HeaderValue::from_static("hunter2");
    let headers = headers.map(|name| (HeaderName::from_static(name), value.clone()));
    Step {
        method,
        url: address::parse(url).unwrap(),
        headers: headers.into_iter().collect(),
        body: Bytes::from_static(body.as_bytes()),
    }
}

fn follow(from: Step, status: u16, to: &str) -> Result<Step, Detour> {
    from.follow(StatusCode::from_u16(status).unwrap(), address::parse(to).unwrap())
}

#[test]
fn credentials_stay_with_their_origin() {
    for to in [
        "https://b.example/",
        "https://a.example:444/",
        "https://x.a.example/",
        "https://a.example.b.example/",
    ] {
        let next = follow(step(Method::GET, "https://a.example/", ""), 302, to).unwrap();
        let names: Vec<&str> = next.headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["accept", "user-agent"], "{to}");
    }
    let next = follow(step(Method::GET, "https://a.example/", ""), 302, "https://A.example:443/x");
    assert_eq!(next.unwrap().headers.len(), 6);
    let upgraded = follow(step(Method::GET, "http://a.example/", ""), 301, "https://a.example/");
    assert!(!upgraded.unwrap().headers.contains_key("authorization"));
}

#[test]
fn bodies_stay_with_their_origin() {
    for (method, status, to, expected) in [
        (Method::POST, 307, "https://b.example/", Err(Detour::Body)),
        (Method::POST, 308, "https://b.example/", Err(Detour::Body)),
        (Method::PUT, 302, "https://b.example/", Err(Detour::Body)),
        (Method::DELETE, 307, "https://b.example/", Err(Detour::Body)),
        (Method::POST, 307, "https://a.example/x", Ok((Method::POST, "body"))),
        (Method::PUT, 302, "https://a.example/x", Ok((Method::PUT, "body"))),
        (Method::POST, 302, "https://b.example/", Ok((Method::GET, ""))),
        (Method::POST, 303, "https://a.example/x", Ok((Method::GET, ""))),
        (Method::PUT, 303, "https://b.example/x", Ok((Method::GET, ""))),
    ] {
        let outcome = follow(step(method.clone(), "https://a.example/", "body"), status, to);
        let outcome = outcome.map(|step| {
            assert_eq!(step.headers.contains_key("content-type"), !step.body.is_empty());
            (step.method, std::str::from_utf8(&step.body).unwrap().to_owned())
        });
        let expected = expected.map(|(method, body)| (method, body.to_owned()));
        assert_eq!(outcome, expected, "{method} {status} {to}");
    }
}

#[test]
fn there_is_no_way_down() {
    let from = || step(Method::GET, "https://a.example/", "");
    assert!(matches!(follow(from(), 302, "http://a.example/"), Err(Detour::Downgrade)));
    assert!(matches!(follow(from(), 302, "http://b.example/"), Err(Detour::Downgrade)));
}

#[test]
fn only_redirects_lead_somewhere() {
    let from = address::parse("https://a.example/x").unwrap();
    let to = |status: u16, place: &'static [u8]| {
        let place = HeaderValue::from_bytes(place).unwrap();
        let headers = HeaderMap::from_iter([(header::LOCATION, place)]);
        location(&from, StatusCode::from_u16(status).unwrap(), &headers)
    };
    for status in [200, 201, 204, 300, 304, 305, 306, 400] {
        assert!(to(status, b"/y").is_none(), "{status}");
    }
    for status in [301, 302, 303, 307, 308] {
        assert_eq!(to(status, b"/y").unwrap().unwrap().as_str(), "https://a.example/y");
    }
    for (place, code) in [
        (b"http://a\tb/".as_slice(), "url"),
        (b"\xff\xfe", "url"),
        (b"file:///etc/passwd", "scheme"),
        (b"https://me:pw@a.example/", "userinfo"),
    ] {
        assert_eq!(to(302, place).unwrap().unwrap_err().code(), code);
    }
    assert!(location(&from, StatusCode::FOUND, &HeaderMap::new()).is_none());
}
