//! Tokens of OAuth 2.0 by client credentials: fetched when first needed, kept until shortly before
//! they end, fetched anew when a server does not take one any more.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drawgate_core::json;
use drawgate_host::Host;
use drawgate_host::egress::{EgressError, Fetch, Follow, Reach};
use http::{HeaderMap, HeaderValue, Method, header};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Semaphore;
use url::Url;

use super::ClientAuthentication;
use crate::openapi::request::unreserved;

/// Bytes of an answer with a token.
const MAX_ANSWER: usize = 64 * 1024;
/// What a token lasts if the server does not say.
const USUAL_LIFE: Duration = Duration::from_mins(5);
/// How long before its end a token is replaced, at most.
const EARLY: Duration = Duration::from_secs(30);
/// Sets of scopes that tokens are kept for.
const MAX_KEPT: usize = 64;

/// Who asks, and where.
pub(super) struct Client {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) scopes: Vec<String>,
    pub(super) authentication: ClientAuthentication,
    pub(super) url: Url,
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub(in crate::openapi) enum TokenError {
    #[error("no token: {0}")]
    Egress(EgressError),
    #[error("no token: the authorization server answered with HTTP {status}{}", said(.code.as_deref()))]
    Refused { status: u16, code: Option<String> },
    #[error("no token: the authorization server's answer has no usable `access_token`")]
    Answer,
}

/// One client with its tokens.
pub(in crate::openapi) struct TokenClient {
    client: Client,
    kept: Mutex<BTreeMap<String, Token>>,
    /// One request for a token at a time: the others will use what it brings.
    turn: Semaphore,
}

#[derive(Clone)]
struct Token {
    header: HeaderValue,
    fresh_until: Instant,
}

impl TokenClient {
    pub(super) fn new(client: Client) -> Self {
        Self { client, kept: Mutex::default(), turn: Semaphore::new(1) }
    }

    /// Where tokens are fetched.
    pub(in crate::openapi) fn url(&self) -> &Url {
        &self.client.url
    }

    /// The header of a request. `refused` is a token that the server did not take.
    pub(in crate::openapi) async fn header(
        &self,
        host: &Host,
        reach: &Reach,
        scopes: &[String],
        refused: Option<&HeaderValue>,
        deadline: Instant,
    ) -> Result<HeaderValue, TokenError> {
        let own = &self.client.scopes;
        let scopes = if own.is_empty() { scopes } else { own.as_slice() }.join(" ");
        if let Some(header) = self.kept(&scopes, refused) {
            return Ok(header);
        }
        // It is never closed; were it, two requests would do no harm.
        let _turn = self.turn.acquire().await;
        if let Some(header) = self.kept(&scopes, refused) {
            return Ok(header);
        }
        let token = self.fetch(host, reach, &scopes, deadline).await?;
        let header = token.header.clone();
        let mut kept = self.kept.lock();
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(scopes, token);
        Ok(header)
    }

    fn kept(&self, scopes: &str, refused: Option<&HeaderValue>) -> Option<HeaderValue> {
        let kept = self.kept.lock();
        let token = kept.get(scopes).filter(|token| token.fresh_until > Instant::now())?;
        (refused != Some(&token.header)).then(|| token.header.clone())
    }

    async fn fetch(
        &self,
        host: &Host,
        reach: &Reach,
        scopes: &str,
        deadline: Instant,
    ) -> Result<Token, TokenError> {
        let (headers, body) = self.request(host, scopes)?;
        let fetch = Fetch {
            method: Method::POST,
            url: self.client.url.clone(),
            headers,
            body: body.into(),
            reach: reach.clone(),
            deadline,
            max_bytes: MAX_ANSWER,
            follow: Follow::Nothing,
        };
        let asked = Instant::now();
        let answer = host.egress.fetch(fetch).await.map_err(TokenError::Egress)?;
        let told = json::parse(&answer.body).unwrap_or_default();
        if !answer.status.is_success() {
            return Err(TokenError::Refused { status: answer.status.as_u16(), code: code(&told) });
        }
        token(host, &told, asked).ok_or(TokenError::Answer)
    }

    fn request(&self, host: &Host, scopes: &str) -> Result<(HeaderMap, String), TokenError> {
        let Client { id, secret, authentication, .. } = &self.client;
        let mut headers = HeaderMap::new();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(header::CONTENT_TYPE, form);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let mut body = "grant_type=client_credentials".to_owned();
        if !scopes.is_empty() {
            body.push_str("&scope=");
            body.push_str(&unreserved(scopes));
        }
        // RFC 6749, 2.3.1: both are encoded before they are joined.
        let (id, secret) = (unreserved(id), unreserved(secret));
        match authentication {
            ClientAuthentication::Basic => {
                let encoded = STANDARD.encode(format!("{id}:{secret}"));
                host.secrets.remember(&encoded);
                let value = HeaderValue::try_from(format!("Basic {encoded}"));
                let mut value = value.map_err(|_| TokenError::Answer)?;
                value.set_sensitive(true);
                headers.insert(header::AUTHORIZATION, value);
            }
            ClientAuthentication::Body => {
                body.push_str("&client_id=");
                body.push_str(&id);
                body.push_str("&client_secret=");
                body.push_str(&secret);
            }
        }
        Ok((headers, body))
    }
}

fn token(host: &Host, told: &Value, asked: Instant) -> Option<Token> {
    let text = told.get("access_token")?.as_str().filter(|text| !text.is_empty())?;
    let kind = told.get("token_type").and_then(Value::as_str).unwrap_or("bearer");
    if !kind.eq_ignore_ascii_case("bearer") {
        return None;
    }
    host.secrets.remember(text);
    let mut header = HeaderValue::try_from(format!("Bearer {text}")).ok()?;
    header.set_sensitive(true);
    let life = told.get("expires_in").and_then(Value::as_u64);
    let life = life.map_or(USUAL_LIFE, Duration::from_secs).min(Duration::from_hours(24));
    let fresh_until = asked + life.saturating_sub(EARLY.min(life / 10));
    Some(Token { header, fresh_until })
}

/// The error's code, which the protocol makes one word; never the text beside it.
fn code(told: &Value) -> Option<String> {
    let code = told.get("error")?.as_str()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (code.len() <= 64 && code.chars().all(plain)).then(|| code.to_owned())
}

fn said(code: Option<&str>) -> String {
    code.map(|code| format!(" (`{code}`)")).unwrap_or_default()
}
