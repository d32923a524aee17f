//! Statements: what they say, and that the public half of the key confirms them.

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, KeyPair as _, UnparsedPublicKey, VerificationAlgorithm,
};
use serde_json::Value;

use super::*;

fn pem(der: &[u8], joint: &str) -> Secret<String> {
    let body = STANDARD.encode(der);
    let lines: Vec<String> =
        body.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    Secret::new(format!("{BEGIN}{joint}{}{joint}{END}{joint}", lines.join(joint)))
}

fn statement() -> Statement<'static> {
    Statement {
        client: "ci",
        audience: "https://as.example",
        id: "one".to_owned(),
        now: 1_000_000_500,
    }
}

fn decoded(part: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

/// Checks a statement, and returns the algorithm that it names.
fn check(signed: &str, algorithm: &'static dyn VerificationAlgorithm, public: &[u8]) -> String {
    let (message, signature) = signed.rsplit_once('.').unwrap();
    let (head, claims) = message.split_once('.').unwrap();
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    UnparsedPublicKey::new(algorithm, public).verify(message.as_bytes(), &signature).unwrap();
    assert_eq!(
        decoded(claims),
        json!({
            "iss": "ci", "sub": "ci", "aud": "https://as.example", "jti": "one",
            "iat": 1_000_000, "exp": 1_000_120,
        })
    );
    decoded(head)["alg"].as_str().unwrap().to_owned()
}

#[test]
fn statements_are_signed_as_the_key_can() {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let key = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
    // As it is in a file, and as it is in many a variable.
    for joint in ["\n", "\r\n", "\\n"] {
        let signed = statement().sign(&pem(document.as_ref(), joint)).unwrap();
        let public = key.public_key().as_ref();
        assert_eq!(check(signed.expose(), &ECDSA_P256_SHA256_FIXED, public), "ES256");
    }
    let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let key = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
    let signed = statement().sign(&pem(document.as_ref(), "\n")).unwrap();
    assert_eq!(check(signed.expose(), &ED25519, key.public_key().as_ref()), "EdDSA");
}

#[test]
fn what_is_no_key_is_named_but_not_shown() {
    for (text, said) in [
        ("hunter2".to_owned(), "it is no PEM"),
        (format!("{BEGIN}\nhunter2\n{END}"), "it is no PEM"),
        (format!("{BEGIN}\naHVudGVyMg==\n{END}"), "it is no PKCS#8 key"),
        ("-----BEGIN RSA PRIVATE KEY-----\nhunter2".to_owned(), "it is no PEM"),
    ] {
        let error = statement().sign(&Secret::new(text)).unwrap_err().to_string();
        assert!(error.contains(said) && !error.contains("hunter2"), "{error}");
    }
}
