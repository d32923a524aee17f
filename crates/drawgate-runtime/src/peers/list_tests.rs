use super::*;
use crate::peers::testing::string;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The n-th of many keys. That nobody holds them does not matter here.
fn key(n: u32) -> String {
    let mut point = [7; 32];
    point[..4].copy_from_slice(&n.to_be_bytes());
    let blob = [string(b"ssh-ed25519"), string(&point)].concat();
    format!("ssh-ed25519 {}", STANDARD.encode(blob))
}

fn fingerprint(n: u32) -> String {
    crate::peers::key::fingerprint(crate::peers::read_key(&key(n)).unwrap().key_data())
}

#[test]
fn a_bad_line_does_not_spoil_the_others() {
    let text = format!(
        "\u{feff}# our packs\r\nagent=\"a\" {}\r\n\r\nnonsense\r\npack=\"p\",tools=\"*\" {} x\r\n\u{0}\r\nagent=\"oauth-x\" {}",
        key(1),
        key(2),
        key(3)
    );
    let list = KeyList::read(text.as_bytes(), Some("oauth-"));
    let good: Vec<usize> = list.entries().iter().map(|entry| entry.line).collect();
    let bad: Vec<usize> = list.faults().iter().map(|(line, _)| *line).collect();
    assert_eq!((good, bad), (vec![2, 5], vec![4, 6, 7]));
    assert!(list.problem().is_none());
    let terms = &list.entries()[1].terms;
    assert_eq!((terms.name.as_str(), terms.comment.as_str()), ("p", "x"));
    assert!(KeyList::read(text.as_bytes(), None).faults().len() == 2, "no name is reserved");
}

#[test]
fn several_keys_for_a_name_and_several_names_for_a_key() {
    let (one, two) = (key(1), key(2));
    let text = format!(
        "agent=\"a\" {one}\nagent=\"a\" {two}\nagent=\"b\" {one}\npack=\"a\",tools=\"*\" {one}\n\
         agent=\"a\",capabilities=\"*\" {one}\n"
    );
    let list = KeyList::read(text.as_bytes(), None);
    assert_eq!(list.entries().len(), 4);
    assert_eq!(list.faults(), [(5, LineFault::Again(1))]);
    let find = |n, purpose, name| list.find(&fingerprint(n), purpose, name).map(|entry| entry.line);
    assert_eq!(find(1, Purpose::Agent, "a"), Ok(1));
    assert_eq!(find(2, Purpose::Agent, "a"), Ok(2));
    assert_eq!(find(1, Purpose::Agent, "b"), Ok(3));
    assert_eq!(find(1, Purpose::Pack, "a"), Ok(4));
    assert_eq!(find(2, Purpose::Pack, "a"), Err(Refusal::WrongName));
    assert_eq!(find(2, Purpose::Agent, "b"), Err(Refusal::WrongName));
    assert_eq!(find(3, Purpose::Agent, "a"), Err(Refusal::UnknownKey));
    // The first line counts, with what it says.
    assert!(list.entries()[0].terms.capabilities.is_empty());
}

#[test]
fn terms_are_the_same_whatever_the_comment() {
    let read = |options: &str| {
        let list = KeyList::read(format!("{options} {} c", key(1)).as_bytes(), None);
        KeyTerms::clone(&list.entries()[0].terms)
    };
    let list = KeyList::read(
        format!("pack=\"p\",tools=\"a b\",capabilities=\"x\" {} other", key(1)).as_bytes(),
        None,
    );
    assert!(list.has(&read("capabilities=\"x\",pack=\"p\",tools=\"a  b\"")));
    for changed in [
        "pack=\"p\",tools=\"a b\"",
        "pack=\"p\",tools=\"a\",capabilities=\"x\"",
        "pack=\"q\",tools=\"a b\",capabilities=\"x\"",
        "agent=\"p\",capabilities=\"x\"",
    ] {
        assert!(!list.has(&read(changed)), "{changed}");
    }
}

#[test]
fn a_list_of_ten_thousand() {
    let lines: Vec<String> =
        (0..10_000).map(|n| format!("agent=\"agent-{n}\" {} nr {n}\n", key(n))).collect();
    let text = lines.concat();
    let list = KeyList::read(text.as_bytes(), None);
    assert_eq!((list.entries().len(), list.faults().len()), (10_000, 0));
    assert!(list.find(&fingerprint(9_999), Purpose::Agent, "agent-9999").is_ok());
    let selection =
        Selection { fingerprint: None, name: Some((Purpose::Agent, "agent-5000".to_owned())) };
    let (kept, gone) = without(text.as_bytes(), &selection);
    assert_eq!(gone.len(), 1);
    assert_eq!(KeyList::read(&kept, None).entries().len(), 9_999);
}

#[test]
fn removal_keeps_every_other_byte() {
    let (one, two) = (key(1), key(2));
    let text = format!(
        "# keys\r\n\r\nagent=\"a\" {one}\r\nnonsense \u{0}\n  # {one}\nagent=\"b\" {one}\nagent=\"a\",capabilities=\"x\" {one}\npack=\"a\",tools=\"*\" {two}"
    );
    let both = |fingerprint, name: Option<(Purpose, &str)>| Selection {
        fingerprint,
        name: name.map(|(purpose, name)| (purpose, name.to_owned())),
    };
    // Also the second line of the same key, which did not count: it would count now.
    let (kept, gone) =
        without(text.as_bytes(), &both(Some(fingerprint(1)), Some((Purpose::Agent, "a"))));
    assert_eq!(gone.len(), 2);
    let expected = format!(
        "# keys\r\n\r\nnonsense \u{0}\n  # {one}\nagent=\"b\" {one}\npack=\"a\",tools=\"*\" {two}"
    );
    assert_eq!(String::from_utf8(kept).unwrap(), expected);
    let (_, gone) = without(text.as_bytes(), &both(None, Some((Purpose::Pack, "a"))));
    assert_eq!(gone.len(), 1);
    let (kept, gone) = without(text.as_bytes(), &both(Some("SHA256:none".to_owned()), None));
    assert!(gone.is_empty() && kept == text.as_bytes());
}
