//! Renewal: before a token expires, or when the server refuses it. Many requests may find out at once
//! that it is time; one renewal is made, and it is not lost when the request that began it is.

use std::sync::Arc;

use drawgate_core::secret::Secret;
use http::HeaderValue;
use serde_json::{Map, Value};

use super::address::Address;
use super::challenge::Challenge;
use super::discovery;
use super::error::{LoginError, LoginNeeded};
use super::fetch::Target;
use super::login::Shared;
use super::scopes;
use super::stored_login::StoredLogin;
use super::tokens::{Counter, Tokens};
use drawgate_host::credentials::Try;

/// How long an authorization server that can't be reached is left alone.
const PAUSE_MS: u64 = 5_000;
/// How long a server that refuses even a new token is not tried with another.
const REJECTED_MS: u64 = 60_000;

/// What stands in the way of the tokens that are kept.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// Until when no renewal is tried, and why the last one failed.
    pause: Option<(u64, LoginNeeded)>,
    /// New tokens that the server refused, as it did the ones before.
    rejected: Option<Tokens>,
}

impl Trouble {
    /// Why the last renewal failed.
    pub(super) fn reason(&self) -> Option<&LoginNeeded> {
        self.pause.as_ref().map(|(_, needed)| needed)
    }

    /// Whether the server does not take the tokens.
    pub(super) fn is_rejected(&self, kept: &StoredLogin) -> bool {
        self.rejected.is_some() && self.rejected == kept.tokens
    }
}

impl Shared {
    pub(super) async fn header(self: &Arc<Self>) -> Result<Option<HeaderValue>, LoginNeeded> {
        if self.is_unattended() {
            return self.unattended_header().await;
        }
        let Some(kept) = self.kept() else { return Ok(None) };
        let tokens = kept.tokens.as_ref().ok_or_else(|| self.expired())?;
        let now = self.context.clock.now_ms();
        if !tokens.is_due(now) || (tokens.refresh.is_none() && !tokens.is_over(now)) {
            return Ok(tokens.header());
        }
        match self.renew(Some(Arc::clone(&kept))).await {
            Ok(()) => {}
            // What is not over yet still serves.
            Err(LoginNeeded::Unreachable { .. }) if !tokens.is_over(now) => {
                return Ok(tokens.header());
            }
            Err(needed) => return Err(needed),
        }
        let kept = self.kept();
        let tokens = kept.as_ref().map(|kept| kept.tokens.as_ref().ok_or_else(|| self.expired()));
        Ok(tokens.transpose()?.and_then(Tokens::header))
    }

    /// The server takes no request without a token, or not with this one.
    pub(super) async fn refused(
        self: &Arc<Self>,
        attempt: Try,
        sent: Option<&HeaderValue>,
        challenge: Option<Challenge>,
    ) -> Result<bool, LoginNeeded> {
        *self.challenge.lock() = Some(challenge.unwrap_or_default());
        let kept = self.kept();
        if self.is_unattended() && kept.as_ref().is_none_or(|kept| kept.tokens.is_none()) {
            self.renew(kept).await?;
            return Ok(true);
        }
        let Some(kept) = kept else { return Err(LoginNeeded::Absent(self.id.clone())) };
        let tokens = kept.tokens.as_ref().ok_or_else(|| self.expired())?;
        if tokens.header().as_ref() != sent {
            // There are new ones by now.
            return Ok(true);
        }
        if attempt == Try::Again {
            self.trouble.lock().rejected.clone_from(&kept.tokens);
        }
        let lately = self.context.clock.now_ms() < tokens.issued_at.saturating_add(REJECTED_MS);
        if attempt == Try::Again || (lately && self.trouble.lock().is_rejected(&kept)) {
            return Err(self.expired());
        }
        self.renew(Some(kept)).await?;
        Ok(true)
    }

    /// The token is valid but does not allow this request. Only a person can change that.
    pub(super) async fn lacks(&self, challenge: Challenge) -> Result<bool, LoginNeeded> {
        if self.is_unattended() {
            return Err(self.lacks_unattended(&challenge));
        }
        let wanted = challenge.scopes.clone();
        *self.challenge.lock() = Some(challenge);
        let _turn = self.turn.lock().await;
        let Some(kept) = self.kept() else { return Err(LoginNeeded::Absent(self.id.clone())) };
        let lacking = scopes::joined(&kept.lacking, &wanted);
        if lacking != kept.lacking {
            self.replace(StoredLogin { lacking, ..(*kept).clone() }).await;
        }
        Err(LoginNeeded::Scope { server: self.id.clone(), scope: wanted.join(" ") })
    }

    /// Renews the tokens that the caller has seen. In a task of its own: the authorization server may
    /// have changed the refresh token when a caller gives up, and the new one must not get lost.
    pub(super) async fn renew(
        self: &Arc<Self>,
        seen: Option<Arc<StoredLogin>>,
    ) -> Result<(), LoginNeeded> {
        let shared = Arc::clone(self);
        let renewed =
            tokio::spawn(async move { shared.renew_in_turn(seen.as_deref()).await }).await;
        renewed.unwrap_or_else(|_| Err(self.unreachable("the renewal failed inside".to_owned())))
    }

    async fn renew_in_turn(&self, seen: Option<&StoredLogin>) -> Result<(), LoginNeeded> {
        let _turn = self.turn.lock().await;
        let kept = self.kept();
        let tokens = kept.as_deref().and_then(|kept| kept.tokens.as_ref());
        if tokens.is_some() && tokens != seen.and_then(|seen| seen.tokens.as_ref()) {
            return Ok(());
        }
        let now = self.context.clock.now_ms();
        if let Some((until, needed)) = &self.trouble.lock().pause
            && now < *until
        {
            return Err(needed.clone());
        }
        if self.is_unattended() {
            return self.acquire(kept.as_deref()).await;
        }
        let Some(kept) = kept else { return Err(LoginNeeded::Absent(self.id.clone())) };
        if kept.tokens.is_none() {
            return Err(self.expired());
        }
        let refresh = kept.tokens.as_ref().and_then(|tokens| tokens.refresh.clone());
        let Some(refresh) = refresh else { return Err(self.expire(&kept, Forget::Tokens).await) };
        match self.ask(&kept, &refresh).await {
            Ok(answer) => self.renewed(&kept, refresh, &answer).await,
            Err(LoginError::Refused { code, .. }) if !is_passing(&code) => {
                let forget = match code.as_str() {
                    "invalid_client" | "unauthorized_client" => Forget::Client,
                    _ => Forget::Tokens,
                };
                Err(self.expire(&kept, forget).await)
            }
            Err(error) => Err(self.pause(&error)),
        }
    }

    async fn renewed(
        &self,
        kept: &StoredLogin,
        refresh: Secret<String>,
        answer: &Map<String, Value>,
    ) -> Result<(), LoginNeeded> {
        let now = self.context.clock.now_ms();
        let (mut tokens, scopes) = Tokens::read(answer, now).map_err(|error| self.pause(&error))?;
        // An authorization server that does not change the refresh token does not repeat it either.
        tokens.refresh.get_or_insert(refresh);
        let scopes = scopes.unwrap_or_else(|| kept.scopes.clone());
        self.replace(StoredLogin { tokens: Some(tokens), scopes, ..kept.clone() }).await;
        Ok(())
    }

    async fn ask(
        &self,
        kept: &StoredLogin,
        refresh: &Secret<String>,
    ) -> Result<Map<String, Value>, LoginError> {
        let address = self.published(&kept.token_endpoint)?;
        self.counter(kept, &address)?.renew(refresh, &kept.resource).await
    }

    /// Gives tokens back to the authorization server, if it takes them.
    pub(super) async fn give_back(&self, kept: &StoredLogin) {
        let Some(endpoint) = &kept.revocation_endpoint else { return };
        let Some(tokens) = &kept.tokens else { return };
        let given = async {
            let address = self.published(endpoint)?;
            // With the refresh token, its access tokens end too.
            let token = tokens.refresh.as_ref().unwrap_or(&tokens.access);
            self.counter(kept, &address)?.give_back(token).await
        };
        if let Err(error) = given.await {
            tracing::warn!(source = %self.id, error = %error, "tokens could not be given back");
        }
    }

    fn published(&self, text: &str) -> Result<Address, LoginError> {
        let reach = discovery::reach(&self.url)?;
        Address::published(text, reach).map_err(LoginError::address("the token endpoint"))
    }

    fn counter<'a>(
        &'a self,
        kept: &'a StoredLogin,
        address: &'a Address,
    ) -> Result<Counter<'a>, LoginError> {
        let target =
            Target { way: self.way(), address, what: "the authorization server's token endpoint" };
        let secret = self.client_secret(&kept.client, &kept.issuer)?;
        Ok(Counter { target, client: &kept.client, secret })
    }

    async fn expire(&self, kept: &StoredLogin, forget: Forget) -> LoginNeeded {
        let mut expired = StoredLogin { tokens: None, ..kept.clone() };
        if forget == Forget::Client {
            expired.client.redirect = None;
        }
        self.replace(expired).await;
        tracing::warn!(source = %self.id, "the login has expired");
        self.expired()
    }

    pub(super) fn pause(&self, error: &LoginError) -> LoginNeeded {
        self.hold(PAUSE_MS, self.unreachable(error.to_string()))
    }

    /// Has nothing asked for a while, and everybody told why.
    pub(super) fn hold(&self, pause_ms: u64, needed: LoginNeeded) -> LoginNeeded {
        let until = self.context.clock.now_ms().saturating_add(pause_ms);
        self.trouble.lock().pause = Some((until, needed.clone()));
        needed
    }

    fn expired(&self) -> LoginNeeded {
        if self.is_unattended() {
            return self.not_taken();
        }
        LoginNeeded::Expired(self.id.clone())
    }

    fn unreachable(&self, reason: String) -> LoginNeeded {
        LoginNeeded::Unreachable { server: self.id.clone(), reason }
    }
}

/// What is worth nothing any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forget {
    Tokens,
    /// The client too: the authorization server does not know it, so the next login registers anew.
    Client,
}

/// Refusals that say nothing about the login.
pub(super) fn is_passing(code: &str) -> bool {
    matches!(code, "temporarily_unavailable" | "server_error" | "slow_down" | "unknown_error")
}
