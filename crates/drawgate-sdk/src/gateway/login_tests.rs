//! What a gateway must show before anything is signed for it.

use super::*;
use ssh_key::private::{Ed25519Keypair, PrivateKey};

const NONCE: &str = "ours";

fn gateway() -> Gateway {
    Gateway::at("http://127.0.0.1:7700").unwrap()
}

fn server_key(number: u8) -> PrivateKey {
    PrivateKey::from(Ed25519Keypair::from_seed(&[number; 32]))
}

fn identity(key: &PrivateKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

/// What an honest gateway with this key answers, but for these words.
fn challenge(key: &PrivateKey, namespace: &str, statement: &str) -> ChallengeResponse {
    let signature = key.sign(namespace, HashAlg::Sha512, statement.as_bytes()).unwrap();
    ChallengeResponse {
        nonce: "theirs".to_owned(),
        server: identity(key),
        expires_in_seconds: 60,
        server_signature: signature.to_pem(ssh_key::LineEnding::LF).unwrap(),
    }
}

fn honest(key: &PrivateKey) -> ChallengeResponse {
    challenge(key, SERVER_NAMESPACE, &server_statement("127.0.0.1:7700", "theirs", NONCE))
}

#[test]
fn the_gateway_that_is_meant_is_accepted() {
    let key = server_key(1);
    assert_eq!(check_server(&gateway(), &honest(&key), NONCE), Ok(()));
    let pinned = gateway().identity(identity(&key));
    assert_eq!(check_server(&pinned, &honest(&key), NONCE), Ok(()));
}

#[test]
fn any_other_is_not() {
    let key = server_key(1);
    let pinned = gateway().identity(identity(&key));
    let claimed = ChallengeResponse { server: identity(&key), ..honest(&server_key(2)) };
    let mut unsigned = honest(&key);
    unsigned.server_signature.clear();
    let cases = [
        ("another key", honest(&server_key(2))),
        ("another key that claims to be it", claimed),
        ("no signature", unsigned),
        (
            "another namespace",
            challenge(&key, LOGIN_NAMESPACE, &server_statement("127.0.0.1:7700", "theirs", NONCE)),
        ),
        (
            "another authority",
            challenge(&key, SERVER_NAMESPACE, &server_statement("127.0.0.1:7701", "theirs", NONCE)),
        ),
        (
            "another challenge",
            challenge(&key, SERVER_NAMESPACE, &server_statement("127.0.0.1:7700", "old", NONCE)),
        ),
        (
            "another client",
            challenge(&key, SERVER_NAMESPACE, &server_statement("127.0.0.1:7700", "theirs", "x")),
        ),
    ];
    for (case, challenge) in cases {
        assert!(check_server(&pinned, &challenge, NONCE).is_err(), "{case}");
    }
}

#[test]
fn a_nonce_is_long_and_never_the_same() {
    let (one, other) = (nonce().unwrap(), nonce().unwrap());
    assert_eq!(one.len(), 64);
    assert_ne!(one, other);
}
