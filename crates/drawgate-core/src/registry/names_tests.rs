//! Names and visible text.

use super::*;
use crate::model::SourceId;

fn id(source: &str, tool: &str) -> ToolId {
    ToolId::new(&SourceId::new(source).unwrap(), tool).unwrap()
}

#[test]
fn wire_names() {
    let long = "x".repeat(70);
    let cases = [
        ("fs", "read", "read", "fs__read"),
        ("fs", "read_file-2", "read_file-2", "fs__read_file-2"),
        ("fs", "read.file", "read_file", "fs__read_file"),
        ("fs", "a..b", "a__b", "fs__a__b"),
        ("a-b", "_x", "_x", "a-b___x"),
    ];
    for (source, tool, flat_name, qualified_name) in cases {
        let id = id(source, tool);
        assert_eq!(flat(&id).unwrap().as_str(), flat_name);
        assert_eq!(qualified(&id).unwrap().as_str(), qualified_name);
    }
    // An author's own name may be as long as the wire allows; what is derived stays shorter.
    for length in [44, 45, 64, 65, 128] {
        let id = id("s", &"x".repeat(length));
        let flat = flat(&id).unwrap();
        let qualified = qualified(&id).unwrap();
        assert_eq!(flat.as_str().len(), if length <= 64 { length } else { 48 }, "{length}");
        assert_eq!(qualified.as_str().len(), (length + 3).min(48), "{length}");
    }
    let (one, two) = (id("s", &format!("{long}1")), id("s", &format!("{long}2")));
    assert_ne!(qualified(&one).unwrap(), qualified(&two).unwrap(), "the hash tells them apart");
    let cut = qualified(&one).unwrap();
    let tail = cut.as_str().rsplit('_').next().unwrap();
    assert!(tail.len() == 8 && tail.bytes().all(|b| b.is_ascii_hexdigit()), "{cut}");
    assert_eq!(qualified(&one).unwrap(), cut, "always the same");
}

#[test]
fn skeletons_of_twins_are_the_same() {
    let twins = [
        ("Read", "read"),
        ("read-file", "read_file"),
        ("fi1e", "file"),
        ("filE", "fi1e"),
        ("g0", "gO"),
        ("iii", "lll"),
        ("READ-F1LE", "read_file"),
    ];
    for (a, b) in twins {
        assert_eq!(skeleton(a), skeleton(b), "{a} {b}");
    }
    for (a, b) in [("read", "reads"), ("read_file", "readfile"), ("a1", "a2"), ("get", "set")] {
        assert_ne!(skeleton(a), skeleton(b), "{a} {b}");
    }
}

#[test]
fn hidden_characters_become_visible() {
    let cases = [
        ("plain text\nwith\ttabs\r\n", "plain text\nwith\ttabs\r\n"),
        ("ünïcödé 漢字 🙂", "ünïcödé 漢字 🙂"),
        ("\u{1b}[31mred", "\\u{1b}[31mred"),
        ("a\u{202e}b", "a\\u{202e}b"),
        ("a\u{200b}b", "a\\u{200b}b"),
        ("a\u{feff}b", "a\\u{feff}b"),
        ("a\u{e0041}b", "a\\u{e0041}b"),
        ("a\u{0}b", "a\\u{0}b"),
        ("a\u{7f}b\u{9b}c", "a\\u{7f}b\\u{9b}c"),
        ("a\u{2028}b", "a\\u{2028}b"),
        ("a\u{3164}b", "a\\u{3164}b"),
        ("a\u{fe0f}b", "a\u{fe0f}b"),
        ("a\u{e0101}b", "a\\u{e0101}b"),
    ];
    for (text, shown) in cases {
        assert_eq!(visible_text(text), shown);
    }
}

/// Names by which a second server could be taken for the first.
#[test]
fn no_server_imitates_another() {
    use crate::model::ToolOutput;
    use crate::registry::{Naming, Origin, Registration, Registry, SourceTerms};
    use crate::testing::{FakeSource, tool};
    use Naming::{Flat, Qualified};

    let cases = [
        // The first server and its tool, the second and its.
        ("files", "read_file", Flat, "evil", "read_file", Flat),
        ("files", "read_file", Flat, "evil", "read_fi1e", Flat),
        ("files", "read_file", Flat, "evil", "read_fiIe", Flat),
        ("files", "read_file", Flat, "evil", "Read_File", Flat),
        ("files", "read_file", Flat, "evil", "READ_FILE", Flat),
        ("files", "read_file", Flat, "evil", "read-file", Flat),
        ("files", "read_file", Flat, "evil", "read.file", Flat),
        ("files", "read_file", Flat, "evil", "read_fil\u{435}", Flat),
        ("files", "read_file", Flat, "evil", "r\u{435}ad_file", Flat),
        ("files", "read_file", Flat, "evil", "read_file\u{200b}", Flat),
        ("files", "read_file", Flat, "evil", "ｒead_file", Flat),
        ("files", "read_file", Flat, "evil", "files:read_file", Flat),
        ("files", "read_file", Flat, "evil", "read_file ", Flat),
        ("g0", "log", Flat, "evil", "Iog", Flat),
        ("files", "read_file", Qualified, "evil", "files__read_file", Flat),
        ("files", "read_file", Qualified, "evil", "FILES--read.file", Flat),
        ("files", "read_file", Qualified, "fi1es", "read_file", Qualified),
        ("files", "read_file", Qualified, "Files", "read_file", Qualified),
        ("a", "b__c", Qualified, "a__b", "c", Qualified),
        ("a", "b_c", Qualified, "evil", "a__b-c", Flat),
    ];
    for (holder, held, first, source, wanted, second) in cases {
        let registry = Registry::default();
        let put = |id: &str, name: &str, naming: Naming| {
            let tools = vec![tool(name, &serde_json::Value::Null)];
            let source = FakeSource::new(id, tools, |_, _| Ok(ToolOutput::text("")));
            let terms = SourceTerms { naming, ..SourceTerms::default() };
            let origin = Origin::Discovered;
            let manifest = source.describe();
            registry.replace(Registration { manifest, terms, origin, source })
        };
        assert!(put(holder, held, first).unwrap().is_empty());
        let refused = put(source, wanted, second).map_or(true, |left_out| left_out.len() == 1);
        let snapshot = registry.snapshot();
        let ids: Vec<String> = snapshot.entries().map(|entry| entry.id.to_string()).collect();
        assert_eq!(ids, [format!("{holder}:{held}")], "{source}:{wanted:?}");
        assert!(refused, "{source}:{wanted:?}");
    }
}
