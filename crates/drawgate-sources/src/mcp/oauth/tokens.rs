//! The token endpoint: a code or a refresh token goes in, tokens come out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drawgate_core::secret::Secret;
use http::HeaderValue;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::{LoginError, code};
use super::fetch::{Fetched, Target, text};
use super::form;
use super::registration::{Client, Method};
use super::scopes;
use super::stored_login::{exposed, exposed_option};

/// How a signed statement is announced.
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const ANSWER: &str = "the authorization server's token answer";
/// The longest token.
const MAX_TOKEN: usize = 32 * 1024;
/// How long before its end a token is renewed, but for those that live only minutes.
const SKEW_MS: u64 = 60_000;

/// What an authorization server gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tokens {
    #[serde(with = "exposed")]
    pub(super) access: Secret<String>,
    #[serde(with = "exposed_option")]
    pub(super) refresh: Option<Secret<String>>,
    /// Milliseconds since the epoch, like all times here.
    pub(super) issued_at: u64,
    pub(super) expires_at: Option<u64>,
}

impl Tokens {
    /// Reads an answer. Also returns the scopes, if it says that they differ from those asked for.
    pub(super) fn read(
        members: &Map<String, Value>,
        now: u64,
    ) -> Result<(Self, Option<Vec<String>>), LoginError> {
        let kind = text(members, "token_type").unwrap_or_default();
        if !kind.eq_ignore_ascii_case("bearer") {
            return Err(LoginError::malformed(ANSWER, "the `token_type` is not `Bearer`"));
        }
        let token = |name: &str| {
            let legal = |text: &&str| {
                let fits = !text.is_empty() && text.len() <= MAX_TOKEN;
                fits && text.bytes().all(|byte| byte.is_ascii_graphic())
            };
            text(members, name).filter(legal).map(|text| Secret::new(text.to_owned()))
        };
        let access = token("access_token")
            .ok_or_else(|| LoginError::malformed(ANSWER, "no usable `access_token`"))?;
        let lifetime = members.get("expires_in").and_then(seconds);
        let tokens = Self {
            access,
            refresh: token("refresh_token"),
            issued_at: now,
            expires_at: lifetime.map(|lifetime| now.saturating_add(lifetime.saturating_mul(1000))),
        };
        Ok((tokens, text(members, "scope").map(scopes::split)))
    }

    /// The header that shows the token.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::try_from(format!("Bearer {}", self.access.expose())).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Whether it is time to renew.
    pub(super) fn is_due(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|end| {
            let lifetime = end.saturating_sub(self.issued_at);
            now >= end.saturating_sub(SKEW_MS.min(lifetime / 5))
        })
    }

    /// Whether it is too late.
    pub(super) fn is_over(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|end| now >= end)
    }
}

/// Some servers write the number as text.
fn seconds(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// A client at a token endpoint.
pub(super) struct Counter<'a> {
    pub(super) target: Target<'a>,
    pub(super) client: &'a Client,
    /// Its secret, or a statement that it signed.
    pub(super) secret: Option<Secret<String>>,
}

impl Counter<'_> {
    /// Redeems a code.
    pub(super) async fn redeem(
        &self,
        code: &Secret<String>,
        verifier: &Secret<String>,
        redirect: &str,
        resource: &str,
    ) -> Result<Map<String, Value>, LoginError> {
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code.expose().as_str()),
            ("code_verifier", verifier.expose()),
            ("redirect_uri", redirect),
            ("resource", resource),
        ];
        self.exchange("the code", &form).await
    }

    /// Renews tokens.
    pub(super) async fn renew(
        &self,
        refresh: &Secret<String>,
        resource: &str,
    ) -> Result<Map<String, Value>, LoginError> {
        let form = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.expose().as_str()),
            ("resource", resource),
        ];
        self.exchange("the renewal", &form).await
    }

    /// Asks for a token in the client's own name.
    pub(super) async fn ask(
        &self,
        scope: &str,
        resource: &str,
    ) -> Result<Map<String, Value>, LoginError> {
        let mut form = vec![("grant_type", "client_credentials"), ("resource", resource)];
        if !scope.is_empty() {
            form.push(("scope", scope));
        }
        self.exchange("the client's credentials", &form).await
    }

    /// Gives a token back, at the revocation endpoint.
    pub(super) async fn give_back(&self, token: &Secret<String>) -> Result<(), LoginError> {
        self.send(&[("token", token.expose().as_str())]).await.map(drop)
    }

    async fn exchange(
        &self,
        what: &'static str,
        form: &[(&str, &str)],
    ) -> Result<Map<String, Value>, LoginError> {
        let Fetched { status, members, .. } = self.send(form).await?;
        match members {
            Some(members) if status.is_success() && !members.contains_key("error") => Ok(members),
            Some(members) if members.contains_key("error") && !status.is_server_error() => {
                Err(LoginError::Refused { what, code: code(text(&members, "error")) })
            }
            Some(_) | None => {
                let reason = format!("HTTP {} without tokens", status.as_u16());
                Err(LoginError::Network { what: self.target.what, reason })
            }
        }
    }

    async fn send(&self, form: &[(&str, &str)]) -> Result<Fetched, LoginError> {
        let mut pairs = form.to_vec();
        let mut authorization = None;
        match (self.client.method, &self.secret) {
            (Method::Basic, Some(secret)) => {
                authorization = Some(basic(&self.client.id, secret)?);
            }
            (Method::Post, Some(secret)) => {
                pairs.push(("client_id", &self.client.id));
                pairs.push(("client_secret", secret.expose()));
            }
            (Method::PrivateKey, Some(statement)) => {
                pairs.push(("client_id", &self.client.id));
                pairs.push(("client_assertion_type", ASSERTION));
                pairs.push(("client_assertion", statement.expose()));
            }
            (Method::None, _) | (Method::Basic | Method::Post | Method::PrivateKey, None) => {
                pairs.push(("client_id", &self.client.id));
            }
        }
        self.target.form(form::encode(pairs), authorization).await
    }
}

fn basic(id: &str, secret: &Secret<String>) -> Result<HeaderValue, LoginError> {
    let pair = format!("{}:{}", form::escaped(id), form::escaped(secret.expose()));
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)))
        .map_err(|_| LoginError::malformed("the client's secret", "it can't stand in a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(answer: &Value) -> Result<(Tokens, Option<Vec<String>>), LoginError> {
        Tokens::read(answer.as_object().unwrap(), 1_000_000)
    }

    #[test]
    fn answers_are_read_and_not_printed() {
        let answer = json!({
            "access_token": "hunter2hunter2", "token_type": "bearer", "expires_in": "3600",
            "refresh_token": "renewal", "scope": "a b"
        });
        let (tokens, scopes) = read(&answer).unwrap();
        assert_eq!(tokens.expires_at, Some(4_600_000));
        assert_eq!(scopes.unwrap(), ["a", "b"]);
        assert_eq!(tokens.header().unwrap(), "Bearer hunter2hunter2");
        let shown = format!("{tokens:?} {:?}", tokens.header());
        assert!(!shown.contains("hunter2") && !shown.contains("renewal"), "{shown}");
    }

    #[test]
    fn other_answers_are_refused_without_their_content() {
        for answer in [
            json!({}),
            json!({ "access_token": "hunter2", "token_type": "DPoP" }),
            json!({ "access_token": "hunter2" }),
            json!({ "access_token": "", "token_type": "Bearer" }),
            json!({ "access_token": "hunter2\r\nx: y", "token_type": "Bearer" }),
            json!({ "access_token": 5, "token_type": "Bearer" }),
        ] {
            let error = read(&answer).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn renewal_comes_before_the_end() {
        let of = |lifetime: u64| {
            let answer =
                json!({ "access_token": "t", "token_type": "Bearer", "expires_in": lifetime });
            read(&answer).unwrap().0
        };
        let hour = of(3600);
        assert!(!hour.is_due(1_000_000 + 3_539_999) && hour.is_due(1_000_000 + 3_540_000));
        assert!(!hour.is_over(4_599_999) && hour.is_over(4_600_000));
        let short = of(10);
        assert!(!short.is_due(1_000_000 + 7_999) && short.is_due(1_000_000 + 8_000));
        assert!(of(0).is_due(1_000_000));
        let endless = read(&json!({ "access_token": "t", "token_type": "Bearer" })).unwrap().0;
        assert!(!endless.is_due(u64::MAX) && !endless.is_over(u64::MAX));
    }
}
