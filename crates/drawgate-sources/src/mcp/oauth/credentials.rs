//! Tokens for a client that needs no person: asked for as the configured client when one is first
//! needed, and again before it ends. They stay in memory; only whose client it is, is kept, since its
//! credentials go to no other authorization server.

use std::sync::Arc;

use http::HeaderValue;

use super::challenge::Challenge;
use super::discovery;
use super::error::{LoginError, LoginNeeded};
use super::fetch::Target;
use super::flow::guard_client;
use super::login::{Grant, LoginState, LoginSummary, Shared};
use super::refresh::is_passing;
use super::registration::Client;
use super::scopes::Known;
use super::stored_login::StoredLogin;
use super::tokens::{Counter, Tokens};

/// How long an authorization server that does not take the credentials is not asked again.
const REFUSED_MS: u64 = 60_000;

impl Shared {
    /// Whether the gateway logs in by itself.
    pub(super) fn is_unattended(&self) -> bool {
        match self.settings.grant {
            Grant::AuthorizationCode => false,
            Grant::ClientCredentials => true,
        }
    }

    /// The header of the next request, with a new token if it is time for one.
    pub(super) async fn unattended_header(
        self: &Arc<Self>,
    ) -> Result<Option<HeaderValue>, LoginNeeded> {
        let kept = self.kept();
        let tokens = kept.as_deref().and_then(|kept| kept.tokens.as_ref());
        let now = self.context.clock.now_ms();
        if let Some(tokens) = tokens.filter(|tokens| !tokens.is_due(now)) {
            return Ok(tokens.header());
        }
        if let Err(needed) = self.renew(kept.clone()).await {
            // What is not over yet still serves.
            let serves = tokens.filter(|tokens| !tokens.is_over(now));
            return serves.map(Tokens::header).ok_or(needed);
        }
        Ok(self.kept().and_then(|kept| kept.tokens.as_ref()?.header()))
    }

    /// Asks for a token; the caller holds the turn.
    pub(super) async fn acquire(&self, kept: Option<&StoredLogin>) -> Result<(), LoginNeeded> {
        match self.ask_as_client(kept).await {
            Ok(new) => {
                self.replace(new).await;
                Ok(())
            }
            Err(error) if is_lasting(&error) => {
                tracing::warn!(source = %self.id, error = %error, "there is no token");
                Err(self.hold(REFUSED_MS, self.no_token(error.to_string())))
            }
            Err(error) => Err(self.pause(&error)),
        }
    }

    async fn ask_as_client(&self, kept: Option<&StoredLogin>) -> Result<StoredLogin, LoginError> {
        let context = &self.context;
        let remembered = self.challenge.lock().clone();
        let found = discovery::discover(self.way(), &self.url, remembered).await?;
        let server = &found.server;
        guard_client(self, kept, &server.issuer)?;
        let client = Client::configured(&self.settings, server).ok_or_else(|| {
            LoginError::malformed("the `oauth` table", "the grant needs a `client_id`")
        })?;
        let scopes = Known {
            configured: &self.settings.scopes,
            challenged: &found.challenged,
            resource: &found.scopes,
            ..Known::default()
        };
        let scopes = scopes.choose();
        let counter = Counter {
            target: Target {
                way: self.way(),
                address: &server.token,
                what: "the authorization server's token endpoint",
            },
            client: &client,
            secret: self.client_secret(&client, &server.issuer)?,
        };
        let answer = counter.ask(&scopes.join(" "), &found.resource).await?;
        let (tokens, granted) = Tokens::read(&answer, context.clock.now_ms())?;
        Ok(StoredLogin {
            url: self.url.as_str().to_owned(),
            resource: found.resource,
            issuer: server.issuer.clone(),
            token_endpoint: server.token.as_str().to_owned(),
            revocation_endpoint: None,
            client,
            grant: Grant::ClientCredentials,
            // Nothing but the credentials brings a new token.
            tokens: Some(Tokens { refresh: None, ..tokens }),
            scopes: granted.unwrap_or(scopes),
            lacking: Vec::new(),
        })
    }

    /// The token does not allow a request. What the client asks for is the operator's choice.
    pub(super) fn lacks_unattended(&self, challenge: &Challenge) -> LoginNeeded {
        LoginNeeded::ClientScope { server: self.id.clone(), scope: challenge.scopes.join(" ") }
    }

    /// Where it stands.
    pub(super) fn unattended_state(&self) -> LoginState {
        let now = self.context.clock.now_ms();
        let kept = self.kept();
        let trouble = self.trouble.lock();
        let live = kept.filter(|kept| kept.tokens.as_ref().is_some_and(|it| !it.is_over(now)));
        match (live, trouble.reason()) {
            (Some(kept), _) if trouble.is_rejected(&kept) => {
                LoginState::Refused { reason: self.not_taken().to_string() }
            }
            (Some(kept), _) => LoginState::Active(LoginSummary::of(&self.id, &kept)),
            (None, Some(needed)) => LoginState::Refused { reason: needed.to_string() },
            (None, None) => LoginState::None,
        }
    }

    /// The server refuses even new tokens.
    pub(super) fn not_taken(&self) -> LoginNeeded {
        self.no_token("the server does not take the tokens that it was shown".to_owned())
    }

    fn no_token(&self, reason: String) -> LoginNeeded {
        LoginNeeded::Client { server: self.id.clone(), reason }
    }
}

/// Whether asking again soon would bring the same answer.
fn is_lasting(error: &LoginError) -> bool {
    match error {
        LoginError::Refused { code, .. } => !is_passing(code),
        LoginError::Network { .. } | LoginError::Store(_) | LoginError::Seal(_) => false,
        _ => true,
    }
}
