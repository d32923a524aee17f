//! The archives of the catalogue's rows. The program's own tests use this file too.

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

use super::tar::{COMMIT, TOP, Tar, gzip, put, seal};

/// The archive of a row, made after its description.
pub(crate) fn archive(name: &str) -> Vec<u8> {
    let kind = name.split('_').next().unwrap_or_default();
    match kind {
        "path" => path(name).packed(),
        "name" => named(name).packed(),
        "link" => link(name).packed(),
        "type" => special(name).packed(),
        "gzip" => compressed(name),
        "size" => size(name),
        _ => other(name),
    }
}

fn path(name: &str) -> Tar {
    let pack = Tar::pack();
    match name {
        "path_dotdot" => pack.entry("../evil.txt", b'0', b"x"),
        "path_dotdot_inner" => pack.file("a/../../../evil.txt"),
        "path_dotdot_end" => pack.entry(&format!("{TOP}a/.."), b'5', b""),
        "path_backslash" => pack.file("..\\..\\evil.txt"),
        "path_nul" => pack.file("a.txt\0/../../evil"),
        "path_newline" => pack.file("a\nb.txt"),
        "path_ansi" => pack.file("a\u{1b}[2Jb.txt"),
        "path_leading_dash" => pack.file("-rf"),
        "path_trailing_space" => pack.file("toolpack.json "),
        "path_rtl" => pack.file("a\u{202e}txt.exe"),
        "path_outside_top" => pack.entry("evil.txt", b'0', b"x"),
        "path_git_dir" => pack.file(".git/hooks/post-checkout"),
        "path_prefix_field" => {
            pack.edited("evil.txt", b'0', b"x", |header| put(header, 345, b"pack-0123456/../.."))
        }
        "path_gnu_longname" => {
            let long = format!("{TOP}{}evil\0", "../".repeat(50));
            pack.entry("././@LongLink", b'L', long.as_bytes()).file("short")
        }
        name => panic!("{name}"),
    }
}

/// With names that some file system or some reader takes for others.
fn named(name: &str) -> Tar {
    let files: &[&str] = match name {
        "name_long_s" => &["toolpack.j\u{17f}on"],
        "name_sharp_s" => &["straße", "strasse"],
        "name_final_sigma" => &["σ", "ς"],
        "name_other_accent" => &["caf\u{e9}", "cafe\u{301}"],
        "name_blank" => &["toolpack\u{2800}.json"],
        "name_private" => &["a\u{e000}b"],
        "name_no_character" => &["a\u{ffff}b"],
        "name_wide_dots" => &["．．/evil.txt"],
        "name_wide_slash" => &["..／..／evil.txt"],
        "name_fraction_slash" => &["..⁄evil.txt"],
        "name_device" => &["aux.json"],
        "name_wildcard" => &["a*b"],
        "name_short_git" => &["GIT~2/config"],
        name => panic!("{name}"),
    };
    files.iter().fold(Tar::pack(), |tar, file| tar.file(file))
}

fn link(name: &str) -> Tar {
    let pack = Tar::pack();
    match name {
        "link_symlink_abs" => pack.link("a", b'2', "/etc/passwd"),
        "link_symlink_inside" => pack.link("a", b'2', "toolpack.json"),
        "link_hardlink_abs" => pack.link("a", b'1', "/etc/passwd"),
        "link_hardlink_inside" => pack.link("a", b'1', "pack-0123456/toolpack.json"),
        "link_then_write_through" => pack.link("a", b'2', "/tmp").file("a/evil.txt"),
        "link_hard_then_overwrite" => pack.link("a", b'1', "/etc/passwd").file("a"),
        name => panic!("{name}"),
    }
}

fn special(name: &str) -> Tar {
    let flag = match name {
        "type_char_dev" => b'3',
        "type_block_dev" => b'4',
        "type_fifo" => b'6',
        "type_contiguous" => b'7',
        "type_unknown_type_Z" => b'Z',
        "type_gnu_dumpdir_D" => b'D',
        "type_gnu_sparse" => b'S',
        name => panic!("{name}"),
    };
    Tar::pack().entry(&format!("{TOP}a"), flag, b"")
}

fn compressed(name: &str) -> Vec<u8> {
    let stream = Tar::pack().end();
    let whole = gzip(&stream);
    let (first, last) = stream.split_at(1024);
    match name {
        "gzip_many_members" => [gzip(first), gzip(last)].concat(),
        "gzip_truncated" => whole[..whole.len() / 2].to_vec(),
        "gzip_bad_crc" => {
            let mut bad = whole;
            let at = bad.len() - 8;
            bad[at] ^= 1;
            bad
        }
        "gzip_double" => gzip(&whole),
        name => panic!("{name}"),
    }
}

fn size(name: &str) -> Vec<u8> {
    let octal = |size: &'static [u8]| move |header: &mut [u8; 512]| put(header, 124, size);
    match name {
        "size_bomb_2g" => bomb(),
        "size_declared_8eib" => Tar::pack()
            .edited(&format!("{TOP}a"), b'0', b"", |header| {
                put(header, 124, b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff");
            })
            .packed(),
        "size_pax_vs_ustar" => {
            let inner = Tar::empty().entry("../evil.txt", b'0', b"x");
            Tar::pack()
                .pax(b'x', &[("size", "1024")])
                .edited(&format!("{TOP}a"), b'0', &inner.0, octal(b"00000000000\0"))
                .packed()
        }
        name => panic!("{name}"),
    }
}

/// A header that says 2 GiB, and then as many zeros, in about 2 MiB.
fn bomb() -> Vec<u8> {
    const CHUNK: usize = 1 << 20;
    let header = Tar::empty()
        .edited(&format!("{TOP}a"), b'0', b"", |header| put(header, 124, b"20000000000\0"));
    let zeros = vec![0; CHUNK];
    // A whole number of bytes that do not depend on what came before: they can be repeated.
    let squeeze = |bytes: &[u8]| {
        let mut out = Vec::with_capacity(CHUNK);
        let mut compress = Compress::new(Compression::best(), false);
        let status = compress.compress_vec(bytes, &mut out, FlushCompress::Full).unwrap();
        assert_eq!(status, Status::Ok);
        out
    };
    let mut crc = Crc::new();
    crc.update(&header.0);
    let mut many = Crc::new();
    many.update(&zeros);
    let mut archive = b"\x1f\x8b\x08\0\0\0\0\0\0\xff".to_vec();
    archive.extend(squeeze(&header.0));
    let block = squeeze(&zeros);
    for _ in 0..2048 {
        archive.extend(&block);
        crc.combine(&many);
    }
    archive.extend([3, 0]);
    archive.extend(crc.sum().to_le_bytes());
    archive.extend(crc.amount().to_le_bytes());
    archive
}

fn other(name: &str) -> Vec<u8> {
    let pack = Tar::pack();
    let with_mode = |tar: Tar, name: &str, flag, mode: &[u8]| {
        tar.edited(&format!("{TOP}{name}"), flag, b"", |header| put(header, 100, mode))
    };
    match name {
        "ok_plain" => pack.file("data/a.txt").packed(),
        "ok_git_global_comment" => Tar(Tar::empty()
            .pax(b'g', &[("comment", COMMIT)])
            .0
            .into_iter()
            .chain(pack.0)
            .collect())
        .packed(),
        "mode_setuid" => with_mode(pack, "tool", b'0', b"0006755\0").packed(),
        "mode_zero" => {
            with_mode(with_mode(pack, "d/", b'5', b"0000000\0"), "d/a", b'0', b"0000000\0").packed()
        }
        "mtime_future" => pack
            .edited(&format!("{TOP}a"), b'0', b"", |header| put(header, 136, b"77777777777\0"))
            .packed(),
        "pax_malformed" => {
            pack.entry("pax_header", b'x', b"99 path=x\nnonsense").file("a").packed()
        }
        "pax_real_size" => pack.pax(b'x', &[("SCHILY.realsize", "1")]).file("a").packed(),
        "pax_twice" => pack.pax(b'x', &[("mtime", "1"), ("mtime", "2")]).file("a").packed(),
        "pax_bomb" => {
            let bomb = format!("8388608 comment={}\n", "0".repeat(8_388_608 - 17));
            pack.entry("pax_header", b'x', bomb.as_bytes()).file("a").packed()
        }
        "tar_bad_checksum" => {
            let mut stream = pack.file("a").end();
            let at = stream.len() - 2048;
            stream[at] ^= 1;
            gzip(&stream)
        }
        "tar_data_after_end" => gzip(&[pack.clone().end(), pack.file("evil").end()].concat()),
        "tar_old_v7" => gzip(&old(Tar::pack().end())),
        "no_manifest" => Tar::empty().file("README.md").packed(),
        "manifest_invalid_json" => {
            Tar::empty().entry(&format!("{TOP}toolpack.json"), b'0', b"{not json").packed()
        }
        "empty_gzip" => gzip(b""),
        "zero_bytes" => Vec::new(),
        name => panic!("{name}"),
    }
}

/// The same headers as before there was a standard.
fn old(mut stream: Vec<u8>) -> Vec<u8> {
    for at in [0, 512] {
        let header = &mut stream[at..at + 512];
        put(header, 257, &[0; 255]);
        seal(header);
    }
    stream
}
