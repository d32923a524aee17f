//! Real bombs in the packings that are never asked for, made by hand: each is a valid body of a
//! gibibyte of zeros.

const GIB: usize = 1024 * 1024 * 1024;
/// The longest part of a body that says its own length, in each of the two.
const BROTLI_PART: usize = 1 << 24;
const ZSTD_PART: usize = 128 * 1024;

/// About eight hundred bytes of brotli (RFC 7932).
pub(super) fn brotli() -> Vec<u8> {
    let mut bits = Bits::default();
    // The smallest window.
    bits.put(0, 1);
    for _ in 0..GIB / BROTLI_PART {
        // Not the last part; its length in six nibbles; it is compressed.
        bits.put(0, 1);
        bits.put(2, 2);
        bits.put(BROTLI_PART - 1, 24);
        bits.put(0, 1);
        // One type of each block, no parameters of distances, one context, one tree of each.
        bits.put(0, 3 + 6 + 2 + 2);
        // Codes of one symbol each: the literal zero; one literal and a long copy; a distance of one
        // and one bit more.
        for (symbol, width) in [(0, 8), (399, 10), (16, 6)] {
            bits.put(1, 2);
            bits.put(0, 2);
            bits.put(symbol, width);
        }
        // All the rest of the part is a copy.
        bits.put(BROTLI_PART - 1 - 2118, 24);
        bits.put(0, 1);
    }
    // The last part, which is empty.
    bits.put(3, 2);
    bits.bytes
}

/// About thirty thousand bytes of zstd (RFC 8878): blocks that repeat one byte.
pub(super) fn zstd() -> Vec<u8> {
    let blocks = GIB / ZSTD_PART;
    let mut bytes = b"\x28\xb5\x2f\xfd\x00\x58".to_vec();
    for number in 1..=blocks {
        let header = ZSTD_PART << 3 | 1 << 1 | usize::from(number == blocks);
        bytes.extend(&header.to_le_bytes()[..3]);
        bytes.push(0);
    }
    bytes
}

/// Bytes that fill from their lowest bit.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: usize,
}

impl Bits {
    fn put(&mut self, value: usize, width: usize) {
        for at in 0..width {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            *self.bytes.last_mut().unwrap() |= u8::from(value >> at & 1 == 1) << (self.used % 8);
            self.used += 1;
        }
    }
}

/// The usual programs unpacked exactly these to what they should be.
#[test]
fn they_are_the_ones_that_were_tried() {
    use sha2::{Digest as _, Sha256};
    let sum = |bytes: Vec<u8>| (bytes.len(), hex::encode(&Sha256::digest(&bytes)[..8]));
    assert_eq!(sum(brotli()), (817, "f938696c97ad348e".to_owned()));
    assert_eq!(sum(zstd()), (32_774, "efaac01872bb24a0".to_owned()));
}
