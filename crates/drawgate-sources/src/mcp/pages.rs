//! Pages that a server wants a person to open: which may be, and the error by which a server says that
//! one must be opened before the call is made again.

use std::net::IpAddr;

use drawgate_core::model::{Client, SourceId};
use drawgate_core::registry::visible_text;
use drawgate_core::source::SourceError;
use http::Uri;
use serde_json::{Value, json};

use super::requests::Allowed;
use super::wire;

/// The code of the error whose data name pages.
const PAGES_REQUIRED: i64 = -32042;

/// The longest address.
const MAX_LENGTH: usize = 4 * 1024;

/// Why an address is not passed on.
pub(super) const UNFIT: &str = "this client opens pages by `https` only, or by `http` on its own \
                                machine, without a user's name and in at most 4096 characters";

/// Whether a person may be asked to open it: it must be what it looks like, and private on its way.
pub(super) fn is_fit(address: &str) -> bool {
    if address.len() > MAX_LENGTH || !address.bytes().all(is_plain) {
        return false;
    }
    let Ok(uri) = address.parse::<Uri>() else { return false };
    let Some(authority) = uri.authority() else { return false };
    let host = authority.host();
    // A user name before `@` can make an address look like that of another site.
    if host.is_empty() || authority.as_str().contains('@') {
        return false;
    }
    match uri.scheme_str() {
        Some("https") => true,
        Some("http") => is_loopback(host),
        Some(_) | None => false,
    }
}

/// Lets an error that sends a person to pages pass only as such a question would.
pub(super) fn screen(
    mut error: SourceError,
    allowed: Allowed,
    client: &Client,
    source: &SourceId,
) -> SourceError {
    if wire::error_code(&error) != Some(PAGES_REQUIRED) {
        return error;
    }
    let SourceError::Failed { details: Some(details), .. } = &mut error else { return error };
    let pages = details.pointer_mut("/data/elicitations").and_then(Value::as_array_mut);
    for page in pages.into_iter().flatten() {
        let asked = json!({ "mode": "url", "url": page.get("url") });
        if let Some((_, why)) = allowed.refusal(client, "elicitation/create", Some(&asked)) {
            let message = format!("the server wants a person to open a page, but {why}");
            return SourceError::Failed { message, details: None };
        }
        if let Some(Value::String(message)) = page.get_mut("message") {
            *message = format!("[{source}] {}", visible_text(message));
        }
    }
    error
}

/// Browsers read a backslash as a slash; what is not ASCII can look like something else.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'"' | b'<' | b'>' | b'`')
}

fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::super::requests::ClientRequest;
    use super::*;

    #[test]
    fn errors_send_people_to_pages_only_as_questions_would() {
        let error = |code: i64, url: &str| {
            let page = json!({ "url": url, "message": "log\u{200b}in", "elicitationId": "1" });
            let details = json!({ "code": code, "data": { "elicitations": [page] } });
            SourceError::Failed { message: "open it".to_owned(), details: Some(details) }
        };
        let usual: Allowed = ClientRequest::USUAL.into_iter().collect();
        let pages: Allowed = [ClientRequest::ElicitationUrl].into_iter().collect();
        let Value::Object(capabilities) = json!({ "elicitation": { "form": {}, "url": {} } })
        else {
            unreachable!()
        };
        let able = Client { capabilities, ..Client::default() };
        let unable = Client::default();
        let source = SourceId::new("up").unwrap();
        let left = |error, allowed, client| match screen(error, allowed, client, &source) {
            SourceError::Failed { details, .. } => details,
            other => panic!("{other:?}"),
        };
        let good = "https://example.org";
        for (error, allowed, client) in [
            (error(PAGES_REQUIRED, good), usual, &able),
            (error(PAGES_REQUIRED, good), pages, &unable),
            (error(PAGES_REQUIRED, "http://example.org"), pages, &able),
        ] {
            assert_eq!(left(error, allowed, client), None);
        }
        let passed = left(error(PAGES_REQUIRED, good), pages, &able).unwrap();
        assert_eq!(passed["code"], PAGES_REQUIRED);
        assert_eq!(passed["data"]["elicitations"][0]["message"], "[up] log\\u{200b}in");
        let other = left(error(-32000, "x"), usual, &able).unwrap();
        assert_eq!(other["data"]["elicitations"][0]["url"], "x");
    }

    #[test]
    fn pages_are_private_and_what_they_look_like() {
        for good in [
            "https://example.org",
            "https://example.org:8443/a/b?c=d&e=%20#f",
            "HTTPS://example.org/",
            "http://localhost:3000/x",
            "http://127.0.0.1/x",
            "http://[::1]:80/",
        ] {
            assert!(is_fit(good), "{good}");
        }
        let long = format!("https://example.org/{}", "a".repeat(MAX_LENGTH));
        for bad in [
            "",
            "example.org",
            "/look",
            "//example.org/",
            "http://example.org/",
            "http://localhost.example.org/",
            "http://127.0.0.1.example.org/",
            "https://",
            "https:///x",
            "https://bank.example@evil.example/",
            "https://user:pass@example.org/",
            "https://example.org\\@evil.example/",
            "https://example.org/\u{202e}gro.elpmaxe",
            "https://ex\u{430}mple.org/",
            "https://example.org/a b",
            "https://example.org/\r\nx: y",
            " https://example.org/",
            "javascript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "ftp://example.org/",
            long.as_str(),
        ] {
            assert!(!is_fit(bad), "{bad}");
        }
    }
}
