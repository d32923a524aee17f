use super::*;
use crate::peers::testing::TestKey;

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";

/// A line in short: what its key stands for, or why it does not count.
fn summary(line: &[u8]) -> String {
    match read_line(line) {
        Ok(None) => "nothing".to_owned(),
        Ok(Some((_, terms))) => {
            let capabilities: Vec<&str> =
                terms.capabilities.iter().map(Capability::as_str).collect();
            format!(
                "{} {} [{}] [{}] {}",
                terms.purpose,
                terms.name,
                terms.tools,
                capabilities.join(" "),
                terms.comment
            )
        }
        Err(fault) => fault.to_string(),
    }
}

#[track_caller]
fn check(line: &str, expected: &str) {
    let line = line.replace("KEY", KEY);
    let summary = summary(line.as_bytes());
    assert!(
        if expected.ends_with('…') {
            summary.starts_with(expected.trim_end_matches('…'))
        } else {
            summary == expected
        },
        "{line:?}: {summary}"
    );
}

#[test]
fn good_lines() {
    let rows = [
        ("", "nothing"),
        ("   \t ", "nothing"),
        ("\r", "nothing"),
        ("# KEY", "nothing"),
        ("  # pack=\"x\" KEY", "nothing"),
        ("pack=\"files\",tools=\"*\" KEY", "pack files [*] [] "),
        (
            "pack=\"files\",tools=\"read_* write_*\" KEY me@here",
            "pack files [read_* write_*] [] me@here",
        ),
        (
            "tools=\"*\",pack=\"files\" KEY a comment, with = and \" in it",
            "pack files [*] [] a comment, with = and \" in it",
        ),
        ("pack=\"files\",tools=\"*\",capabilities=\"b a b\" KEY", "pack files [*] [a b] "),
        ("agent=\"research-bot\" KEY", "agent research-bot [] [] "),
        ("agent=\"r.b\",capabilities=\"filesystem web\" KEY", "agent r.b [] [filesystem web] "),
        ("agent=\"bot\",capabilities=\"\" KEY", "agent bot [] [] "),
        ("AGENT=\"bot\",Capabilities=\"*\" KEY", "agent bot [] [*] "),
        ("  agent=\"bot\" \t KEY  x  \r", "agent bot [] [] x"),
        ("agent=\"bot\"\tKEY", "agent bot [] [] "),
    ];
    for (line, expected) in rows {
        check(line, expected);
    }
}

#[test]
fn lines_that_do_not_count() {
    let rows = [
        ("KEY", "it must say exactly one of…"),
        ("capabilities=\"x\" KEY", "it must say exactly one of…"),
        ("pack=\"a\",agent=\"b\",tools=\"*\" KEY", "it must say exactly one of…"),
        ("pack=\"a\",agent=\"b\" KEY", "it must say exactly one of…"),
        ("pack=\"files\" KEY", "a pack needs `tools=…"),
        ("pack=\"files\",tools=\"\" KEY", "a pack needs `tools=…"),
        ("pack=\"files\",tools=\"  \" KEY", "a pack needs `tools=…"),
        ("agent=\"bot\",tools=\"*\" KEY", "`tools` is for packs…"),
        ("pack=\"\",tools=\"*\" KEY", "`` is not a valid source id…"),
        ("pack=\"a b\",tools=\"*\" KEY", "`a b` is not a valid source id…"),
        ("pack=\"a.b\",tools=\"*\" KEY", "`a.b` is not a valid source id…"),
        ("pack=\"../x\",tools=\"*\" KEY", "`../x` is not a valid source id…"),
        ("agent=\"a b\" KEY", "`a b` is not a valid agent name…"),
        ("agent=\"local\" KEY", "`local` is kept for other callers…"),
        ("pack=\"a\",tools=\"x,y\" KEY", "`x,y` is not a pattern of tool names…"),
        ("pack=\"a\",tools=\"x\\\"y\" KEY", "`x\\\"y` is not a pattern of tool names…"),
        ("agent=\"a\",capabilities=\"x,y\" KEY", "`x,y` is not a capability…"),
        ("agent=\"a\",capabilities=\"x\\\"y\" KEY", "`x\\\"y` is not a capability…"),
        ("agent=\"a\",agent=\"a\" KEY", "option `agent` stands there twice"),
        ("agent=\"a\",AGENT=\"b\" KEY", "option `agent` stands there twice"),
        ("restrict,agent=\"a\" KEY", "option `restrict` is not known…"),
        ("agent=\"a\",no-pty KEY", "option `no-pty` is not known…"),
        ("agent=\"a\",from=\"10.0.0.1\" KEY", "option `from` is not known…"),
        ("agent=\"a\",expiry-time=\"20200101\" KEY", "option `expiry-time` is not known…"),
        ("command=\"/bin/sh\" KEY", "option `command` is not known…"),
        ("agent=\"a\",,capabilities=\"x\" KEY", "option `` is not known…"),
        ("agent=\"a\", KEY", "option `` is not known…"),
        ("agent KEY", "option `agent` needs a value in double quotes"),
        ("agent=a KEY", "option `agent` needs a value in double quotes"),
        ("agent='a' KEY", "option `agent` needs a value in double quotes"),
        ("agent=\"a KEY", "option `agent` needs a value in double quotes"),
        ("agent=\"a\\\" KEY", "option `agent` needs a value in double quotes"),
        ("agent=\"a\"b KEY", "there is something after the value of option `agent`…"),
        ("agent=\"a\"\"b\" KEY", "there is something after the value of option `agent`…"),
        ("agent=\"a\"", "it is not a public key…"),
        ("agent=\"a\" ssh-ed25519", "it is not a public key…"),
        ("agent=\"a\" ssh-ed25519 AAAA", "it is not a public key…"),
        ("agent=\"a\" ssh-ed25519 !!!!", "it is not a public key…"),
        (
            "agent=\"a\" ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti",
            "it is not a public key…",
        ),
        ("agent=\"a\" KEYAAAA", "it is not a public key…"),
        ("agent=\"a\" agent=\"b\" KEY", "it is not a public key…"),
        ("hello world", "option `hello` is not known…"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "option `-----begin` is not known…"),
        ("agent=\"a\u{0}\" KEY", "it is not plain text"),
        ("agent=\"a\" KEY \u{1b}[2J", "it is not plain text"),
        ("agent=\"a\" KEY x\ry", "it is not plain text"),
    ];
    for (line, expected) in rows {
        check(line, expected);
    }
    assert_eq!(summary(b"agent=\"\xff\" x"), "it is not plain text");
    assert_eq!(summary(&vec![b'a'; MAX_LINE + 1]), "it is longer than 16384 bytes");
    assert_ne!(summary(&vec![b'a'; MAX_LINE]), "it is longer than 16384 bytes");
}

#[test]
fn only_keys_that_can_be_trusted_count() {
    let certificate = TestKey::ed25519().certificate();
    let rows = [
        (TestKey::of(&["-t", "ecdsa", "-b", "256"]).public, "agent a [] [] someone@example"),
        (TestKey::of(&["-t", "ecdsa", "-b", "384"]).public, "agent a [] [] someone@example"),
        (TestKey::of(&["-t", "rsa", "-b", "2048"]).public, "agent a [] [] someone@example"),
        (TestKey::of(&["-t", "rsa", "-b", "1024"]).public, "it is an RSA key of 1024 bits…"),
        (TestKey::of(&["-t", "rsa", "-b", "2040"]).public, "it is an RSA key of 2040 bits…"),
        (
            TestKey::of(&["-t", "ecdsa", "-b", "521"]).public,
            "keys of the type `ecdsa-sha2-nistp521` are not taken…",
        ),
        (TestKey::of(&["-t", "dsa"]).public, "keys of the type `ssh-dss` are not taken…"),
        (certificate, "it is a certificate…"),
    ];
    for (key, expected) in rows {
        check(&format!("agent=\"a\" {key}"), expected);
    }
}
