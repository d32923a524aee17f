use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::routing::get;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use drawgate_core::testing::TestClock;
use drawgate_host::secrets::Secrets;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::json;

use super::*;
use crate::config::Algorithm;

/// An issuer that publishes the keys of these names, all of the same pair.
struct Issuer {
    pair: Ed25519KeyPair,
    published: Arc<parking_lot::Mutex<Vec<&'static str>>>,
    looks: Arc<AtomicUsize>,
    clock: Arc<TestClock>,
    keys: Arc<Keys>,
}

impl Issuer {
    async fn start() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
        let (published, looks) =
            (Arc::new(parking_lot::Mutex::new(vec!["first"])), Arc::<AtomicUsize>::default());
        let answer = {
            let x = URL_SAFE_NO_PAD.encode(pair.public_key());
            let (published, looks) = (Arc::clone(&published), Arc::clone(&looks));
            move || async move {
                looks.fetch_add(1, Ordering::SeqCst);
                if published.lock().is_empty() {
                    return Err(StatusCode::SERVICE_UNAVAILABLE);
                }
                let key = |kid| json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x });
                let keys: Vec<Value> = published.lock().iter().map(key).collect();
                Ok(Json(json!({ "keys": keys })))
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/jwks", listener.local_addr().unwrap());
        let router = Router::new().route("/jwks", get(answer));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let clock = Arc::new(TestClock::default());
        let mut host = Host::new(Secrets::new(BTreeMap::new()), None).unwrap();
        host.clock = clock.clone();
        let auth = json!({ "issuer": "https://login.example", "jwks_url": url });
        let keys = Keys::new(&serde_json::from_value(auth).unwrap(), Arc::new(host));
        Self { pair, published, looks, clock, keys }
    }

    async fn verify(&self, kid: &str) -> Result<(), Unauthenticated> {
        let header = json!({ "alg": "EdDSA", "kid": kid }).to_string();
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode("{}"));
        let signature = URL_SAFE_NO_PAD.encode(self.pair.sign(signed.as_bytes()));
        let token = format!("{signed}.{signature}");
        self.keys.verify(&Unverified::read(&token, &[Algorithm::EdDsa]).unwrap()).await
    }

    fn looks(&self) -> usize {
        self.looks.load(Ordering::SeqCst)
    }
}

const NO_KEY: Result<(), Unauthenticated> = Err(Unauthenticated::Rejected(Rejection::Key));

#[tokio::test]
async fn unknown_keys_are_looked_for_once_in_a_while() {
    let issuer = Issuer::start().await;
    assert_eq!(issuer.verify("first").await, Ok(()));
    assert_eq!(issuer.verify("wrong").await, NO_KEY);
    assert_eq!(issuer.looks(), 2);
    issuer.published.lock().push("second");
    issuer.clock.advance(PAUSE_MS - 1);
    assert_eq!(issuer.verify("second").await, NO_KEY);
    assert_eq!(issuer.looks(), 2);
    issuer.clock.advance(1);
    assert_eq!(issuer.verify("second").await, Ok(()));
    assert_eq!(issuer.verify("first").await, Ok(()));
    assert_eq!(issuer.looks(), 3);
}

#[tokio::test]
async fn a_withdrawn_key_ends() {
    let issuer = Issuer::start().await;
    assert_eq!(issuer.verify("first").await, Ok(()));
    *issuer.published.lock() = vec!["second"];
    issuer.clock.advance(MAX_AGE_MS - 1);
    assert_eq!(issuer.verify("first").await, Ok(()));
    assert_eq!(issuer.looks(), 1);
    issuer.clock.advance(1);
    // Nobody waits for the new set; it is there a little later.
    while issuer.verify("first").await == Ok(()) {
        tokio::task::yield_now().await;
    }
    assert_eq!(issuer.verify("first").await, NO_KEY);
    assert_eq!(issuer.verify("second").await, Ok(()));
    assert_eq!(issuer.looks(), 2);
}

#[tokio::test]
async fn keys_that_can_not_be_renewed_end_after_a_day() {
    let issuer = Issuer::start().await;
    assert_eq!(issuer.verify("first").await, Ok(()));
    issuer.published.lock().clear();
    issuer.clock.advance(END_OF_LIFE_MS - 1);
    assert_eq!(issuer.verify("first").await, Ok(()));
    issuer.clock.advance(1);
    assert_eq!(issuer.verify("first").await, Err(Unauthenticated::NoKeys));
    issuer.published.lock().push("first");
    issuer.clock.advance(PAUSE_MS);
    assert_eq!(issuer.verify("first").await, Ok(()));
}

#[test]
fn metadata_is_looked_for_by_both_standards() {
    let root = [
        "https://a.example/.well-known/oauth-authorization-server",
        "https://a.example/.well-known/openid-configuration",
    ];
    assert_eq!(metadata_urls("https://a.example"), root);
    assert_eq!(metadata_urls("https://a.example/"), root);
    let below = [
        "https://a.example/.well-known/oauth-authorization-server/realms/x",
        "https://a.example/.well-known/openid-configuration/realms/x",
        "https://a.example/realms/x/.well-known/openid-configuration",
    ];
    assert_eq!(metadata_urls("https://a.example/realms/x"), below);
}
