use std::fs;

use super::*;
use crate::toolpacks::testing::{COMMIT, TOP, Tar, code, everything_in, gzip, manifest, put, seal};

fn unpacked(archive: &[u8]) -> Result<Vec<String>, ToolpackError> {
    let root = tempfile::tempdir().unwrap();
    let result = unpack(archive, Some(COMMIT), &root.path().join("pack"));
    let mut found = everything_in(root.path());
    assert!(found.iter().all(|line| line.starts_with("pack")), "{found:?}");
    result?;
    found.remove(0);
    Ok(found)
}

#[track_caller]
fn refused(tar: Tar) -> Option<Code> {
    code(unpacked(&tar.packed()))
}

#[test]
fn what_git_makes_is_taken() {
    let long = format!("{TOP}{}/{}.txt", "folder".repeat(15), "name".repeat(20));
    let tar = Tar::empty()
        .pax(b'g', &[("comment", COMMIT)])
        .entry(TOP, b'5', b"")
        .entry(&format!("{TOP}bin/"), b'5', b"")
        .edited(&format!("{TOP}bin/run"), b'0', b"#!", |header| put(header, 100, b"0000775\0"))
        .pax(b'x', &[("path", &long), ("mtime", "1.5"), ("SCHILY.fflags", "x"), ("size", "2")])
        .entry("short", b'0', b"hi")
        .pax(b'x', &[("uid", "1"), ("LIBARCHIVE.creationtime", "1"), ("SCHILY.xattr.user.a", "b")])
        .file("z");
    let found = unpacked(&tar.packed()).unwrap();
    let folder = format!("pack/{}", "folder".repeat(15));
    assert_eq!(
        found,
        [
            "pack/bin folder 755".to_owned(),
            "pack/bin/run file 755".to_owned(),
            format!("{folder} folder 755"),
            format!("{folder}/{}.txt file 644", "name".repeat(20)),
            "pack/z file 644".to_owned(),
        ]
    );
}

/// Written by somebody else's hand: the `tar` crate's, in both dialects.
#[test]
fn what_others_make_is_taken() {
    for mut header in [tar::Header::new_ustar(), tar::Header::new_gnu()] {
        let mut builder = tar::Builder::new(Vec::new());
        header.set_size(5);
        header.set_mode(0o600);
        builder.append_data(&mut header, format!("{TOP}a/b.txt"), &b"bytes"[..]).unwrap();
        let found = unpacked(&gzip(&builder.into_inner().unwrap())).unwrap();
        assert_eq!(found, ["pack/a folder 755", "pack/a/b.txt file 644"]);
    }
}

#[test]
fn content_arrives_whole() {
    let root = tempfile::tempdir().unwrap();
    let text = manifest("1.0.0");
    unpack(&Tar::pack().packed(), None, &root.path().join("pack")).unwrap();
    assert_eq!(fs::read_to_string(root.path().join("pack/toolpack.json")).unwrap(), text);
}

#[test]
fn names_that_would_be_one() {
    for names in [
        ["a.txt", "a.txt"],
        ["a.txt", "A.TXT"],
        ["a", "a/b"],
        ["a/b", "a"],
        ["a/b", "A/c"],
        ["ä", "Ä"],
        ["toolpack.jſon", "a"],
        ["straße", "strasse"],
        ["STRAẞE/a", "strasse/b"],
        ["σ", "ς"],
        ["caf\u{e9}", "cafe\u{301}"],
        ["caf\u{e9}/a", "cafe\u{301}/b"],
    ] {
        let tar = Tar::pack().file(names[0]).file(names[1]);
        assert_eq!(refused(tar), Some(Code::Path), "{names:?}");
    }
    let twice =
        Tar::pack().entry(&format!("{TOP}d/"), b'5', b"").entry(&format!("{TOP}d"), b'5', b"");
    assert!(unpacked(&twice.packed()).is_ok(), "a folder may be named again");
}

#[test]
fn further_paths() {
    for name in ["/etc/passwd", "C:evil", "top//a", "./top/a", "", "pack-0123456"] {
        let tar = Tar::pack().entry(name, b'0', b"x");
        assert_eq!(refused(tar), Some(Code::Path), "{name}");
    }
    assert_eq!(refused(Tar::pack().entry("beside/", b'5', b"")), Some(Code::Path));
    assert_eq!(refused(Tar::pack().file("named-as-a-folder/")), Some(Code::Path));
    for path in ["../evil", "/evil", &format!("{TOP}a\0b")] {
        let tar = Tar::pack().pax(b'x', &[("path", path)]).file("harmless");
        assert_eq!(refused(tar), Some(Code::Path), "{path}");
    }
    let prefix = |header: &mut [u8; 512]| put(header, 345, b"pack-0123456\0/..");
    assert_eq!(refused(Tar::pack().edited("a", b'0', b"x", prefix)), Some(Code::Path));
    let deep = format!("{TOP}{}", "a/".repeat(40));
    assert_eq!(refused(Tar::pack().entry(&deep, b'5', b"")), Some(Code::Limit));
}

#[test]
fn attributes_are_read_strictly() {
    let lines: [&[u8]; 11] = [
        b"8 path=a\n",
        b"010 path=a\n",
        b"0 \n",
        b"10 path=a",
        b"-9 path=a\n",
        b" path=a\n",
        b"99999999999999999999 path=a\n",
        b"7 path\n",
        b"7 =abc\n",
        b"8 path=\n",
        b"9 x y=a\n\0",
    ];
    for line in lines {
        let tar = Tar::pack().entry("pax", b'x', line).file("a");
        assert_eq!(refused(tar), Some(Code::Format), "{}", line.escape_ascii());
    }
    for (records, expected) in [
        (vec![("path", "p/a"), ("path", "p/b")], Code::Format),
        (vec![("mtime", "1"), ("mtime", "1")], Code::Format),
        (vec![("SCHILY.xattr.a", "1"), ("SCHILY.xattr.a", "2")], Code::Format),
        (vec![("SCHILY.realsize", "1")], Code::Format),
        (vec![("SCHILY.filetype", "sparse")], Code::Format),
        (vec![("SCHILY.xattr.", "1")], Code::Format),
        (vec![("LIBARCHIVE.symlinktype", "file")], Code::Format),
        (vec![("VENDOR.anything", "1")], Code::Format),
        (vec![("mtime2", "1")], Code::Format),
        (vec![("size", "8")], Code::Format),
        (vec![("size", "x")], Code::Format),
        (vec![("hdrcharset", "BINARY")], Code::Format),
        (vec![("linkpath", "/etc/passwd")], Code::Link),
        (vec![("GNU.sparse.major", "1")], Code::Type),
        (vec![("GNU.sparse.name", "x")], Code::Type),
    ] {
        let tar = Tar::pack().pax(b'x', &records).file("a");
        assert_eq!(refused(tar), Some(expected), "{records:?}");
    }
    let twice = Tar::pack().pax(b'x', &[("mtime", "1")]).pax(b'x', &[("mtime", "1")]).file("a");
    assert_eq!(refused(twice), Some(Code::Format));
    assert_eq!(refused(Tar::pack().pax(b'x', &[("mtime", "1")])), Some(Code::Format));
}

#[test]
fn an_archive_is_of_the_commit_it_was_asked_for_by() {
    for (records, expected) in [
        (vec![("comment", "89abcdef0123456789abcdef0123456789abcdef")], Code::Pin),
        (vec![("comment", "")], Code::Pin),
        (vec![("path", "x/y")], Code::Format),
        (vec![("size", "1")], Code::Format),
        (vec![("uname", "root")], Code::Format),
        (vec![("SCHILY.xattr.a", "1")], Code::Format),
    ] {
        assert_eq!(refused(Tar::pack().pax(b'g', &records)), Some(expected), "{records:?}");
    }
}

type Edit = fn(&mut [u8; 512]);

#[test]
fn headers_are_read_strictly() {
    let edits: [(&str, Edit); 7] = [
        ("no octal size", |header| put(header, 124, b"0000000000x\0")),
        ("a negative size", |header| put(header, 124, b"-0000000001\0")),
        ("a second size", |header| put(header, 124, b"00001 00007\0")),
        ("no octal mode", |header| put(header, 100, b"rwxr-xr\0")),
        ("another magic", |header| put(header, 257, b"USTAR\x0000")),
        ("another version", |header| put(header, 257, b"ustar\x0001")),
        ("the other dialect's times", |header| {
            put(header, 257, b"ustar  \0");
            put(header, 345, b"14000000000\0");
        }),
    ];
    for (what, edit) in edits {
        let tar = Tar::pack().edited(&format!("{TOP}a"), b'0', b"content", edit);
        assert_eq!(refused(tar), Some(Code::Format), "{what}");
    }
    assert_eq!(refused(Tar::pack().entry(&format!("{TOP}d/"), b'5', b"x")), Some(Code::Format));
}

#[test]
fn the_end_is_the_end() {
    let stream = Tar::pack().end();
    for (what, stream) in [
        ("no end", stream[..stream.len() - 1024].to_vec()),
        ("half an end", stream[..stream.len() - 512].to_vec()),
        ("a cut block", stream[..stream.len() - 1].to_vec()),
        ("something after it", [stream.clone(), vec![1]].concat()),
        ("one zero block", [&[0; 512], &stream[..]].concat()),
        ("only the end", vec![0; 1024]),
    ] {
        assert_eq!(code(unpacked(&gzip(&stream))), Some(Code::Format), "{what}");
    }
    let padded = [stream.clone(), vec![0; 9216]].concat();
    assert!(unpacked(&gzip(&padded)).is_ok(), "as most programs write it");
    let after = [gzip(&stream), b"x".to_vec()].concat();
    assert_eq!(code(unpacked(&after)), Some(Code::Format));
    let mut hidden = Tar::pack().file("a").end();
    let at = hidden.len() - 1025;
    hidden[at] = b'x';
    assert_eq!(code(unpacked(&gzip(&hidden))), Some(Code::Format), "behind a file's last byte");
}

#[test]
fn too_many_files() {
    let many = (0..=10_000)
        .fold(Tar::pack(), |tar, number| tar.entry(&format!("{TOP}{number}"), b'0', b""));
    assert_eq!(refused(many), Some(Code::Limit));
}

/// The same numbers in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end).unwrap()).unwrap()
    }

    /// Changes some bytes, and perhaps cuts or doubles a piece.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            bytes[at] = match self.below(4) {
                0 => b'/',
                1 => b'.',
                2 => 0,
                _ => u8::try_from(self.below(256)).unwrap(),
            };
        }
        match self.below(8) {
            0 => bytes.truncate(self.below(bytes.len()).max(1)),
            1 => {
                let at = self.below(bytes.len() / 512 + 1) * 512;
                let piece = bytes[at.min(bytes.len())..].to_vec();
                bytes.extend(piece);
            }
            _ => {}
        }
    }
}

#[test]
fn damage_never_escapes() {
    let good = Tar::empty()
        .pax(b'g', &[("comment", COMMIT)])
        .entry(TOP, b'5', b"")
        .pax(b'x', &[("path", &format!("{TOP}a/b")), ("mtime", "1")])
        .file("c")
        .entry(&format!("{TOP}d/"), b'5', b"")
        .edited(&format!("{TOP}d/e"), b'0', b"#!", |header| put(header, 100, b"0000775\0"))
        .end();
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let (mut taken, mut refused) = (0, 0);
    for round in 0..6000 {
        let mut stream = good.clone();
        numbers.damage(&mut stream);
        // With right checksums the damage goes deeper.
        stream
            .chunks_exact_mut(512)
            .filter(|block| block[257..].starts_with(b"ustar"))
            .for_each(seal);
        let result = if round % 20 == 0 {
            unpacked(&gzip(&stream)).map(drop)
        } else {
            read(&stream, Some(COMMIT)).map(|layout| {
                for path in layout.folders().chain(layout.files().map(|file| file.path)) {
                    assert!(crate::toolpacks::paths::check(path.as_bytes()).is_ok(), "{path}");
                }
            })
        };
        *(if result.is_ok() { &mut taken } else { &mut refused }) += 1;
    }
    assert!(taken > 100 && refused > 100, "{taken} {refused}");
    let good = gzip(&good);
    for _ in 0..1000 {
        let mut archive = good.clone();
        numbers.damage(&mut archive);
        let _either = unpacked(&archive);
    }
}
