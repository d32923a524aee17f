//! Sealing: what is kept can be read and changed only with the key, and only in the context that it
//! was sealed for.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

/// Nothing can be sealed: the key is unusable, or there is no randomness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nothing can be sealed on this machine")]
pub struct SealError;

/// The key of an installation.
#[derive(Clone)]
pub struct SealingKey(LessSafeKey);

impl std::fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("****")
    }
}

impl SealingKey {
    /// Takes 256 random bits.
    pub fn new(key: &[u8; 32]) -> Result<Self, SealError> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, key).map_err(|_| SealError)?;
        Ok(Self(LessSafeKey::new(key)))
    }

    /// Seals bytes for a context. Each seal has a random nonce of its own: too little is written
    /// for two to meet.
    pub fn seal(&self, context: &[u8], mut bytes: Vec<u8>) -> Result<String, SealError> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(|_| SealError)?;
        self.0
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(context),
                &mut bytes,
            )
            .map_err(|_| SealError)?;
        Ok(STANDARD.encode([&nonce[..], &bytes].concat()))
    }

    /// Opens what was sealed for this context; `None` for anything else.
    #[must_use]
    pub fn open(&self, context: &[u8], sealed: &str) -> Option<Vec<u8>> {
        let bytes = STANDARD.decode(sealed).ok()?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let opened = self.0.open_in_place(nonce, Aad::from(context), &mut sealed).ok()?;
        Some(opened.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_and_the_context_open_it() {
        let key = SealingKey::new(&[7; 32]).unwrap();
        let sealed = key.seal(b"a", b"hunter2".to_vec()).unwrap();
        assert_eq!(key.open(b"a", &sealed).unwrap(), b"hunter2");
        assert_eq!(key.open(b"b", &sealed), None);
        assert_eq!(SealingKey::new(&[8; 32]).unwrap().open(b"a", &sealed), None);
        assert_ne!(key.seal(b"a", b"hunter2".to_vec()).unwrap(), sealed, "a nonce of its own");
    }

    #[test]
    fn any_change_is_noticed() {
        let key = SealingKey::new(&[7; 32]).unwrap();
        let sealed = STANDARD.decode(key.seal(b"a", b"hunter2".to_vec()).unwrap()).unwrap();
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(key.open(b"a", &STANDARD.encode(changed)), None, "byte {at}");
        }
        for broken in ["", "AAAA", "%%%"] {
            assert_eq!(key.open(b"a", broken), None, "{broken}");
        }
    }
}
