//! Where a redirect leads whose `Location` holds bytes that do not belong there.

use drawgate_host::egress::{Egress, EgressError};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::excerpt;
use super::secure::trusting;
use super::town::Town;

/// The bytes after `location: `, and what becomes of them: the code of an error, or `followed`.
pub(super) const LOCATIONS: &[(&str, &[u8], &str)] = &[
    ("row", b"http://other.tg.test/\r\n\0x", "url"),
    ("bare_cr", b"http://other.tg.test/\rx-evil: 1", "url"),
    ("bare_cr_at_the_end", b"http://other.tg.test/\r", "url"),
    ("nul", b"http://other.tg.test/\0", "url"),
    ("nul_alone", b"\0", "url"),
    ("nul_in_the_host", b"http://other.tg.test\0.evil/", "url"),
    ("bell", b"http://other.tg.test/\x07", "url"),
    ("vertical_tab", b"http://other.tg.test/\x0b", "url"),
    ("lf_and_text", b"http://other.tg.test/\nevil", "url"),
    ("crlf_and_text", b"http://other.tg.test/\r\nevil", "url"),
    ("fold_space", b"http://other.tg.test/\r\n /evil", "url"),
    ("fold_tab", b"http://other.tg.test/\r\n\t/evil", "url"),
    ("fold_lf", b"http://other.tg.test/\n /evil", "url"),
    ("tab", b"http://other.tg.test/\tx", "url"),
    ("escape", b"http://other.tg.test/\x1b[2J", "url"),
    ("delete", b"http://other.tg.test/\x7f", "url"),
    ("next_line", b"http://other.tg.test/\xc2\x85", "url"),
    ("no_text", b"http://other.tg.test/\xff", "url"),
    ("nothing", b"", "url"),
    ("nothing_and_a_line", b"\r\nhttp://other.tg.test/", "url"),
    ("encoded_in_the_host", b"http://other.tg.test%0d%0a/", "url"),
    ("encoded_nul_in_the_host", b"http://other.tg.test%00.evil/", "url"),
    ("encoded_in_the_path", b"http://other.tg.test/%0d%0ax-evil:%201", "url"),
    ("encoded_nul_in_the_path", b"/a%00b", "url"),
    ("encoded_delete", b"/a%7Fb", "url"),
    ("encoded_next_line", b"/a%C2%85b", "url"),
    ("backslash", b"http://other.tg.test\\@127.0.0.1/", "url"),
    ("userinfo", b"http://evil@other.tg.test/", "userinfo"),
    ("two", b"http://other.tg.test/\r\nlocation: http://third.tg.test/", "url"),
    ("the_same_twice", b"http://other.tg.test/\r\nlocation: http://other.tg.test/", "url"),
    ("one_and_a_bad_one", b"http://other.tg.test/\r\nlocation: \0", "url"),
    // A fault elsewhere is one of the answer, and says nothing about where it leads.
    ("another_header", b"http://other.tg.test/\r\nx-other: \0", "protocol"),
    ("a_line_after_another", b"http://other.tg.test/\r\nx-other: 1\r\nevil", "protocol"),
    // A line of its own is a header of the answer, and none of the next request.
    ("crlf_and_header", b"http://other.tg.test/\r\nx-evil: 1", "followed"),
    ("lf_and_header", b"http://other.tg.test/\nx-evil: 1", "followed"),
    ("encoded_in_the_query", b"http://other.tg.test/?a=%0Ax-evil:%201", "followed"),
    ("encoded_text", b"http://other.tg.test/%C3%A9%25%200d?%E2%82%AC%", "followed"),
];

/// Whole heads, for faults around a `Location`.
const HEADS: &[(&str, &[u8], &str)] = &[
    ("moved", b"HTTP/1.1 301 There\r\nLOCATION:\0", "url"),
    ("kept", b"HTTP/1.1 308 There\r\nx: y\r\nLocation:\t/a\x01", "url"),
    ("old", b"HTTP/1.0 302 There\r\nlocation: /\0", "url"),
    ("blank_lines_first", b"\r\n\r\nHTTP/1.1 302 There\r\nlocation: /\0", "url"),
    (
        "a_word_before",
        b"HTTP/1.1 103 Soon\r\nlink: </a>\r\n\r\nHTTP/1.1 302 There\r\nlocation: /\0",
        "url",
    ),
    ("spaced", b"HTTP/1.1 302 There\r\nlocation : /a", "url"),
    ("no_redirect", b"HTTP/1.1 200 OK\r\nlocation: /\0", "protocol"),
    ("not_modified", b"HTTP/1.1 304 Not Modified\r\nlocation: /\0", "protocol"),
    ("made", b"HTTP/1.1 201 Made\r\nlocation: /\0", "protocol"),
    ("gone", b"HTTP/1.1 404 No\r\nlocation: /\0", "protocol"),
    ("fault_before", b"HTTP/1.1 302 There\r\nx: \0\r\nlocation: /\0", "protocol"),
    ("fault_in_the_name", b"HTTP/1.1 302 There\r\nloca\0tion: /", "protocol"),
    ("likeness", b"HTTP/1.1 302 There\r\nx-location: /\0", "protocol"),
    ("status", b"HTTP/1.1 302\0There\r\nlocation: /", "protocol"),
    ("body", b"HTTP/1.1 302 There\r\ncontent-length: x\r\n\r\nlocation: /\0", "protocol"),
    ("a_word_only", b"HTTP/1.1 100 \0\r\nlocation: /\0", "protocol"),
];

/// Writes a head, in one piece or byte by byte.
pub(super) async fn head(
    stream: &mut (impl AsyncWrite + Unpin),
    query: &str,
) -> std::io::Result<()> {
    let (name, pieces) = query.split_once('&').map_or((query, usize::MAX), |(name, _)| (name, 1));
    let head = HEADS.iter().find(|(known, ..)| *known == name).unwrap().1;
    let whole = [head, b"\r\ncontent-length: 0\r\n\r\n"].concat();
    for piece in whole.chunks(pieces) {
        stream.write_all(piece).await?;
        stream.flush().await?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn check(egress: &Egress, town: &Town, url: &str, expected: &str) {
    let before = town.heads().len();
    let outcome = excerpt(egress, url).await;
    let became = outcome.as_ref().map_or_else(EgressError::code, |_| "followed");
    assert_eq!(became, expected, "{url} ({:?})", outcome.err());
    let heads = town.heads();
    let asked = usize::from(became == "followed");
    assert_eq!(heads.len() - before, 1 + asked, "{url}: {heads:?}");
    for line in heads.iter().flat_map(|head| head.lines()) {
        assert!(!line.starts_with("x-evil") && !line.starts_with("evil"), "{url}: {line}");
    }
    assert_eq!(town.breaches(), 0);
}

#[tokio::test]
async fn no_location_says_more_than_where() {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    for (name, _, expected) in LOCATIONS {
        check(&egress, &town, &format!("http://hostile.tg.test/location?{name}"), expected).await;
    }
    let last = town.heads().pop().unwrap();
    assert!(last.starts_with("GET /%C3%A9%25%200d?%E2%82%AC% HTTP/1.1\r\n"), "{last}");
}

/// Only a redirect's own `Location` makes it a matter of addresses.
#[tokio::test]
async fn faults_are_told_apart_by_where_they_are() {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    for (name, _, expected) in HEADS {
        for pieces in ["", "&slowly"] {
            let url = format!("http://hostile.tg.test/head?{name}{pieces}");
            check(&egress, &town, &url, expected).await;
        }
    }
}

/// What a connection has carried before does not matter, nor that it is a safe one.
#[tokio::test]
async fn every_answer_of_a_connection_is_watched() {
    let town = Town::start().await;
    let egress = trusting(&town);
    for scheme in ["http", "https"] {
        for (path, expected) in [
            ("redir?to=/plain", "followed"),
            ("location?row", "url"),
            ("location?tab", "url"),
            ("head?fault_before", "protocol"),
            ("redir?to=/gzip", "followed"),
            ("location?nul", "url"),
        ] {
            let url = format!("{scheme}://hostile.tg.test/{path}");
            check(&egress, &town, &url, expected).await;
        }
    }
}

#[tokio::test]
async fn at_the_second_step_it_is_the_same() {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    let url = "http://hostile.tg.test/redir?to=http://other.tg.test/location?row";
    let error = excerpt(&egress, url).await.unwrap_err();
    assert_eq!(error.code(), "url");
    assert_eq!(
        error.to_string(),
        "a redirect failed: not an address: the `Location` holds bytes that no address may hold; \
         use one such as `https://example.com/page`"
    );
    assert!(!error.nothing_was_sent());
}
