//! An authorization server of the test's own: real keys, real HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::{Path, State};
use axum::routing::get;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(super) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A key that signs.
pub(super) enum Key {
    Rsa(Box<RsaKeyPair>),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Key {
    /// The one RSA key: `ring` makes none.
    pub(super) fn rsa() -> Self {
        let key = PrivatePkcs8KeyDer::from_pem_slice(include_bytes!("rsa.pem")).unwrap();
        Self::Rsa(Box::new(RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).unwrap()))
    }

    pub(super) fn ec() -> Self {
        let random = SystemRandom::new();
        let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        Self::Ec(EcdsaKeyPair::from_pkcs8(kind, pkcs8.as_ref(), &random).unwrap())
    }

    pub(super) fn ed() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }

    /// As it is published.
    pub(super) fn public(&self, kid: &str) -> Value {
        match self {
            Self::Rsa(key) => {
                let PublicKeyComponents { n, e } =
                    PublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({ "kty": "RSA", "kid": kid, "use": "sig", "alg": "RS256", "n": encode(n), "e": encode(e) })
            }
            Self::Ec(key) => {
                let (x, y) = key.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "kid": kid, "x": encode(x), "y": encode(y) })
            }
            Self::Ed(key) => {
                let x = encode(key.public_key());
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x, "key_ops": ["verify"] })
            }
        }
    }

    pub(super) fn sign(&self, text: &str) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature).unwrap();
                signature
            }
            Self::Ec(key) => key.sign(&random, text.as_bytes()).unwrap().as_ref().to_vec(),
            Self::Ed(key) => key.sign(text.as_bytes()).as_ref().to_vec(),
        }
    }

    /// A token with this header and these claims, as text, so that they need not be good JSON.
    pub(super) fn token(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", encode(header), encode(claims));
        let signature = encode(self.sign(&signed));
        format!("{signed}.{signature}")
    }
}

/// The server.
pub(super) struct Issuer {
    pub(super) address: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    keys: Mutex<Vec<Value>>,
    metadata: Mutex<Value>,
    looks: AtomicUsize,
}

impl Issuer {
    pub(super) async fn start(keys: Vec<Value>) -> Self {
        Self::start_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), keys)
    }

    pub(super) fn start_on(listener: TcpListener, keys: Vec<Value>) -> Self {
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared { keys: Mutex::new(keys), ..Shared::default() });
        let router = Router::new()
            .route("/jwks", get(jwks))
            .route("/{*path}", get(metadata))
            .with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, shared, task }
    }

    pub(super) fn jwks_url(&self) -> String {
        format!("http://{}/jwks", self.address)
    }

    /// Replaces the keys.
    pub(super) fn publish(&self, keys: Vec<Value>) {
        *self.shared.keys.lock() = keys;
    }

    /// Serves documents by their paths.
    pub(super) fn describe(&self, metadata: Value) {
        *self.shared.metadata.lock() = metadata;
    }

    /// How often the keys were asked for.
    pub(super) fn looks(&self) -> usize {
        self.shared.looks.load(Ordering::SeqCst)
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn jwks(State(shared): State<Arc<Shared>>) -> Json<Value> {
    shared.looks.fetch_add(1, Ordering::SeqCst);
    Json(json!({ "keys": *shared.keys.lock() }))
}

async fn metadata(
    State(shared): State<Arc<Shared>>,
    Path(path): Path<String>,
) -> Result<Json<Value>, StatusCode> {
    shared.metadata.lock().get(&path).cloned().map(Json).ok_or(StatusCode::NOT_FOUND)
}
