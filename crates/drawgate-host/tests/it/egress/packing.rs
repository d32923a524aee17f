//! Packed answers that mean harm: cut or refused, in little memory.

use std::io::{self, Write};
use std::sync::atomic::Ordering;

use drawgate_host::egress::{Egress, EgressError, Excerpt};
use flate2::Compression;
use flate2::write::{DeflateEncoder, ZlibEncoder};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::answers::{gzip, whole};
use super::town::{Ledger, Town};
use super::{bombs, excerpt};

const MIB: usize = 1024 * 1024;

/// What all that is unpacked here would need; and what the tests may use, with all that they hold.
const UNPACKED: usize = 1024 * MIB;
const ALLOWED: usize = 256 * MIB;

/// Answers with the body of this name.
pub(super) async fn answer(
    stream: &mut (impl AsyncWrite + Unpin),
    name: &str,
    ledger: &Ledger,
) -> io::Result<()> {
    if let Some((encoding, start, again)) = endless(name) {
        return pour(stream, encoding, &start, &again, ledger).await;
    }
    let (encodings, body) = packed(name);
    let line = |encoding| ["content-encoding: ", encoding, "\r\n"].concat();
    let headers: String = encodings.into_iter().map(line).collect();
    whole(stream, &headers, &body).await
}

/// Names of encodings, one for each header, and the body.
fn packed(name: &str) -> (Vec<&str>, Vec<u8>) {
    let many = |member: &[u8]| member.repeat(UNPACKED / (10 * MIB));
    let bomb = || gzip(&vec![0; 10 * MIB]);
    match name {
        "br" => (vec!["br"], bombs::brotli()),
        "zstd" => (vec!["zstd"], bombs::zstd()),
        "compress" => (vec!["compress"], b"\x1f\x9d\x90".to_vec()),
        "two_layers" => (vec!["gzip, gzip"], gzip(&bomb())),
        "two_headers" => (vec!["gzip", "gzip"], gzip(&bomb())),
        "two_kinds" => (vec!["deflate, gzip"], gzip(&bomb())),
        "hidden_layer" => (vec!["gzip"], gzip(&gzip(&vec![0; 20 * MIB]))),
        "many_layers" => (vec!["gzip,".repeat(1000).leak()], gzip(b"x")),
        "members" => (vec!["gzip"], many(&bomb())),
        // Noise in front keeps the ratio low.
        "members_after_noise" => (vec!["gzip"], [gzip(&noise(300_000)), many(&bomb())].concat()),
        "members_after_text" => (vec!["gzip"], [gzip(b"hello"), many(&bomb())].concat()),
        "zlib" => (vec!["deflate"], zlib()),
        "raw" => (vec!["deflate"], raw()),
        "quality" => (vec!["gzip;q=1"], gzip(b"x")),
        "star" => (vec!["*"], gzip(b"x")),
        "no_list" => (vec!["gzip gzip"], gzip(b"x")),
        "no_text" => (vec!["gzip\u{e9}"], gzip(b"x")),
        "a_lie" => (vec!["gzip"], b"this is not packed".to_vec()),
        "another_kind" => (vec!["gzip"], raw()),
        "cut_off" => (vec!["gzip"], gzip(&noise(5000))[..2000].to_vec()),
        "rest" => (vec!["gzip"], [gzip(b"whole"), b"and what is not packed".to_vec()].concat()),
        "list" => (vec!["identity, , GZIP"], gzip(b"unpacked")),
        "members_in_order" => (vec!["gzip"], [gzip(b"un"), gzip(b"packed")].concat()),
        other => panic!("nothing is called {other}"),
    }
}

/// Bodies without an end: their encoding, how they start, and what comes again and again.
fn endless(name: &str) -> Option<(&'static str, Vec<u8>, Vec<u8>)> {
    Some(match name {
        "empty_members" => ("gzip", Vec::new(), gzip(b"").repeat(1000)),
        // Stored blocks of no bytes.
        "empty_blocks" => ("deflate", Vec::new(), b"\x00\x00\x00\xff\xff".repeat(1000)),
        "long_name" => ("gzip", b"\x1f\x8b\x08\x08\0\0\0\0\0\xff".to_vec(), vec![b'x'; 10_000]),
        "endless_br" => ("br", bombs::brotli(), bombs::brotli()),
        "endless_zstd" => ("zstd", bombs::zstd(), bombs::zstd()),
        "noise" => ("gzip", Vec::new(), gzip(&noise(100_000))),
        _ => return None,
    })
}

async fn pour(
    stream: &mut (impl AsyncWrite + Unpin),
    encoding: &str,
    start: &[u8],
    again: &[u8],
    ledger: &Ledger,
) -> io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(start).await?;
    loop {
        stream.write_all(again).await?;
        ledger.pieces.fetch_add(again.len(), Ordering::SeqCst);
    }
}

/// Bytes that can't be packed.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

fn zlib() -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![0; 20 * MIB]).unwrap();
    encoder.finish().unwrap()
}

fn raw() -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![0; 20 * MIB]).unwrap();
    encoder.finish().unwrap()
}

/// The most memory that this process has had so far.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

async fn fetch(egress: &Egress, name: &str) -> Result<Excerpt, EgressError> {
    excerpt(egress, &format!("http://hostile.tg.test/packed?{name}")).await
}

#[tokio::test]
async fn what_was_not_asked_for_or_grows_too_much_is_refused() {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    for (name, code) in [
        ("br", "encoding"),
        ("zstd", "encoding"),
        ("compress", "encoding"),
        ("two_layers", "encoding"),
        ("two_headers", "encoding"),
        ("two_kinds", "encoding"),
        ("many_layers", "encoding"),
        ("members", "encoding"),
        ("members_after_text", "encoding"),
        ("quality", "encoding"),
        ("star", "encoding"),
        ("no_list", "encoding"),
        ("no_text", "encoding"),
        ("a_lie", "encoding"),
        ("another_kind", "encoding"),
        ("rest", "encoding"),
        ("cut_off", "truncated"),
    ] {
        let outcome = fetch(&egress, name).await;
        let became = outcome.as_ref().map_or_else(EgressError::code, |_| "an answer");
        assert_eq!(became, code, "{name}");
    }
    assert!(peak() < ALLOWED, "{} MiB", peak() / MIB);
}

/// Whatever a bomb is packed in, nothing of what would come out of it gets further.
#[tokio::test]
async fn every_bomb_ends_in_the_same_way() {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    for (name, words) in [
        ("members", "it grows to more than 100 times its size"),
        ("br", "`br` was not asked for"),
        ("zstd", "`zstd` was not asked for"),
        ("two_layers", "it is packed more than once"),
    ] {
        let error = fetch(&egress, name).await.unwrap_err();
        assert_eq!(error.to_string(), format!("the answer can't be unpacked: {words}"), "{name}");
    }
    let asked = town.heads();
    let offered = |head: &String| head.contains("accept-encoding: gzip, deflate\r\n");
    assert!(asked.len() == 4 && asked.iter().all(offered), "{asked:?}");
    assert!(peak() < ALLOWED, "{} MiB", peak() / MIB);
}

#[tokio::test]
async fn what_is_too_much_is_cut_and_one_layer_is_all() {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    let cut = fetch(&egress, "members_after_noise").await.unwrap();
    assert_eq!((cut.fetched.body.len(), cut.is_cut), (1_000_000, true));
    // Which of the two bounds is met first depends on how the pieces come.
    for name in ["zlib", "raw"] {
        match fetch(&egress, name).await {
            Ok(cut) => {
                assert_eq!((cut.fetched.body.len(), cut.is_cut), (1_000_000, true), "{name}");
            }
            Err(error) => assert_eq!(error.code(), "encoding", "{name}"),
        }
    }
    let inner = fetch(&egress, "hidden_layer").await.unwrap();
    assert!(inner.fetched.body.starts_with(b"\x1f\x8b") && inner.fetched.body.len() < MIB);
    for name in ["list", "members_in_order"] {
        let excerpt = fetch(&egress, name).await.unwrap();
        assert_eq!(
            (&excerpt.fetched.body[..], excerpt.is_cut),
            (&b"unpacked"[..], false),
            "{name}"
        );
    }
    assert!(peak() < ALLOWED, "{} MiB", peak() / MIB);
}

/// However long it is, no more is read than what could fill the room.
#[tokio::test]
async fn what_never_ends_is_not_read_for_ever() {
    for (name, code) in [
        ("empty_members", Some("encoding")),
        ("empty_blocks", Some("encoding")),
        ("long_name", Some("encoding")),
        ("endless_br", Some("encoding")),
        ("endless_zstd", Some("encoding")),
        ("noise", None),
    ] {
        let town = Town::start().await;
        let egress = Egress::over(town.network());
        let outcome = fetch(&egress, name).await;
        match (code, &outcome) {
            (Some(code), Err(error)) => assert_eq!(error.code(), code, "{name}: {error}"),
            (None, Ok(excerpt)) => assert!(excerpt.is_cut, "{name}"),
            (_, Ok(excerpt)) => panic!("{name}: {} bytes", excerpt.fetched.body.len()),
            (None, Err(error)) => panic!("{name}: {error}"),
        }
        // What lies in the buffers of the two sockets counts as written.
        assert!(town.pieces() < 32 * MIB, "{name}: {}", town.pieces());
    }
    assert!(peak() < ALLOWED, "{} MiB", peak() / MIB);
}
