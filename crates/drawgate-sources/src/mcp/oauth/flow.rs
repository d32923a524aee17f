//! One login from the beginning to the tokens: discovery, client, the address for the browser, the
//! answer's checks, the exchange.

use drawgate_core::secret::Secret;

use super::address::{Address, shown};
use super::discovery::{self, Found};
use super::error::{LoginError, code};
use super::fetch::Target;
use super::form;
use super::listener::{Listener, Port};
use super::login::{Grant, Shared};
use super::pkce::Proof;
use super::registration::{Choice, Client};
use super::scopes::Known;
use super::stored_login::StoredLogin;
use super::tokens::{Counter, Tokens};

/// A login that waits for a person.
pub(super) struct Plan {
    /// What the person must open.
    pub(super) url: Address,
    listener: Listener,
    redirect: String,
    state: Secret<String>,
    proof: Proof,
    found: Found,
    client: Client,
    scopes: Vec<String>,
}

impl Plan {
    /// Finds out everything that can be known before the person is asked.
    pub(super) async fn prepare(shared: &Shared) -> Result<Self, LoginError> {
        let context = &shared.context;
        let remembered = shared.challenge.lock().clone();
        let found = discovery::discover(shared.way(), &shared.url, remembered).await?;
        found.server.authorization()?;
        let kept = shared.kept();
        guard_client(shared, kept.as_deref(), &found.server.issuer)?;
        let kept = kept.filter(|kept| kept.issuer == found.server.issuer);
        let listener = Listener::bind(port(shared, kept.as_deref())).await?;
        let redirect = listener.redirect();
        let client = Choice {
            way: shared.way(),
            settings: &shared.settings,
            server: &found.server,
            kept: kept.as_deref().map(|kept| &kept.client),
            redirect: &redirect,
            now: context.clock.now_ms(),
        };
        let client = client.client().await?;
        // If the secret is missing, the person need not be asked.
        shared.client_secret(&client, &found.server.issuer)?;
        let scopes = Known {
            configured: &shared.settings.scopes,
            challenged: &found.challenged,
            resource: &found.scopes,
            offered: &found.server.scopes,
            held: kept.as_deref().map_or(&[], |kept| &kept.scopes),
            lacking: kept.as_deref().map_or(&[], |kept| &kept.lacking),
        };
        let scopes = scopes.choose();
        let state = context.ids.secret();
        let proof = Proof::new(context.ids.secret());
        let url = request(&found, &client, &redirect, &state, &proof, &scopes)?;
        let state = Secret::new(state);
        Ok(Self { url, listener, redirect, state, proof, found, client, scopes })
    }

    /// Waits for the person's answer and redeems it.
    pub(super) async fn finish(self, shared: &Shared) -> Result<StoredLogin, LoginError> {
        let Self { listener, redirect, state, proof, found, client, scopes, .. } = self;
        let query = listener.answer(&state).await;
        let code = check(query.expose(), &found)?;
        let server = &found.server;
        let counter = Counter {
            target: Target {
                way: shared.way(),
                address: &server.token,
                what: "the authorization server's token endpoint",
            },
            client: &client,
            secret: shared.client_secret(&client, &server.issuer)?,
        };
        let answer = counter.redeem(&code, &proof.verifier, &redirect, &found.resource).await?;
        let (tokens, granted) = Tokens::read(&answer, shared.context.clock.now_ms())?;
        Ok(StoredLogin {
            url: shared.url.as_str().to_owned(),
            resource: found.resource,
            issuer: server.issuer.clone(),
            token_endpoint: server.token.as_str().to_owned(),
            revocation_endpoint: server.revocation.as_ref().map(|it| it.as_str().to_owned()),
            client,
            grant: Grant::AuthorizationCode,
            tokens: Some(tokens),
            scopes: granted.unwrap_or(scopes),
            lacking: Vec::new(),
        })
    }
}

/// A client that the operator registered is known to one authorization server, and its secret goes to
/// no other: to the configured one, else to the one of the first login.
pub(super) fn guard_client(
    shared: &Shared,
    kept: Option<&StoredLogin>,
    issuer: &str,
) -> Result<(), LoginError> {
    let settings = &shared.settings;
    let ours = |kept: &&StoredLogin| settings.client_id.as_ref() == Some(&kept.client.id);
    let earlier = kept.filter(ours).map(|kept| &kept.issuer);
    match settings.issuer.as_ref().or(earlier).filter(|expected| *expected != issuer) {
        None => Ok(()),
        Some(expected) => {
            Err(LoginError::ForeignIssuer { found: shown(issuer), expected: expected.clone() })
        }
    }
}

/// The port of the registered address, since many authorization servers insist on it.
fn port(shared: &Shared, kept: Option<&StoredLogin>) -> Port {
    if let Some(port) = shared.settings.redirect_port {
        return Port::Exactly(port);
    }
    let registered = kept.and_then(|kept| kept.client.redirect.as_deref());
    let port = registered.and_then(|text| Address::parse(text).ok()?.uri().port_u16());
    port.map_or(Port::Any, Port::Rather)
}

/// The address that asks the person.
fn request(
    found: &Found,
    client: &Client,
    redirect: &str,
    state: &str,
    proof: &Proof,
    scopes: &[String],
) -> Result<Address, LoginError> {
    let scope = scopes.join(" ");
    let mut pairs = vec![
        ("response_type", "code"),
        ("client_id", &client.id),
        ("redirect_uri", redirect),
        ("code_challenge", &proof.challenge),
        ("code_challenge_method", "S256"),
        ("state", state),
        ("resource", &found.resource),
    ];
    if !scope.is_empty() {
        pairs.push(("scope", &scope));
    }
    if scopes.iter().any(|scope| scope == "offline_access") {
        // OpenID Connect gives no refresh token without it.
        pairs.push(("prompt", "consent"));
    }
    let endpoint = found.server.authorization()?;
    let endpoint = endpoint.as_str();
    let joint = if endpoint.contains('?') { '&' } else { '?' };
    let text = format!("{endpoint}{joint}{}", form::encode(pairs));
    Address::for_browser(&text).map_err(LoginError::address("the address to log in at"))
}

/// Whose answer it is comes first: nothing in a stranger's answer may be believed.
fn check(query: &str, found: &Found) -> Result<Secret<String>, LoginError> {
    let server = &found.server;
    let named = form::has(query, "iss");
    let right = form::one(query, "iss").as_ref() == Some(&server.issuer);
    if (named && !right) || (!named && server.names_itself) {
        return Err(LoginError::Stranger(server.issuer.clone()));
    }
    if form::has(query, "error") {
        return Err(LoginError::Denied(code(form::one(query, "error").as_deref())));
    }
    let given = form::one(query, "code").filter(|code| !code.is_empty());
    given
        .map(Secret::new)
        .ok_or_else(|| LoginError::malformed("the authorization server's answer", "no `code`"))
}
