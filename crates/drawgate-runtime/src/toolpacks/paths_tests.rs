use super::*;

#[track_caller]
fn refused(path: &str) {
    assert_eq!(check(path.as_bytes()).unwrap_err().code(), Some(Code::Path), "{path:?}");
}

#[test]
fn what_a_pack_may_hold() {
    for good in [
        "toolpack.json",
        "spec/petstore.json",
        ".gitignore",
        "a b/c",
        "größe.md",
        "日本",
        "説明：何？.md",
        "cafe\u{301}",
        "½ x².md",
        "🚀",
        "…and more",
        "auxiliary.json",
        "console/com10/lpt.txt",
        "git~x",
        "...a",
    ] {
        assert_eq!(check(good.as_bytes()).unwrap(), good);
    }
    let deep = "a/".repeat(600) + "a";
    let long = "a".repeat(256);
    for bad in [
        "",
        "/etc/passwd",
        "a//b",
        "a/",
        "./a",
        "a/../b",
        "..",
        "a/..",
        "a\\b",
        "a\0b",
        "a\nb",
        "a\u{1b}[2Jb",
        "-rf",
        "a/-x",
        "a ",
        " a",
        "a/b.",
        "a\u{202e}b",
        "a\u{200b}",
        "\u{feff}a",
        "a\u{a0}b",
        "a\u{85}b",
        "C:/x",
        ".git",
        "x/.GIT/config",
        &deep,
        &long,
    ] {
        refused(bad);
    }
    assert!(check(b"a\xff").is_err());
}

#[test]
fn what_can_not_be_seen_or_means_nothing() {
    let planes = (0..=16_u32).flat_map(|plane| [plane << 16 | 0xfffe, plane << 16 | 0xffff]);
    let others = [
        0x2800, 0xfffc, 0xfdd0, 0xfdef, 0x1bca0, 0x1bca3, 0x16fe4, 0x13430, 0xe000, 0xf8ff,
        0xf_0000, 0xf_fffd, 0x10_0000, 0x10_fffd, 0xe_0001, 0x1d173,
    ];
    for c in planes.chain(others).map(|number| char::from_u32(number).unwrap()) {
        refused(&format!("a{c}b"));
        refused(&c.to_string());
    }
}

#[test]
fn what_looks_like_another_path() {
    for bad in [
        "..／..／etc",
        "．．/x",
        "．/x",
        "x/‥",
        "x/․․/y",
        "…",
        "a／b",
        "a＼b",
        "a﹨b",
        "℀",
        "a∕b",
        "a⁄b",
        "a⧸b",
        "a∖b",
        "a╱b",
        "．git/config",
        ".ｇｉｔ",
        ".gıt",
    ] {
        refused(bad);
    }
}

#[test]
fn what_means_something_else_on_windows() {
    for bad in [
        "CON",
        "con",
        "a/Prn/b",
        "aux.json",
        "nul .txt",
        "NUL.tar.gz",
        "COM0",
        "com9.log",
        "LPT1",
        "COM¹",
        "lpt³.x",
        "ＣＯＮ",
        "CONIN$",
        "conout$.txt",
        "GIT~1",
        "git~2/config",
        "GIT~9",
        "GIT~10",
        "a<b",
        "a>b",
        "a|b",
        "a\"b",
        "what?",
        "*",
    ] {
        refused(bad);
    }
}

#[test]
fn what_would_be_one_name() {
    for (one, other) in [
        ("toolpack.json", "TOOLPACK.JSON"),
        ("toolpack.json", "toolpack.jſon"),
        ("toolpack.json", "ｔｏｏｌｐａｃｋ.json"),
        ("k", "\u{212a}"),
        ("straße", "strasse"),
        ("straße", "STRASSE"),
        ("strasse", "STRAẞE"),
        ("σ", "ς"),
        ("Σ", "ς"),
        ("caf\u{e9}", "cafe\u{301}"),
        ("CAF\u{c9}", "cafe\u{301}"),
        ("\u{1fb3}", "αι"),
        ("ﬁle", "FILE"),
        ("\u{a7}\u{323}\u{307}", "\u{a7}\u{307}\u{323}"),
    ] {
        assert_eq!(folded(one), folded(other), "{one} {other}");
    }
    for (one, other) in [("a", "b"), ("cafe", "café"), ("a/b", "a b"), ("o", "ö"), ("e", "е")] {
        assert_ne!(folded(one), folded(other), "{one} {other}");
    }
}

#[test]
fn errors_can_be_shown() {
    let error = check("a\u{1b}[2J\u{202e}".as_bytes()).unwrap_err().to_string();
    assert!(!error.contains(['\u{1b}', '\u{202e}']), "{error}");
}
