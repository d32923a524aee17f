//! Addresses that a person opens. On their way into a browser they may pass through programs that read
//! them once more (a desktop's `xdg-open` is a shell script), so nothing is left in them that means
//! something to anybody but a server.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

use super::address::{Address, AddressError, Fault};
use super::form::encoded_bytes;

/// What is escaped in a path: all but letters, digits and `-._~/:@,+=%`.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/')
    .remove(b':')
    .remove(b'@')
    .remove(b',')
    .remove(b'+')
    .remove(b'=')
    .remove(b'%');
/// What is escaped in a query.
const QUERY: &AsciiSet = &PATH.remove(b'&').remove(b'?');

impl Address {
    /// The address in the form in which it may be opened: `https`, or `http` on this machine; written
    /// as browsers write it; percent-encoded where a shell would see more than text. Servers that
    /// decode what they read see the same address; to one that parts a path or a query at a bare `;`
    /// it is another.
    pub fn for_browser(text: &str) -> Result<Self, AddressError> {
        let bad = |fault| AddressError::new(text, fault);
        let address = Self::long(text)?;
        if !address.is_secure() && !address.is_loopback() {
            return Err(bad(Fault::Scheme));
        }
        // What is percent-encoded must be whole, and hide no control character.
        for byte in encoded_bytes(text) {
            if byte.ok_or_else(|| bad(Fault::Character))?.is_ascii_control() {
                return Err(bad(Fault::Control));
            }
        }
        let url = Url::parse(text).map_err(|_| bad(Fault::Host))?;
        let mut plain = url.origin().ascii_serialization();
        plain.extend(utf8_percent_encode(url.path(), PATH));
        if let Some(query) = url.query() {
            plain.push('?');
            plain.extend(utf8_percent_encode(query, QUERY));
        }
        Self::long(&plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(text: &str) -> String {
        Address::for_browser(text).map_or_else(|bad| bad.to_string(), |it| it.as_str().to_owned())
    }

    #[test]
    fn only_a_server_reads_more_than_text_in_it() {
        for (text, expected) in [
            ("HTTPS://As.Example:443", "https://as.example/"),
            ("http://127.0.0.1:80/a?b=c&d", "http://127.0.0.1/a?b=c&d"),
            ("https://as.example/a/./b/../c", "https://as.example/a/c"),
            (
                "https://as.example/a'()*!;&|{}^[]",
                "https://as.example/a%27%28%29%2A%21%3B%26%7C%7B%7D%5E%5B%5D",
            ),
            (
                "https://as.example/?a'()*!;&|{}^[]`",
                "https://as.example/?a%27%28%29%2A%21%3B&%7C%7B%7D%5E%5B%5D%60",
            ),
            (
                "https://as.example/%24%28id%29?%60&%c3%bc",
                "https://as.example/%24%28id%29?%60&%c3%bc",
            ),
        ] {
            assert_eq!(opened(text), expected, "{text}");
            assert_eq!(opened(expected), expected, "a second time");
        }
    }

    #[test]
    fn the_rest_is_refused() {
        for (text, fault) in [
            ("http://as.example/", "must begin with `https://`"),
            ("https://as.example/%", "a character"),
            ("https://as.example/%4", "a character"),
            ("https://as.example/%zz", "a character"),
            ("https://as.example/%+1", "a character"),
            ("https://as.example/%00", "a control character"),
            ("https://as.example/a?b=%0A", "a control character"),
            ("https://as.example/%7f", "a control character"),
            ("https://as.example:99999/", "its host"),
            ("https://1.2.3.4.5/", "its host"),
        ] {
            assert!(opened(text).contains(fault), "{text}: {}", opened(text));
        }
    }
}
