//! ECDSA keys whose secret number begins with zeros.
//!
//! `ssh-keygen` leaves such zeros out, as numbers are written in SSH, but `ssh-key` reads only numbers
//! of full length: one key of 256 would not be usable. Here the zeros are put back.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ssh_key::PrivateKey;

use super::sshsig::{put, take, take_number};

const MAGIC: &[u8] = b"openssh-key-v1\0";
/// Without encryption the secret part is filled up to a multiple of this.
const BLOCK: usize = 8;

/// The key with its number in full length; `None` if that is not what is wrong with it.
pub(super) fn lengthened(text: &str) -> Option<PrivateKey> {
    let base64: String =
        text.lines().filter(|line| !line.starts_with('-')).map(str::trim).collect();
    let blob = STANDARD.decode(base64).ok()?;
    let mut rest = blob.strip_prefix(MAGIC)?;
    let (cipher, kdf, options) = (take(&mut rest)?, take(&mut rest)?, take(&mut rest)?);
    let count = take_number(&mut rest)?;
    let (public, secret) = (take(&mut rest)?, take(&mut rest)?);
    if cipher != b"none" || count != 1 {
        return None;
    }
    let mut whole = MAGIC.to_vec();
    for part in [cipher, kdf, options] {
        put(&mut whole, part).ok()?;
    }
    whole.extend(count.to_be_bytes());
    put(&mut whole, public).ok()?;
    put(&mut whole, &lengthened_secret(secret)?).ok()?;
    PrivateKey::from_bytes(&whole).ok()
}

fn lengthened_secret(secret: &[u8]) -> Option<Vec<u8>> {
    let (checks, mut rest) = secret.split_at_checked(BLOCK)?;
    let (kind, curve, point) = (take(&mut rest)?, take(&mut rest)?, take(&mut rest)?);
    let (number, comment) = (take(&mut rest)?, take(&mut rest)?);
    let length: usize = match curve {
        b"nistp256" => 32,
        b"nistp384" => 48,
        _ => return None,
    };
    let zeros = length.checked_sub(number.len())?;
    let number = [&vec![0; zeros], number].concat();
    let mut whole = checks.to_vec();
    for part in [kind, curve, point, &number, comment] {
        put(&mut whole, part).ok()?;
    }
    let mut filling = 1;
    while !whole.len().is_multiple_of(BLOCK) {
        whole.push(filling);
        filling += 1;
    }
    Some(whole)
}
