//! The SSHSIG form of a signature, as OpenSSH's `PROTOCOL.sshsig` describes it.
//!
//! Put together here and not by the `ssh-key` crate, so that a signature of an ssh-agent goes through
//! as it is, whatever its algorithm.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ssh_key::{HashAlg, PublicKey, SshSig};

use super::KeyError;

const VERSION: u32 = 1;
const HASH: HashAlg = HashAlg::Sha512;
/// As `ssh-keygen` breaks its lines.
const LINE: usize = 70;

/// What is to be signed for a message.
pub(super) fn signed_data(namespace: &str, message: &[u8]) -> Result<Vec<u8>, KeyError> {
    Ok(SshSig::signed_data(namespace, HASH, message)?)
}

/// The whole, made of a signature in SSH's form (algorithm and value).
pub(super) fn armoured(
    public: &PublicKey,
    namespace: &str,
    signature: &[u8],
) -> Result<String, KeyError> {
    let mut blob = b"SSHSIG".to_vec();
    blob.extend(VERSION.to_be_bytes());
    for part in
        [&public.to_bytes()?, namespace.as_bytes(), &[], HASH.as_str().as_bytes(), signature]
    {
        put(&mut blob, part)?;
    }
    let mut text = String::from("-----BEGIN SSH SIGNATURE-----\n");
    for (place, letter) in STANDARD.encode(blob).chars().enumerate() {
        if place > 0 && place.is_multiple_of(LINE) {
            text.push('\n');
        }
        text.push(letter);
    }
    text.push_str("\n-----END SSH SIGNATURE-----\n");
    Ok(text)
}

/// One `string` of SSH's encoding: its length, then its bytes.
pub(super) fn put(blob: &mut Vec<u8>, part: &[u8]) -> Result<(), KeyError> {
    let length = u32::try_from(part.len()).map_err(|_| KeyError::Format)?;
    blob.extend(length.to_be_bytes());
    blob.extend(part);
    Ok(())
}

/// Takes one `string` off the front.
pub(super) fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_number(rest)?).ok()?;
    let (part, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(part)
}

/// Takes one `uint32` off the front.
pub(super) fn take_number(rest: &mut &[u8]) -> Option<u32> {
    let (number, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some(u32::from_be_bytes(*number))
}
