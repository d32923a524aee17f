//! `private_key_jwt` (RFC 7523): a client proves itself with a short statement that it signs.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use drawgate_core::secret::Secret;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::json;

use super::error::LoginError;

const KEY: &str = "the client's `private_key`";
const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";
/// How long a statement is good for: long enough for clocks that differ a little.
const LIFETIME_SECONDS: u64 = 120;

/// A key that signs.
enum Key {
    Es256(EcdsaKeyPair),
    Rs256(RsaKeyPair),
    EdDsa(Ed25519KeyPair),
}

impl Key {
    /// Reads a PKCS#8 key in PEM; its kind decides about the algorithm.
    fn read(pem: &Secret<String>) -> Result<Self, LoginError> {
        let der = der(pem.expose())
            .ok_or_else(|| LoginError::malformed(KEY, format!("it is no PEM with `{BEGIN}`")))?;
        let random = SystemRandom::new();
        if let Ok(key) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random) {
            return Ok(Self::Es256(key));
        }
        if let Ok(key) = RsaKeyPair::from_pkcs8(&der) {
            return Ok(Self::Rs256(key));
        }
        // Most programs write such keys without their public half.
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map(Self::EdDsa).map_err(|_| {
            LoginError::malformed(
                KEY,
                "it is no PKCS#8 key of P-256, RSA (2048 bits up) or Ed25519",
            )
        })
    }

    const fn algorithm(&self) -> &'static str {
        match self {
            Self::Es256(_) => "ES256",
            Self::Rs256(_) => "RS256",
            Self::EdDsa(_) => "EdDSA",
        }
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, LoginError> {
        let random = SystemRandom::new();
        let failed = |_| LoginError::malformed(KEY, "it does not sign");
        match self {
            Self::Es256(key) => Ok(key.sign(&random, message).map_err(failed)?.as_ref().to_vec()),
            Self::Rs256(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).map_err(failed)?;
                Ok(signature)
            }
            Self::EdDsa(key) => Ok(key.sign(message).as_ref().to_vec()),
        }
    }
}

/// What a statement says.
pub(super) struct Statement<'a> {
    pub(super) client: &'a str,
    /// Whom it is for: the issuer, so that no other server can use it.
    pub(super) audience: &'a str,
    /// No two statements have the same.
    pub(super) id: String,
    /// Milliseconds since the epoch.
    pub(super) now: u64,
}

impl Statement<'_> {
    /// The statement, signed.
    pub(super) fn sign(&self, pem: &Secret<String>) -> Result<Secret<String>, LoginError> {
        let key = Key::read(pem)?;
        let issued = self.now / 1000;
        let head = json!({ "alg": key.algorithm(), "typ": "JWT" });
        let claims = json!({
            "iss": self.client, "sub": self.client, "aud": self.audience, "jti": self.id,
            "iat": issued, "exp": issued.saturating_add(LIFETIME_SECONDS),
        });
        let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(head), part(claims));
        let signature = URL_SAFE_NO_PAD.encode(key.sign(message.as_bytes())?);
        Ok(Secret::new(format!("{message}.{signature}")))
    }
}

/// The bytes of a PEM. Variables often hold `\n` in place of line ends.
fn der(pem: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once(BEGIN)?;
    let (body, _) = rest.split_once(END)?;
    let text: String = body.replace("\\n", "").split_whitespace().collect();
    STANDARD.decode(text).ok()
}

#[cfg(test)]
#[path = "assertion_tests.rs"]
mod tests;
