//! A published set of keys (RFC 7517), and signatures checked with them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use drawgate_core::json::{self, JsonError};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde_json::{Map, Value};

use super::jwt::{Rejection, Unverified};
use crate::config::Algorithm;

/// Servers publish two or three keys; this many are a mistake.
const MAX_KEYS: usize = 64;
/// Bytes of a coordinate on P-256, and of an Ed25519 key.
const COORDINATE: usize = 32;

/// Why a document is no set of keys.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeySetError {
    /// Not JSON.
    #[error("the key set is not JSON: {0}")]
    Json(#[source] JsonError),
    /// No array `keys`.
    #[error("the key set has no `keys`")]
    Form,
    /// Far more than a server needs.
    #[error("the key set has more than {MAX_KEYS} keys")]
    TooMany,
}

/// The keys that can be used here.
#[derive(Debug, Default)]
pub(super) struct KeySet(Vec<Key>);

#[derive(Debug)]
pub(super) struct Key {
    name: Option<String>,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256([u8; 1 + 2 * COORDINATE]),
    Ed25519([u8; COORDINATE]),
}

impl KeySet {
    /// Reads a set. Keys of other kinds and for other uses are passed over.
    pub(super) fn parse(text: &[u8]) -> Result<Self, KeySetError> {
        let document = json::parse(text).map_err(KeySetError::Json)?;
        let keys = document.get("keys").and_then(Value::as_array).ok_or(KeySetError::Form)?;
        if keys.len() > MAX_KEYS {
            return Err(KeySetError::TooMany);
        }
        Ok(Self(keys.iter().filter_map(Value::as_object).filter_map(key).collect()))
    }

    /// The key of a token: the one of its name and kind, or the only one of its kind if the token
    /// names none.
    pub(super) fn find(&self, token: &Unverified<'_>) -> Option<&Key> {
        let mut of_kind = self.0.iter().filter(|key| key.algorithm() == token.algorithm);
        match &token.key {
            Some(name) => of_kind.find(|key| key.name.as_ref() == Some(name)),
            None => of_kind.next().filter(|_| of_kind.next().is_none()),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Key {
    /// The kind of key decides what is computed, not the token.
    const fn algorithm(&self) -> Algorithm {
        match self.material {
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::P256(_) => Algorithm::Es256,
            Material::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    /// Checks a token's signature.
    pub(super) fn verify(&self, token: &Unverified<'_>) -> Result<(), Rejection> {
        let (signed, signature) = (token.signed, token.signature.as_slice());
        let checked = match &self.material {
            Material::Rsa { n, e } => RsaPublicKeyComponents { n, e }.verify(
                &RSA_PKCS1_2048_8192_SHA256,
                signed,
                signature,
            ),
            Material::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature)
            }
            Material::Ed25519(point) => {
                UnparsedPublicKey::new(&ED25519, point).verify(signed, signature)
            }
        };
        checked.map_err(|_| Rejection::Signature)
    }
}

fn key(map: &Map<String, Value>) -> Option<Key> {
    let text = |name: &str| map.get(name).and_then(Value::as_str);
    let signs = map.get("use").is_none_or(|it| it == "sig")
        && map.get("key_ops").is_none_or(|it| {
            it.as_array().is_some_and(|all| all.iter().any(|one| one == "verify"))
        });
    let material = match (text("kty")?, text("crv")) {
        ("RSA", _) => Material::Rsa { n: number(map, "n")?, e: number(map, "e")? },
        ("EC", Some("P-256")) => {
            let mut point = [4; 1 + 2 * COORDINATE];
            let (x, y) = point.get_mut(1..)?.split_at_mut(COORDINATE);
            x.copy_from_slice(&coordinate(map, "x")?);
            y.copy_from_slice(&coordinate(map, "y")?);
            Material::P256(point)
        }
        ("OKP", Some("Ed25519")) => Material::Ed25519(coordinate(map, "x")?),
        _ => return None,
    };
    let key = Key { name: text("kid").map(str::to_owned), material };
    let meant = map.get("alg").is_none_or(|it| it == key.algorithm().as_str());
    (signs && meant).then_some(key)
}

/// A big-endian number; zeros before it, which some servers write, are not part of it.
fn number(map: &Map<String, Value>, name: &str) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(map.get(name)?.as_str()?).ok()?;
    Some(bytes.into_iter().skip_while(|byte| *byte == 0).collect())
}

fn coordinate(map: &Map<String, Value>, name: &str) -> Option<[u8; COORDINATE]> {
    URL_SAFE_NO_PAD.decode(map.get(name)?.as_str()?).ok()?.try_into().ok()
}
