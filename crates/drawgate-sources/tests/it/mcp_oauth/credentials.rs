//! Tokens without a person: both proofs, one request for many, new tokens in time, and credentials
//! that are not taken.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use drawgate_core::store::Documents as _;
use drawgate_host::credentials::Bearer as _;
use drawgate_sources::mcp::oauth::{Grant, LoginState};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
    UnparsedPublicKey,
};
use serde_json::Value;

use super::world::basic;
use super::*;

const REFUSED: &str = "there is no token for `far`: the authorization server refused the client's credentials (invalid_client); check `servers.far.oauth`";

pub(super) fn settings() -> LoginSettings {
    LoginSettings {
        grant: Grant::ClientCredentials,
        client_id: Some("ci".to_owned()),
        client_secret: Some("env:CLIENT_SECRET".to_owned()),
        ..LoginSettings::default()
    }
}

/// A world for programs only: nobody could agree there, nor register.
pub(super) async fn world() -> World {
    let world = World::start().await;
    world.behave(|it| {
        it.s256 = false;
        it.registers = false;
        it.methods = vec!["client_secret_basic"];
        it.client_secret = Some("s3cret/value");
    });
    world
}

async fn stage() -> Stage {
    Stage::with(world().await, settings(), TestStore::default()).await
}

#[tokio::test]
async fn a_token_is_got_when_it_is_first_needed() {
    let stage = stage().await;
    stage.world.behave(|it| {
        it.resource_scopes = Some(vec!["read", "write"]);
        it.scopes = vec!["read", "offline_access"];
    });
    assert_eq!(stage.login.state(), LoginState::None);
    assert!(stage.world.paths().is_empty(), "nothing is asked before");
    let header = stage.header().await;
    assert!(header.to_str().unwrap().starts_with("Bearer access-"));
    assert_eq!(stage.header().await, header);
    assert_eq!(stage.world.paths(), ["/mcp", "/resource", "/metadata", "/token"]);
    let sent = stage.world.seen("/token").remove(0);
    assert_eq!(sent["grant_type"], "client_credentials");
    assert_eq!((&sent["resource"], sent["scope"].as_str()), (&stage.world.url(), "read write"));
    assert_eq!(basic(&sent["authorization"]), ("ci".to_owned(), "s3cret/value".to_owned()));
    assert!(!sent.contains_key("client_secret"));
    let LoginState::Active(summary) = stage.login.state() else { panic!("no login") };
    assert!(summary.renewable && summary.client_id == "ci");
}

#[tokio::test]
async fn the_secret_goes_into_the_form_where_the_server_wants_it() {
    let stage = stage().await;
    stage.world.behave(|it| it.methods = vec!["client_secret_post"]);
    stage.header().await;
    let sent = stage.world.seen("/token").remove(0);
    assert_eq!(
        (sent["client_id"].as_str(), sent["client_secret"].as_str()),
        ("ci", "s3cret/value")
    );
    assert!(!sent.contains_key("authorization"));
}

#[tokio::test]
async fn a_key_signs_for_the_issuer() {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let key = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
    let body = STANDARD.encode(document.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
    let world = world().await;
    world.behave(|it| it.client_secret = None);
    let settings = LoginSettings {
        client_secret: None,
        private_key: Some("env:CLIENT_KEY".to_owned()),
        ..settings()
    };
    let environment = BTreeMap::from([("CLIENT_KEY".to_owned(), pem)]);
    let url = world.url();
    let stage = Stage::in_environment(environment, world, &url, settings, TestStore::default());
    let stage = stage.await;
    stage.header().await;
    stage.clock.advance(3_600_000);
    stage.header().await;
    let mut used = Vec::new();
    for sent in stage.world.seen("/token") {
        assert_eq!(
            sent["client_assertion_type"],
            "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        );
        let (message, signature) = sent["client_assertion"].rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.public_key().as_ref());
        public.verify(message.as_bytes(), &signature).unwrap();
        let claims = URL_SAFE_NO_PAD.decode(message.split_once('.').unwrap().1).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        assert_eq!(
            (&claims["aud"], &claims["iss"], &claims["sub"]),
            (&Value::from(stage.world.issuer.as_str()), &"ci".into(), &"ci".into())
        );
        used.push(claims["jti"].as_str().unwrap().to_owned());
    }
    assert_eq!(used.len(), 2);
    assert_ne!(used[0], used[1], "no statement is used twice");
}

#[tokio::test]
async fn a_new_token_comes_before_the_old_one_ends_and_once_for_many() {
    let stage = stage().await;
    let mut seen = Vec::new();
    for _ in 0..2 {
        let mut asking = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let login = Arc::clone(&stage.login);
            asking.spawn(async move { login.header().await.unwrap().unwrap() });
        }
        let mut headers = asking.join_all().await;
        assert!(headers.windows(2).all(|pair| pair[0] == pair[1]));
        seen.push(headers.remove(0));
        stage.clock.advance(3_541_000);
    }
    assert_ne!(seen[0], seen[1]);
    let asked = stage.world.seen("/token");
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|form| form["grant_type"] == "client_credentials"));
    // The authorization server is away: what is not over yet serves.
    stage.world.behave(|it| it.token_status = Some(503));
    assert_eq!(stage.header().await, seen[1]);
    stage.clock.advance(60_000);
    let needed = stage.login.header().await.unwrap_err().to_string();
    assert!(needed.contains("try again later"), "{needed}");
    stage.world.behave(|it| it.token_status = None);
    stage.clock.advance(5_000);
    assert_ne!(stage.header().await, seen[1]);
}

#[tokio::test]
async fn a_refused_token_is_replaced_once() {
    let stage = stage().await;
    let first = stage.header().await;
    assert_eq!(stage.rejected(401, "Bearer").await, Ok(true));
    assert_ne!(stage.header().await, first);
    for attempt in [Try::Again, Try::First] {
        let needed = stage.rejected_at(attempt, 401, "Bearer").await.unwrap_err();
        assert!(needed.contains("does not take the tokens"), "{needed}");
    }
    assert_eq!(stage.world.seen("/token").len(), 2);
    assert!(matches!(stage.login.state(), LoginState::Refused { .. }));
}

#[tokio::test]
async fn wrong_credentials_are_not_tried_again_and_again() {
    let stage = stage().await;
    stage.world.behave(|it| it.client_secret = Some("another"));
    for _ in 0..3 {
        assert_eq!(stage.login.header().await.unwrap_err().to_string(), REFUSED);
        stage.clock.advance(10_000);
    }
    assert_eq!(stage.world.seen("/token").len(), 1);
    assert_eq!(stage.login.state(), LoginState::Refused { reason: REFUSED.to_owned() });
    stage.world.behave(|it| it.client_secret = Some("s3cret/value"));
    stage.clock.advance(30_000);
    stage.header().await;
    assert!(matches!(stage.login.state(), LoginState::Active(_)));
}

#[tokio::test]
async fn a_missing_variable_is_named() {
    let settings = LoginSettings { client_secret: Some("env:ABSENT".to_owned()), ..settings() };
    let stage = Stage::with(world().await, settings, TestStore::default()).await;
    let needed = stage.login.header().await.unwrap_err().to_string();
    assert!(needed.contains("`ABSENT` is not set"), "{needed}");
    assert!(stage.world.seen("/token").is_empty());
}

#[tokio::test]
async fn a_scope_that_is_lacking_is_the_operators_choice() {
    let stage = stage().await;
    let refused = "Bearer error=\"insufficient_scope\", scope=\"write\"";
    assert_eq!(
        stage.rejected(403, refused).await.unwrap_err(),
        "the token for `far` does not allow this, which needs the scope `write`; add it to `scopes` in `servers.far.oauth`"
    );
    assert_eq!(stage.world.seen("/token").len(), 1);
}

#[tokio::test]
async fn credentials_stay_with_their_issuer_and_tokens_in_memory() {
    let stage = stage().await;
    let first = stage.header().await;
    for token in stage.world.given().iter().filter(|text| text.starts_with("access")) {
        assert!(stage.host.secrets.known_values().contains(token), "{token} is masked");
    }
    let other = world().await;
    let stage = Stage::with(stage.world, settings(), stage.store).await;
    assert_ne!(stage.header().await, first, "no token outlives the process");
    stage.world.behave(|it| it.authority = Some(other.issuer.clone()));
    let stage = Stage::with(stage.world, settings(), stage.store).await;
    let needed = stage.login.header().await.unwrap_err().to_string();
    assert!(needed.contains("but the client is one of"), "{needed}");
    assert!(other.seen("/token").is_empty(), "the secret went nowhere else");
    let stored = format!("{:?}", stage.store.documents("oauth").await.unwrap());
    assert!(!stored.contains("s3cret"), "{stored}");
}

#[tokio::test]
async fn a_person_has_nothing_to_do_and_a_persons_tokens_are_not_used() {
    let stage = Stage::new().await;
    stage.log_in().await.unwrap();
    let personal = stage.header().await;
    stage.world.behave(|it| it.methods = vec!["client_secret_basic"]);
    let stage = Stage::with(stage.world, settings(), stage.store).await;
    assert_ne!(stage.header().await, personal);
    let none = "`far` needs no login by a person: the gateway gets its tokens by itself, as the client in `servers.far.oauth`";
    assert_eq!(stage.begin().await.unwrap_err().to_string(), none);
    assert_eq!(stage.login.log_out(&Principal::local()).await.unwrap_err().to_string(), none);
}
