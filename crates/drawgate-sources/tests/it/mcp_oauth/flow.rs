//! Logins that succeed: discovery, registration, scopes, what is sent and what is kept.

use drawgate_core::store::Documents as _;
use drawgate_host::credentials::Bearer as _;
use drawgate_sources::mcp::oauth::{LoginSettings, LoginState};
use serde_json::Value;

use super::world::{World, basic, fields};
use super::*;

#[tokio::test]
async fn a_whole_login() {
    let stage = Stage::new().await;
    let Stage { world, login, .. } = &stage;
    assert_eq!(login.header().await.unwrap(), None);
    assert_eq!(login.state(), LoginState::None);
    let summary = stage.log_in().await.unwrap();
    assert_eq!((&summary.issuer, summary.renewable), (&world.issuer, true));
    assert!(matches!(login.state(), LoginState::Active(_)));
    assert!(stage.header().await.to_str().unwrap().starts_with("Bearer access-"));
    assert_eq!(
        world.paths(),
        ["/mcp", "/resource", "/metadata", "/register", "/authorize", "/token"]
    );
    let asked = &world.seen("/authorize")[0];
    assert_eq!(asked["response_type"], "code");
    assert_eq!(asked["code_challenge_method"], "S256");
    assert_eq!(asked["resource"], world.url());
    assert!(asked["state"].len() >= 43 && asked["code_challenge"].len() == 43);
    assert!(asked["redirect_uri"].starts_with("http://127.0.0.1:"));
    assert!(!asked.contains_key("scope") && !asked.contains_key("prompt"));
    let redeemed = &world.seen("/token")[0];
    assert_eq!(redeemed["resource"], asked["resource"]);
    assert_eq!(redeemed["redirect_uri"], asked["redirect_uri"]);
    assert_eq!(redeemed["client_id"], asked["client_id"]);
    let registered: Value = serde_json::from_str(&world.seen("/register")[0]["body"]).unwrap();
    assert_eq!(registered["application_type"], "native");
    assert_eq!(
        registered["grant_types"],
        serde_json::json!(["authorization_code", "refresh_token"])
    );
    assert_eq!(registered["redirect_uris"][0], asked["redirect_uri"].as_str());
}

#[tokio::test]
async fn a_login_outlives_the_process_and_is_sealed() {
    let stage = Stage::new().await;
    stage.log_in().await.unwrap();
    let header = stage.header().await;
    let documents = stage.store.documents("oauth").await.unwrap();
    let stored = format!("{documents:?}");
    assert!(stored.contains(&stage.world.issuer), "{stored}");
    for secret in stage.world.given() {
        assert!(!stored.contains(&secret), "{stored}");
    }
    let known = stage.host.secrets.known_values();
    let tokens = stage.world.given().into_iter().filter(|text| !text.starts_with("code"));
    for secret in tokens {
        assert!(known.contains(&secret), "{secret} is masked");
    }
    let again = stage.restarted().await;
    assert_eq!(again.header().await, header);
}

#[tokio::test]
async fn tokens_go_to_no_other_address_and_open_with_no_other_name() {
    let stage = Stage::new().await;
    stage.log_in().await.unwrap();
    let elsewhere = format!("{}/other", stage.world.origin);
    let (world, store) = (stage.world.clone(), stage.store.clone());
    let moved = Stage::at(world, &elsewhere, LoginSettings::default(), store.clone()).await;
    assert_eq!(moved.login.header().await.unwrap(), None);
    let (_, document) = store.documents("oauth").await.unwrap().remove(0);
    for change in ["issuer", "sealed"] {
        let mut changed = document.clone();
        changed[change] = format!("{}x", changed[change].as_str().unwrap()).into();
        store.put_document("oauth", "far", &changed).await.unwrap();
        let (world, settings) = (stage.world.clone(), LoginSettings::default());
        let opened = Stage::with(world, settings, store.clone()).await;
        assert_eq!(opened.login.header().await.unwrap(), None, "{change}");
    }
}

#[tokio::test]
async fn a_second_login_uses_the_same_client_unless_the_issuer_changed() {
    let stage = Stage::new().await;
    stage.log_in().await.unwrap();
    stage.log_in().await.unwrap();
    assert_eq!(stage.world.seen("/register").len(), 1);
    let asked = stage.world.seen("/authorize");
    assert_eq!(asked[0]["client_id"], asked[1]["client_id"]);
    assert_ne!(asked[0]["state"], asked[1]["state"]);
    assert_ne!(asked[0]["code_challenge"], asked[1]["code_challenge"]);
    // The protected server now trusts another authorization server.
    let other = World::start().await;
    let (url, settings) = (stage.world.url(), LoginSettings::default());
    let moved = Stage::at(stage.world.clone(), &url, settings, stage.store.clone()).await;
    moved.world.behave(|it| it.authority = Some(other.issuer.clone()));
    moved.log_in().await.unwrap();
    assert_eq!(other.seen("/register").len(), 1);
    let LoginState::Active(summary) = moved.login.state() else { panic!("no login") };
    assert_eq!(summary.issuer, other.issuer);
}

#[tokio::test]
async fn clients_are_configured_described_or_registered_in_this_order() {
    let settings = |id: Option<&str>, secret: Option<&str>, document: Option<&str>| LoginSettings {
        client_id: id.map(str::to_owned),
        client_secret: secret.map(str::to_owned),
        client_metadata_url: document.map(str::to_owned),
        ..LoginSettings::default()
    };
    let document = Some("https://drawgate.example/client.json");
    for (settings, documents, registered, client) in [
        (settings(Some("mine"), None, document), true, 0, "mine"),
        (settings(None, None, document), true, 0, "https://drawgate.example/client.json"),
        (settings(None, None, document), false, 1, "client-1"),
        (settings(None, None, None), true, 1, "client-1"),
    ] {
        let world = World::start().await;
        world.behave(|it| it.takes_documents = documents);
        let stage = Stage::with(world, settings, TestStore::default()).await;
        stage.log_in().await.unwrap();
        assert_eq!(stage.world.seen("/register").len(), registered);
        assert_eq!(stage.world.seen("/authorize")[0]["client_id"], client);
    }
}

#[tokio::test]
async fn a_client_proves_itself_as_the_server_wants() {
    for (method, configured) in [
        ("none", false),
        ("client_secret_basic", false),
        ("client_secret_post", false),
        ("client_secret_basic", true),
        ("client_secret_post", true),
    ] {
        let world = World::start().await;
        world.behave(|it| it.methods = vec![method]);
        let settings = LoginSettings {
            client_id: configured.then(|| "my client".to_owned()),
            client_secret: configured.then(|| "env:CLIENT_SECRET".to_owned()),
            ..LoginSettings::default()
        };
        let stage = Stage::with(world, settings, TestStore::default()).await;
        stage.log_in().await.unwrap();
        let sent = stage.world.seen("/token").remove(0);
        let secret = |given: &str| {
            assert_eq!(given == "s3cret/value", configured, "{method}");
            assert_eq!(given.starts_with("secret-"), !configured, "{method}");
        };
        match method {
            "none" => {
                assert!(!sent.contains_key("client_secret") && !sent.contains_key("authorization"));
            }
            "client_secret_post" => secret(&sent["client_secret"]),
            _ => {
                let (client, given) = basic(&sent["authorization"]);
                assert!(!sent.contains_key("client_secret") && !sent.contains_key("client_id"));
                assert_eq!(client == "my client", configured);
                secret(&given);
            }
        }
    }
}

#[tokio::test]
async fn scopes_are_those_that_the_servers_name() {
    type Change = fn(&mut super::world::Behaviour);
    let rows: [(Change, &[&str], Option<&str>); 5] = [
        (|_| {}, &[], None),
        (|it| it.resource_scopes = Some(vec!["a", "b"]), &[], Some("a b")),
        (
            |it| {
                it.resource_scopes = Some(vec!["a", "b"]);
                it.challenged = Some("c");
            },
            &[],
            Some("c"),
        ),
        (
            |it| {
                it.challenged = Some("c");
                it.scopes = vec!["c", "offline_access"];
            },
            &[],
            Some("c offline_access"),
        ),
        (|it| it.challenged = Some("c"), &["mine"], Some("mine")),
    ];
    for (change, configured, expected) in rows {
        let world = World::start().await;
        world.behave(change);
        let scopes = configured.iter().map(|scope| (*scope).to_owned()).collect();
        let settings = LoginSettings { scopes, ..LoginSettings::default() };
        let stage = Stage::with(world, settings, TestStore::default()).await;
        stage.log_in().await.unwrap();
        let asked = stage.world.seen("/authorize").remove(0);
        assert_eq!(asked.get("scope").map(String::as_str), expected);
        let offline = expected.is_some_and(|scope| scope.contains("offline"));
        assert_eq!(asked.get("prompt").map(String::as_str), offline.then_some("consent"));
    }
}

#[tokio::test]
async fn a_step_up_asks_for_what_there_was_and_what_was_lacking() {
    let stage = Stage::new().await;
    stage.world.behave(|it| it.challenged = Some("basic"));
    stage.log_in().await.unwrap();
    let refused = "Bearer error=\"insufficient_scope\", scope=\"write\"";
    let needed = stage.rejected(403, refused).await.unwrap_err();
    assert_eq!(
        needed,
        "the login at `far` does not allow this, which needs the scope `write`; the gateway's operator must log in again"
    );
    assert!(matches!(stage.login.state(), LoginState::Lacking(_)));
    assert!(stage.header().await.to_str().unwrap().starts_with("Bearer "), "the rest still works");
    // What was lacking is known after a restart too.
    let stage = stage.restarted().await;
    stage.log_in().await.unwrap();
    assert_eq!(stage.world.seen("/authorize")[1]["scope"], "basic write");
    assert!(matches!(stage.login.state(), LoginState::Active(_)));
    assert_eq!(
        stage.rejected(403, "Bearer").await,
        Ok(false),
        "another refusal is no matter of login"
    );
}

#[tokio::test]
async fn older_servers_are_their_own_authority() {
    let world = World::start().await;
    world.behave(|it| {
        it.has_metadata = false;
        it.names_metadata = false;
    });
    // The authorization server itself, taken for a protected one: it has metadata at its root.
    let url = format!("{}/mcp", world.issuer);
    let stage = Stage::at(world, &url, LoginSettings::default(), TestStore::default()).await;
    stage.log_in().await.unwrap();
    assert_eq!(stage.world.seen("/authorize")[0]["resource"], url);
    // One without any metadata has the usual paths.
    let world = World::start().await;
    world.behave(|it| it.metadata_redirect = Some("http://127.0.0.1:9/".to_owned()));
    let url = format!("{}/mcp", world.issuer);
    let stage = Stage::at(world, &url, LoginSettings::default(), TestStore::default()).await;
    let begun = stage.begin().await.unwrap();
    assert!(begun.url.starts_with(&format!("{}/authorize?", stage.world.issuer)), "{}", begun.url);
}

#[tokio::test]
async fn a_login_that_can_not_be_written_down_is_none() {
    let stage = Stage::new().await;
    for break_it in [TestStore::break_log, TestStore::break_state] {
        let begun = stage.begin().await.unwrap();
        break_it(&stage.store, true);
        browse(&begun.url).await;
        let error = stage.login.outcome(&begun.attempt).await.unwrap_err();
        assert!(error.to_string().starts_with("nothing was changed"), "{error}");
        break_it(&stage.store, false);
        assert_eq!(stage.login.header().await.unwrap(), None);
        assert_eq!(stage.store.documents("oauth").await.unwrap(), []);
    }
    stage.log_in().await.unwrap();
    for break_it in [TestStore::break_log, TestStore::break_state] {
        break_it(&stage.store, true);
        stage.login.log_out(&Principal::local()).await.unwrap_err();
        break_it(&stage.store, false);
        assert!(stage.login.header().await.unwrap().is_some(), "a logout that failed is none");
    }
    assert!(stage.login.log_out(&Principal::local()).await.unwrap());
}

#[tokio::test]
async fn a_second_attempt_ends_the_first() {
    let stage = Stage::new().await;
    let first = stage.begin().await.unwrap();
    let second = stage.begin().await.unwrap();
    assert_ne!(fields(&first.url)["state"], fields(&second.url)["state"]);
    let error = stage.login.outcome(&first.attempt).await.unwrap_err();
    assert!(matches!(*error, LoginError::NoAttempt));
    browse(&second.url).await;
    stage.login.outcome(&second.attempt).await.unwrap();
}

#[tokio::test]
async fn logging_out_gives_tokens_back_and_forgets_them() {
    let stage = Stage::new().await;
    stage.log_in().await.unwrap();
    assert!(stage.login.log_out(&Principal::local()).await.unwrap());
    assert!(stage.world.seen("/revoke")[0]["token"].starts_with("refresh-"));
    assert_eq!(stage.login.header().await.unwrap(), None);
    assert_eq!(stage.store.documents("oauth").await.unwrap(), []);
    assert!(!stage.login.log_out(&Principal::local()).await.unwrap());
}
