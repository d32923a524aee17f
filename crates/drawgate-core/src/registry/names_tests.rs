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
        assert_eq!(flat(&id, tool).unwrap().as_str(), flat_name);
        assert_eq!(qualified(&id, tool).unwrap().as_str(), qualified_name);
    }
    // An author's own name may be as long as the wire allows; what is derived stays shorter.
    for length in [44, 45, 64, 65, 128] {
        let name = "x".repeat(length);
        let id = id("s", &name);
        let flat = flat(&id, &name).unwrap();
        let qualified = qualified(&id, &name).unwrap();
        assert_eq!(flat.as_str().len(), if length <= 64 { length } else { 48 }, "{length}");
        assert_eq!(qualified.as_str().len(), (length + 3).min(48), "{length}");
    }
    let qualified = |name: &str| super::qualified(&id("s", name), name).unwrap();
    let (one, two) = (format!("{long}1"), format!("{long}2"));
    assert_ne!(qualified(&one), qualified(&two), "the hash tells them apart");
    let cut = qualified(&one);
    let tail = cut.as_str().rsplit('_').next().unwrap();
    assert!(tail.len() == 8 && tail.bytes().all(|b| b.is_ascii_hexdigit()), "{cut}");
    assert_eq!(qualified(&one), cut, "always the same");
}

/// Tools of a server whose names no model API takes, with those that they could be taken for.
#[test]
fn awkward_names_get_a_name_of_their_own() {
    use crate::model::ToolOutput;
    use crate::registry::{Naming, Origin, Registration, Registry, SourceTerms};
    use crate::testing::{FakeSource, caller, tool};

    let (long, longer) = ("x".repeat(129), "x".repeat(5_000));
    let names = [
        ("", "~e3b0c44298fc1c14"),
        ("a/b", "a%2Fb"),
        ("a:b", "a%3Ab"),
        ("a b", "a%20b"),
        ("a_b", "a_b"),
        ("a-b", "a-b"),
        ("a.b", "a.b"),
        ("A_B", "A_B"),
        ("a%2Fb", "a%252Fb"),
        ("-a", "%2Da"),
        ("@resources/read", "%40resources%2Fread"),
        ("s:a_b", "s%3Aa_b"),
        ("ü", "%C3%BC"),
        ("r\u{435}ad\u{200b}", "r%D0%B5ad%E2%80%8B"),
        (&long, ""),
        (&longer, ""),
    ];
    for naming in [Naming::Flat, Naming::Qualified] {
        let registry = Registry::default();
        let tools = names.iter().map(|(name, _)| tool(name, &serde_json::Value::Null)).collect();
        let source = FakeSource::new("s", tools, |_, _| Ok(ToolOutput::text("")));
        let terms = SourceTerms { naming, ..SourceTerms::default() };
        let manifest = source.describe();
        let registration = Registration { manifest, terms, origin: Origin::Discovered, source };
        assert_eq!(registry.replace(registration).unwrap(), []);
        let snapshot = registry.snapshot();
        assert_eq!(snapshot.entries().count(), names.len());
        let wires: std::collections::BTreeSet<String> =
            snapshot.entries().map(|entry| skeleton(entry.wire.as_str())).collect();
        assert_eq!(wires.len(), names.len(), "{wires:?}");
        for (name, safe) in names {
            let entry = snapshot.entries().find(|entry| entry.spec.name == name).unwrap();
            assert_eq!(entry.own_name(), name, "what the server is asked for");
            assert!(entry.id.tool().is_ascii() && entry.id.tool().len() <= 128, "{}", entry.id);
            if !safe.is_empty() {
                assert_eq!(entry.id.tool(), safe);
            }
            for written in [entry.wire.as_str(), entry.id.as_str()] {
                let crate::registry::Resolution::Found(found) =
                    snapshot.resolve(written, &caller("ann"), |_| true)
                else {
                    panic!("{written}")
                };
                assert_eq!(found.id, entry.id);
            }
        }
    }
}

/// An author can correct a name, so that one is refused.
#[test]
fn a_name_in_a_manifest_must_be_legal() {
    use crate::registry::{SourceTerms, declared_faults};
    use crate::testing::tool;

    let source = SourceId::new("s").unwrap();
    let tools = ["a/b", "a_b", "a-b", "x"].map(|name| tool(name, &serde_json::Value::Null));
    let faults = declared_faults(&source, tools.to_vec(), SourceTerms::default());
    let names: Vec<&str> = faults.iter().map(|fault| fault.tool.as_str()).collect();
    assert_eq!(names, ["a/b", "a_b"]);
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
        ("paid\rfree", "paid\\u{d}free"),
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
        ("👨\u{200d}👩", "👨\u{200d}👩"),
        ("👨\u{200d}a", "👨\\u{200d}a"),
        ("👨\u{200d}\u{200d}👩", "👨\\u{200d}\\u{200d}👩"),
        ("☎\u{fe0e}\u{fe0e}", "☎\u{fe0e}\\u{fe0e}"),
        (
            "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
            "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
        ),
        ("🏴\u{e0065}\u{e0076}\u{e007f}", "🏴\\u{e0065}\\u{e0076}\\u{e007f}"),
    ];
    for (text, shown) in cases {
        assert_eq!(visible_text(text), shown);
    }
}

#[test]
fn a_text_in_a_line_of_ours_begins_no_line() {
    for (text, shown) in [
        ("1.0", "1.0"),
        ("1.0\nfiles: ready, 3 tools", r"1.0\nfiles: ready, 3 tools"),
        ("a\r\nb", r"a\r\nb"),
        ("a\rb\u{1b}[2J\u{2028}", r"a\u{d}b\u{1b}[2J\u{2028}"),
        ("a\u{85}b\u{b}\u{c}", r"a\u{85}b\u{b}\u{c}"),
    ] {
        assert_eq!(visible_line(text), shown);
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

/// Names that read like another server's are not legal, and what is made of them does not read so.
#[test]
fn what_is_made_of_an_awkward_name_imitates_no_other() {
    let (held, evil) = (id("files", "read_file"), SourceId::new("evil").unwrap());
    let names = [
        "read_fil\u{435}",
        "r\u{435}ad_file",
        "read_file\u{200b}",
        "ｒead_file",
        "files:read_file",
        "read_file ",
    ];
    for name in names {
        let id = ToolId::of_any(&evil, name);
        let wire = flat(&id, name).unwrap();
        let tail = wire.as_str().rsplit('_').next().unwrap();
        assert!(tail.len() == 8 && tail.bytes().all(|b| b.is_ascii_hexdigit()), "{wire}");
        assert_ne!(skeleton(wire.as_str()), skeleton("read_file"));
        assert_ne!(id, held);
        assert!(id.as_str().starts_with("evil:"));
    }
}
