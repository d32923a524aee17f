//! Logins that must not come about.

use drawgate_host::credentials::Bearer as _;
use drawgate_sources::mcp::oauth::LoginSettings;

use super::world::{Behaviour, World, browse, fields};
use super::*;

type Change = fn(&mut Behaviour);

/// Where the browser is sent back to, with the login's own state.
fn callback(begun: &PendingLogin) -> String {
    let asked = fields(&begun.url);
    format!("{}?state={}", asked["redirect_uri"], asked["state"])
}

/// What is wrong, what is said about it, and what must not have been asked for.
type Refusal = (&'static str, Change, &'static str, &'static str);

const EARLY: [Refusal; 10] = [
    ("no PKCE", |it| it.s256 = false, "does not support PKCE", "/register"),
    (
        "the metadata of another issuer",
        |it| it.issuer = Some("https://attacker.example".to_owned()),
        "are those of `https://attacker.example`",
        "/register",
    ),
    (
        "metadata of another server",
        |it| it.resource = Some("https://evil.example/mcp".to_owned()),
        "metadata are for `https://evil.example/mcp`",
        "/metadata",
    ),
    (
        "metadata of a neighbour",
        |it| it.resource = Some("http://127.0.0.1:9/mcp".to_owned()),
        "metadata are for",
        "/metadata",
    ),
    (
        "a script instead of an address",
        |it| it.authorization_endpoint = Some("javascript:alert(1)".to_owned()),
        "authorization_endpoint: `javascript:alert(1)` can't be used",
        "/register",
    ),
    (
        "a file",
        |it| it.authorization_endpoint = Some("file:///etc/passwd".to_owned()),
        "can't be used",
        "/register",
    ),
    (
        "in the clear, elsewhere",
        |it| it.authorization_endpoint = Some("http://as.example/authorize".to_owned()),
        "can't be used",
        "/register",
    ),
    (
        "a command line",
        |it| it.authorization_endpoint = Some("https://as.example/`id`\n$(id)".to_owned()),
        "can't be used",
        "/register",
    ),
    (
        "metadata behind a redirect",
        |it| it.metadata_redirect = Some("http://127.0.0.1:9/latest/meta-data".to_owned()),
        "publishes no metadata",
        "/register",
    ),
    ("no registration", |it| it.registers = false, "set `client_id`", "/register"),
];

#[tokio::test]
async fn refused_before_anybody_is_asked() {
    for (name, change, expected, never) in EARLY {
        let stage = Stage::new().await;
        stage.world.behave(change);
        let error = stage.begin().await.unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
        assert!(error.chars().all(|c| !c.is_control()), "{name}: {error:?}");
        for path in [never, "/authorize", "/token"] {
            assert_eq!(stage.world.seen(path).len(), 0, "{name}: {path}");
        }
    }
}

/// A server must not lead the gateway to others on this machine or in its network.
#[tokio::test]
async fn published_addresses_are_public_ones() {
    let stage = Stage::new().await;
    stage.host.egress.allow(Vec::new());
    let error = stage.begin().await.unwrap_err().to_string();
    let host = stage.world.issuer.trim_start_matches("http://");
    assert!(error.contains(&format!("is at `{host}`, which was refused")), "{error}");
    assert!(error.contains("`oauth.issuer` or in `[egress] allow`"), "{error}");
    assert_eq!(stage.world.paths(), ["/mcp", "/resource"], "only the server itself was asked");
    for inner in [
        "https://169.254.169.254/latest",
        "https://10.0.0.1",
        "https://[fd00:ec2::254]",
        "https://localhost:6379",
        "https://metadata.google.internal",
        "https://as.example:22",
    ] {
        stage.world.behave(|it| it.authority = Some(inner.to_owned()));
        let error = stage.begin().await.unwrap_err().to_string();
        assert!(error.contains("which was refused"), "{inner}: {error}");
    }
}

#[tokio::test]
async fn an_issuer_that_the_operator_wrote_may_be_anywhere() {
    let world = World::start().await;
    let issuer = Some(world.issuer.clone());
    let settings = LoginSettings { issuer, ..LoginSettings::default() };
    let stage = Stage::with(world, settings, TestStore::default()).await;
    stage.host.egress.allow(Vec::new());
    stage.log_in().await.unwrap();
}

#[tokio::test]
async fn redirected_metadata_are_not_fetched() {
    let trap = World::start().await;
    let stage = Stage::new().await;
    let place = format!("{}/.well-known/oauth-authorization-server", trap.issuer);
    stage.world.behave(|it| it.metadata_redirect = Some(place));
    stage.begin().await.unwrap_err();
    assert_eq!(trap.paths(), [""; 0]);
}

#[tokio::test]
async fn settings_that_do_not_fit() {
    let world = World::start().await;
    let foreign = LoginSettings {
        client_id: Some("mine".to_owned()),
        issuer: Some("https://as.example".to_owned()),
        ..LoginSettings::default()
    };
    let unset = LoginSettings {
        client_id: Some("mine".to_owned()),
        client_secret: Some("env:ABSENT".to_owned()),
        ..LoginSettings::default()
    };
    for (settings, expected) in
        [(foreign, "but the client is one of `https://as.example`"), (unset, "`ABSENT` is not set")]
    {
        let stage = Stage::with(world.clone(), settings, TestStore::default()).await;
        let error = stage.log_in().await.unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let url = "http://tools.example/mcp";
    let settings = LoginSettings::default();
    let stage = Stage::at(world.clone(), url, settings, TestStore::default()).await;
    let error = stage.log_in().await.unwrap_err();
    assert!(error.contains("would show its tokens"), "{error}");
    assert_eq!(world.seen("/token").len(), 0);
}

#[tokio::test]
async fn a_client_of_the_operator_is_not_shown_to_another_issuer() {
    let settings = LoginSettings {
        client_id: Some("mine".to_owned()),
        client_secret: Some("env:CLIENT_SECRET".to_owned()),
        ..LoginSettings::default()
    };
    let stage = Stage::with(World::start().await, settings, TestStore::default()).await;
    stage.log_in().await.unwrap();
    let other = World::start().await;
    stage.world.behave(|it| it.authority = Some(other.issuer.clone()));
    let error = stage.log_in().await.unwrap_err();
    assert!(error.contains(&stage.world.issuer) && error.contains("set `oauth.issuer`"), "{error}");
    assert_eq!(other.paths(), ["/metadata"]);
}

/// Refused by what the answer says; no code reaches the token endpoint.
#[tokio::test]
async fn answers_that_are_not_believed() {
    let rows: [(&str, Change, Option<&str>); 6] = [
        (
            "another issuer",
            |it| it.answer_issuer = Some("https://evil.example"),
            Some("does not come from the authorization server"),
        ),
        (
            "another issuer, though none was promised",
            |it| {
                it.promises_issuer = false;
                it.answer_issuer = Some("https://evil.example");
            },
            Some("does not come from the authorization server"),
        ),
        ("no issuer, though promised", |it| it.names_issuer = false, Some("does not come from")),
        (
            "no issuer and none promised",
            |it| {
                it.names_issuer = false;
                it.promises_issuer = false;
            },
            None,
        ),
        ("denied", |it| it.denies = Some("access_denied"), Some("answered `access_denied`")),
        (
            "an error that is none",
            |it| it.denies = Some("<script>alert(1)</script>"),
            Some("answered `unknown_error`"),
        ),
    ];
    for (name, change, expected) in rows {
        let stage = Stage::new().await;
        stage.world.behave(change);
        let outcome = stage.log_in().await;
        assert_eq!(stage.world.seen("/token").len(), usize::from(expected.is_none()), "{name}");
        match expected {
            None => drop(outcome.unwrap()),
            Some(expected) => {
                let error = outcome.unwrap_err();
                assert!(error.contains(expected), "{name}: {error}");
                assert_eq!(stage.login.header().await.unwrap(), None, "{name}");
            }
        }
    }
}

/// An issuer is compared as text: one more slash is another issuer.
#[tokio::test]
async fn an_issuer_is_not_normalised() {
    let stage = Stage::new().await;
    let begun = stage.begin().await.unwrap();
    let place = callback(&begun);
    let issuer = stage.world.issuer.replace(':', "%3A").replace('/', "%2F");
    browse(&format!("{place}&code=c&iss={issuer}%2F")).await;
    let error = stage.login.outcome(&begun.attempt).await.unwrap_err();
    assert!(matches!(*error, LoginError::Stranger(_)), "{error}");
}

/// What does not belong to the login is turned away, and the login goes on.
#[tokio::test]
async fn strangers_can_not_end_a_login() {
    let stage = Stage::new().await;
    stage.world.behave(|it| it.answer_state = Some("forged"));
    let begun = stage.begin().await.unwrap();
    let (status, page) = browse(&begun.url).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(page.contains("does not belong"), "{page}");
    stage.world.behave(|it| {
        it.answer_state = None;
        it.answer_path = Some("/elsewhere");
    });
    assert_eq!(browse(&begun.url).await.0, StatusCode::NOT_FOUND);
    let right = callback(&begun);
    let (place, carried) = right.split_once('?').unwrap();
    for bad in [
        format!("{place}?code=c"),
        format!("{place}?code=c&state="),
        format!("{place}?code=c&{carried}&{carried}"),
        format!("{place}?code=c&{carried}x"),
        format!("{place}/?code=c&{carried}"),
        right.replace("/callback", "/"),
        // Another name for this machine: what a page in the browser could use to get here.
        format!("{right}&code=c").replace("127.0.0.1", "localhost"),
    ] {
        let (status, _) = browse(&bad).await;
        assert!(status.is_client_error(), "{bad}: {status}");
    }
    assert_eq!(stage.world.seen("/token").len(), 0);
    stage.world.behave(|it| it.answer_path = None);
    assert_eq!(browse(&begun.url).await.0, StatusCode::OK);
    stage.login.outcome(&begun.attempt).await.unwrap();
}

#[tokio::test]
async fn a_code_that_is_refused_is_not_told() {
    let stage = Stage::new().await;
    let begun = stage.begin().await.unwrap();
    let place = callback(&begun);
    let issuer = stage.world.issuer.replace(':', "%3A").replace('/', "%2F");
    browse(&format!("{place}&code=hunter2&iss={issuer}")).await;
    let error = stage.login.outcome(&begun.attempt).await.unwrap_err().to_string();
    assert_eq!(error, "the authorization server refused the code (invalid_grant)");
}
