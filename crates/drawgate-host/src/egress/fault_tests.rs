use super::*;

/// Whether the fault is in the `Location`, in a head of these lines.
fn check(lines: &[u8], expected: bool) {
    for start in [&b"HTTP/1.1 302 Found\r\n"[..], b"HTTP/1.0 308 Found\n", b"HTTP/1.1 301\n"] {
        let head = [start, lines].concat();
        assert_eq!(is_in_location(&head), expected, "{:?}", head.escape_ascii().to_string());
    }
    for start in [&b"HTTP/1.1 200 OK\r\n"[..], b"HTTP/1.1 304 Same\r\n", b"HTTP/1.1 100 Go\r\n"] {
        assert!(!is_in_location(&[start, lines].concat()));
    }
}

#[test]
fn the_line_itself() {
    for byte in (0..=0x1f).chain([0x7f]).filter(|byte| !b"\t\n".contains(byte)) {
        check(&[b"x: y\r\nlocation: /", &[byte][..], b"z\r\n\r\n"].concat(), true);
        check(&[b"Location:", &[byte][..], b"z"].concat(), true);
        check(&[b"x: ", &[byte][..], b"z\r\nlocation: /\r\n"].concat(), false);
        check(&[b"location: /\r\nx: ", &[byte][..], b"z\r\n"].concat(), false);
    }
    check(b"location: /\r\r\n", true);
    check(b"LOCATION : /\r\n", true);
    check(b"location", true);
}

#[test]
fn what_a_line_end_cut_off() {
    check(b"location: /\r\n\0x", true);
    check(b"location: /\nevil\r\n", true);
    check(b"location: /\r\n /evil\r\n\r\n", true);
    check(b"location: /\r\nx: y\r\n z\r\n\r\n", false);
    check(b"location: /\r\n: y\r\n", true);
}

#[test]
fn no_fault_that_is_to_be_seen() {
    for lines in
        [&b""[..], b"\r\n", b"location: /a b\tc\xff\r\nx: y\r\n\r\nlocation: \0", b"x-location: \0"]
    {
        check(lines, false);
    }
    for head in [
        &b""[..],
        b"\n",
        b"HTTP/1.1",
        b"HTTP/1.1 3",
        b"HTTP/1.1 302",
        b"HTTP/1.1 30\xff\r\nlocation: \0",
    ] {
        assert!(!is_in_location(head), "{head:?}");
    }
}
