//! Where a redirect leads whose `Location` holds bytes that do not belong there.

use drawgate_host::egress::{Egress, EgressError};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::excerpt;
use super::secure::trusting;
use super::town::Town;

/// The bytes after `location: `, and what becomes of them: the code of an error, or `followed`.
pub(super) const LOCATIONS: &[(&str, &[u8], &str)] = &[
    ("row", b"http://other.tg.test/\r\n\0x", "protocol"),
    ("bare_cr", b"http://other.tg.test/\rx-evil: 1", "protocol"),
    ("bare_cr_at_the_end", b"http://other.tg.test/\r", "protocol"),
    ("nul", b"http://other.tg.test/\0", "protocol"),
    ("nul_alone", b"\0", "protocol"),
    ("nul_in_the_host", b"http://other.tg.test\0.evil/", "protocol"),
    ("bell", b"http://other.tg.test/\x07", "protocol"),
    ("vertical_tab", b"http://other.tg.test/\x0b", "protocol"),
    ("lf_and_text", b"http://other.tg.test/\nevil", "protocol"),
    ("crlf_and_text", b"http://other.tg.test/\r\nevil", "protocol"),
    ("fold_space", b"http://other.tg.test/\r\n /evil", "protocol"),
    ("fold_tab", b"http://other.tg.test/\r\n\t/evil", "protocol"),
    ("fold_lf", b"http://other.tg.test/\n /evil", "protocol"),
    ("tab", b"http://other.tg.test/\tx", "url"),
    ("escape", b"http://other.tg.test/\x1b[2J", "protocol"),
    ("delete", b"http://other.tg.test/\x7f", "protocol"),
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
    ("one_and_a_bad_one", b"http://other.tg.test/\r\nlocation: \0", "protocol"),
    ("another_header", b"http://other.tg.test/\r\nx-other: \0", "protocol"),
    ("a_line_after_another", b"http://other.tg.test/\r\nx-other: 1\r\nevil", "protocol"),
    // A line of its own is a header of the answer, and none of the next request.
    ("crlf_and_header", b"http://other.tg.test/\r\nx-evil: 1", "followed"),
    ("lf_and_header", b"http://other.tg.test/\nx-evil: 1", "followed"),
    ("encoded_in_the_query", b"http://other.tg.test/?a=%0Ax-evil:%201", "followed"),
    ("encoded_text", b"http://other.tg.test/%C3%A9%25%200d?%E2%82%AC%", "followed"),
];

/// Whole heads that can't be read, for faults in or around a `Location`.
const HEADS: &[(&str, &[u8])] = &[
    ("moved", b"HTTP/1.1 301 There\r\nLOCATION:\0"),
    ("kept", b"HTTP/1.1 308 There\r\nx: y\r\nLocation:\t/a\x01"),
    ("old", b"HTTP/1.0 302 There\r\nlocation: /\0"),
    ("blank_lines_first", b"\r\n\r\nHTTP/1.1 302 There\r\nlocation: /\0"),
    (
        "a_word_before",
        b"HTTP/1.1 103 Soon\r\nlink: </a>\r\n\r\nHTTP/1.1 302 There\r\nlocation: /\0",
    ),
    ("spaced", b"HTTP/1.1 302 There\r\nlocation : /a"),
    ("no_redirect", b"HTTP/1.1 200 OK\r\nlocation: /\0"),
    ("not_modified", b"HTTP/1.1 304 Not Modified\r\nlocation: /\0"),
    ("made", b"HTTP/1.1 201 Made\r\nlocation: /\0"),
    ("gone", b"HTTP/1.1 404 No\r\nlocation: /\0"),
    ("fault_before", b"HTTP/1.1 302 There\r\nx: \0\r\nlocation: /\0"),
    ("fault_in_the_name", b"HTTP/1.1 302 There\r\nloca\0tion: /"),
    ("likeness", b"HTTP/1.1 302 There\r\nx-location: /\0"),
    ("status", b"HTTP/1.1 302\0There\r\nlocation: /"),
    ("body", b"HTTP/1.1 302 There\r\ncontent-length: x\r\n\r\nlocation: /\0"),
    ("a_word_only", b"HTTP/1.1 100 \0\r\nlocation: /\0"),
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

#[tokio::test]
async fn a_head_that_can_not_be_read_leads_nowhere() {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    for (name, _) in HEADS {
        for pieces in ["", "&slowly"] {
            let url = format!("http://hostile.tg.test/head?{name}{pieces}");
            check(&egress, &town, &url, "protocol").await;
        }
    }
}

/// What a connection has carried before does not matter, nor that it is a safe one.
#[tokio::test]
async fn every_answer_of_a_connection_is_checked() {
    let town = Town::start().await;
    let egress = trusting(&town);
    for scheme in ["http", "https"] {
        for (path, expected) in [
            ("redir?to=/plain", "followed"),
            ("location?row", "protocol"),
            ("location?tab", "url"),
            ("head?fault_before", "protocol"),
            ("redir?to=/gzip", "followed"),
            ("location?nul", "protocol"),
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
    let url = "http://hostile.tg.test/redir?to=http://other.tg.test/location?tab";
    let error = excerpt(&egress, url).await.unwrap_err();
    assert_eq!(error.code(), "url");
    assert!(error.to_string().starts_with("a redirect failed: not an address: "), "{error}");
    assert!(!error.nothing_was_sent());
}
