//! Signatures in SSHSIG form: as `ssh-keygen -Y sign` and ssh-agent make them.

use ssh_key::{Algorithm, LineEnding, PublicKey, SshSig};

const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";
/// The width of lines that the reader wants. Other writers choose others.
const WIDTH: usize = 70;
/// No signature of a key that we take comes near it.
const MAX_SIGNATURE: usize = 8 * 1024;
/// The flags and the counter at the end of a security key's signature.
const TRAILER: usize = 5;
/// The flag by which a security key says that a person touched it.
const PRESENT: u8 = 1;

/// Reads an armoured signature.
pub(super) fn read(armour: &str) -> Option<SshSig> {
    if armour.len() > MAX_SIGNATURE {
        return None;
    }
    let body = armour.trim().strip_prefix(BEGIN)?.strip_suffix(END)?;
    let body: Vec<u8> = body.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let mut pem = format!("{BEGIN}\n");
    for line in body.chunks(WIDTH) {
        pem.push_str(std::str::from_utf8(line).ok()?);
        pem.push('\n');
    }
    pem.push_str(END);
    pem.push('\n');
    let signature = SshSig::from_pem(&pem).ok()?;
    (signature.version() == SshSig::VERSION && is_exact(&signature, &pem)).then_some(signature)
}

/// Whether it was written as it must be: the reader forgives wrong lengths of parts.
fn is_exact(signature: &SshSig, pem: &str) -> bool {
    // The writer can't write this one.
    signature.algorithm() == Algorithm::SkEcdsaSha2NistP256
        || signature.to_pem(LineEnding::LF).is_ok_and(|again| again == pem)
}

/// Whether it is this key's signature over the text, for this use. RSA with SHA-1 is none.
pub(super) fn is_valid(key: &PublicKey, namespace: &str, text: &str, signature: &SshSig) -> bool {
    let fits = match (key.algorithm(), signature.algorithm()) {
        (Algorithm::Rsa { .. }, Algorithm::Rsa { hash }) => hash.is_some(),
        (Algorithm::SkEd25519 | Algorithm::SkEcdsaSha2NistP256, made) => {
            made == key.algorithm() && is_touched(signature)
        }
        (expected, made) => expected == made,
    };
    fits && key.verify(namespace, text.as_bytes(), signature).is_ok()
}

fn is_touched(signature: &SshSig) -> bool {
    let bytes = signature.signature_bytes();
    let flags = bytes.len().checked_sub(TRAILER).and_then(|at| bytes.get(at));
    flags.is_some_and(|flags| flags & PRESENT != 0)
}

#[cfg(test)]
#[path = "signature_tests.rs"]
mod tests;
