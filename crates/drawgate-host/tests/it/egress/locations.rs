//! Where a redirect leads whose `Location` holds bytes that do not belong there.

use drawgate_host::egress::{Egress, EgressError};

use super::excerpt;
use super::town::Town;

/// The bytes after `location: `, and what becomes of them: codes of errors, or `followed`.
pub(super) const LOCATIONS: &[(&str, &[u8], &[&str])] = &[
    ("row", b"http://other.tg.test/\r\n\0x", &["protocol"]),
    ("bare_cr", b"http://other.tg.test/\rx-evil: 1", &["protocol"]),
    ("bare_cr_at_the_end", b"http://other.tg.test/\r", &["protocol"]),
    ("nul", b"http://other.tg.test/\0", &["protocol"]),
    ("nul_in_the_host", b"http://other.tg.test\0.evil/", &["protocol"]),
    ("lf_and_text", b"http://other.tg.test/\nevil", &["protocol"]),
    ("crlf_and_text", b"http://other.tg.test/\r\nevil", &["protocol"]),
    ("fold_space", b"http://other.tg.test/\r\n /evil", &["protocol"]),
    ("fold_tab", b"http://other.tg.test/\r\n\t/evil", &["protocol"]),
    ("fold_lf", b"http://other.tg.test/\n /evil", &["protocol"]),
    ("tab", b"http://other.tg.test/\tx", &["url"]),
    ("escape", b"http://other.tg.test/\x1b[2J", &["protocol", "url"]),
    ("delete", b"http://other.tg.test/\x7f", &["protocol", "url"]),
    ("next_line", b"http://other.tg.test/\xc2\x85", &["url"]),
    ("no_text", b"http://other.tg.test/\xff", &["url"]),
    ("encoded_in_the_host", b"http://other.tg.test%0d%0a/", &["url"]),
    ("encoded_nul_in_the_host", b"http://other.tg.test%00.evil/", &["url"]),
    ("backslash", b"http://other.tg.test\\@127.0.0.1/", &["url"]),
    ("userinfo", b"http://evil@other.tg.test/", &["userinfo"]),
    ("two", b"http://other.tg.test/\r\nlocation: http://third.tg.test/", &["url"]),
    ("the_same_twice", b"http://other.tg.test/\r\nlocation: http://other.tg.test/", &["url"]),
    // A line of its own is a header of the answer, and none of the next request.
    ("crlf_and_header", b"http://other.tg.test/\r\nx-evil: 1", &["followed"]),
    ("lf_and_header", b"http://other.tg.test/\nx-evil: 1", &["followed"]),
    ("encoded_in_the_path", b"http://other.tg.test/%0d%0ax-evil:%201", &["followed"]),
];

#[tokio::test]
async fn no_location_says_more_than_where() {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    for (name, _, expected) in LOCATIONS {
        let before = town.heads().len();
        let outcome = excerpt(&egress, &format!("http://hostile.tg.test/location?{name}")).await;
        let became = outcome.as_ref().map_or_else(EgressError::code, |_| "followed");
        assert!(expected.contains(&became), "{name}: {became} ({:?})", outcome.err());
        let heads = town.heads();
        let asked = usize::from(became == "followed");
        assert_eq!(heads.len() - before, 1 + asked, "{name}: {heads:?}");
        for line in heads.iter().flat_map(|head| head.lines()) {
            assert!(!line.starts_with("x-evil") && !line.starts_with("evil"), "{name}: {line}");
        }
    }
    let last = town.heads().pop().unwrap();
    assert!(last.starts_with("GET /%0d%0ax-evil:%201 HTTP/1.1\r\n"), "{last}");
    assert_eq!(town.breaches(), 0);
}
