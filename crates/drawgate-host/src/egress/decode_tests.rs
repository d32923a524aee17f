use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use http::HeaderValue;

use super::*;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn unpack(packing: Packing, packed: &[u8], cap: usize) -> Result<(Bytes, Room), EgressError> {
    let mut unpacker = Unpacker::new(packing, cap);
    for piece in packed.chunks(1000) {
        if unpacker.feed(piece)? == Room::Full {
            return Ok((unpacker.take(), Room::Full));
        }
    }
    let room = unpacker.finish()?;
    Ok((unpacker.take(), room))
}

fn mixed(length: usize) -> Vec<u8> {
    // Packs to about a third.
    (0..length).map(|at| b"abcdefgh"[at.wrapping_mul(2_654_435_761) >> 7 & 7]).collect()
}

#[test]
fn each_packing_is_undone() {
    let text = mixed(50_000);
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    zlib.write_all(&text).unwrap();
    let mut raw = DeflateEncoder::new(Vec::new(), Compression::fast());
    raw.write_all(&text).unwrap();
    for (packing, packed) in [
        (Packing::None, text.clone()),
        (Packing::Gzip, gzip(&text)),
        (Packing::Gzip, [gzip(&text[..100]), gzip(&text[100..])].concat()),
        (Packing::Deflate, zlib.finish().unwrap()),
        (Packing::Deflate, raw.finish().unwrap()),
    ] {
        let (bytes, room) = unpack(packing, &packed, text.len()).unwrap();
        assert!(bytes == text && room == Room::Left, "{packing:?}");
        let (bytes, room) = unpack(packing, &packed, 49_999).unwrap();
        assert!(bytes == text[..49_999] && room == Room::Full, "{packing:?}");
    }
    assert_eq!(unpack(Packing::Gzip, b"", 10).unwrap().0, "");
}

#[test]
fn bombs_do_not_go_off() {
    let bomb = gzip(&vec![0; 50 * 1024 * 1024]);
    assert!(bomb.len() < 60_000);
    for cap in [1_000_000, usize::MAX] {
        let error = unpack(Packing::Gzip, &bomb, cap).unwrap_err();
        assert!(matches!(error, EgressError::Encoding(_)), "{error:?}");
    }
    let (bytes, room) = unpack(Packing::Gzip, &bomb, 10_000).unwrap();
    assert_eq!((bytes.len(), room), (10_000, Room::Full));
}

#[test]
fn damage_and_early_ends_are_told_apart() {
    let packed = gzip(&mixed(10_000));
    let cut = unpack(Packing::Gzip, &packed[..packed.len() / 2], 20_000).unwrap_err();
    assert!(matches!(cut, EgressError::Truncated), "{cut:?}");
    let text = unpack(Packing::Gzip, b"this is not packed at all", 20_000).unwrap_err();
    assert!(matches!(text, EgressError::Encoding(_)), "{text:?}");
}

#[test]
fn one_layer_that_was_asked_for() {
    let of = |values: &[&'static str]| {
        let pairs =
            values.iter().map(|value| (header::CONTENT_ENCODING, HeaderValue::from_static(value)));
        let mut headers = HeaderMap::new();
        pairs.for_each(|(name, value)| {
            headers.append(name, value);
        });
        Packing::of(&headers).map_err(|error| error.code())
    };
    assert_eq!(of(&[]), Ok(Packing::None));
    assert_eq!(of(&["identity"]), Ok(Packing::None));
    assert_eq!(of(&["GZip"]), Ok(Packing::Gzip));
    assert_eq!(of(&["x-gzip, identity"]), Ok(Packing::Gzip));
    assert_eq!(of(&["deflate"]), Ok(Packing::Deflate));
    for bad in [
        &["br"][..],
        &["zstd"],
        &["gzip, gzip"],
        &["gzip", "gzip"],
        &["gzip,br"],
        &["\u{7f}x"[1..].into()],
    ] {
        assert_eq!(of(bad), Err("encoding"), "{bad:?}");
    }
}
