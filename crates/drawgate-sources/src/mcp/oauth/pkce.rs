//! Proof Key for Code Exchange (RFC 7636) with `S256`, the only method.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use drawgate_core::secret::Secret;
use sha2::{Digest as _, Sha256};

/// What proves that the one who redeems a code is the one who asked for it.
#[derive(Debug)]
pub(super) struct Proof {
    /// Sent with the code.
    pub(super) verifier: Secret<String>,
    /// Sent ahead: the verifier's hash.
    pub(super) challenge: String,
}

impl Proof {
    /// Takes 43 to 128 random characters that can stand in an address.
    pub(super) fn new(verifier: String) -> Self {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
        Self { verifier: Secret::new(verifier), challenge }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc() {
        let proof = Proof::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned());
        assert_eq!(proof.challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        assert!(!format!("{proof:?}").contains("dBjf"));
    }
}
