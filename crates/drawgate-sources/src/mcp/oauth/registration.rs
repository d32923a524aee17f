//! Who we are to an authorization server: a client that the operator registered, one described by a
//! document on the network, or one that we register ourselves and keep for this issuer alone.

use drawgate_core::secret::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::discovery::AuthorizationServer;
use super::error::{LoginError, code};
use super::fetch::{Target, Way, text};
use super::login::LoginSettings;
use super::stored_login::exposed;

const ANSWER: &str = "the authorization server's answer to the registration";
/// The longest name or secret of a client.
const MAX_TEXT: usize = 4096;

/// A client of one authorization server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) id: String,
    pub(super) secret: ClientSecret,
    pub(super) method: Method,
    /// Where answers go, of a client that we registered.
    pub(super) redirect: Option<String>,
}

impl Client {
    /// The client that the operator registered, if there is one.
    pub(super) fn configured(
        settings: &LoginSettings,
        server: &AuthorizationServer,
    ) -> Option<Self> {
        let (secret, method) = match (&settings.private_key, &settings.client_secret) {
            (Some(_), _) => (ClientSecret::Key, Method::PrivateKey),
            (None, Some(_)) => {
                (ClientSecret::Configured, Method::with_secret(server.methods.as_deref()))
            }
            (None, None) => (ClientSecret::Public, Method::None),
        };
        Some(Self { id: settings.client_id.clone()?, secret, method, redirect: None })
    }
}

/// What a client proves itself with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ClientSecret {
    /// Nothing.
    Public,
    /// The operator's own, looked up whenever it is needed.
    Configured,
    /// The operator's own key, which signs a statement whenever one is needed.
    Key,
    /// Given to us when we registered.
    Given {
        #[serde(with = "exposed")]
        value: Secret<String>,
        /// Milliseconds since the epoch.
        expires_at: Option<u64>,
    },
}

/// How it does so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Method {
    None,
    Post,
    Basic,
    PrivateKey,
}

impl Method {
    const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Post => "client_secret_post",
            Self::Basic => "client_secret_basic",
            Self::PrivateKey => "private_key_jwt",
        }
    }

    fn is_in(self, methods: &[String]) -> bool {
        methods.iter().any(|method| method == self.as_str())
    }

    /// For a client with a secret. Without word from the server, `Basic` is the rule of RFC 8414.
    fn with_secret(methods: Option<&[String]>) -> Self {
        let Some(methods) = methods else { return Self::Basic };
        let preferred = [Self::Basic, Self::Post, Self::None];
        preferred.into_iter().find(|method| method.is_in(methods)).unwrap_or(Self::Basic)
    }

    /// What to register with: a program on a person's machine has a client secret only if it must.
    fn to_register(methods: Option<&[String]>) -> Self {
        let Some(methods) = methods else { return Self::None };
        let preferred = [Self::None, Self::Basic, Self::Post];
        preferred.into_iter().find(|method| method.is_in(methods)).unwrap_or(Self::None)
    }
}

/// What the choice of a client depends on.
pub(super) struct Choice<'a> {
    pub(super) way: Way<'a>,
    pub(super) settings: &'a LoginSettings,
    pub(super) server: &'a AuthorizationServer,
    /// A client that was registered with this very issuer before.
    pub(super) kept: Option<&'a Client>,
    pub(super) redirect: &'a str,
    pub(super) now: u64,
}

impl Choice<'_> {
    /// The client to log in as.
    pub(super) async fn client(&self) -> Result<Client, LoginError> {
        let Self { settings, server, .. } = self;
        if let Some(client) = Client::configured(settings, server) {
            return Ok(client);
        }
        if let Some(document) =
            settings.client_metadata_url.as_ref().filter(|_| server.takes_documents)
        {
            return Ok(Client {
                id: document.clone(),
                secret: ClientSecret::Public,
                method: Method::None,
                redirect: None,
            });
        }
        match self.kept.filter(|kept| self.is_usable(kept)) {
            Some(kept) => Ok(kept.clone()),
            None => self.register().await,
        }
    }

    fn is_usable(&self, kept: &Client) -> bool {
        let live = match &kept.secret {
            ClientSecret::Public => true,
            // It belonged to a client of the operator, who has since removed it.
            ClientSecret::Configured | ClientSecret::Key => false,
            ClientSecret::Given { expires_at, .. } => expires_at.is_none_or(|end| self.now < end),
        };
        live && kept.redirect.as_deref() == Some(self.redirect)
    }

    async fn register(&self) -> Result<Client, LoginError> {
        let Self { way, server, redirect, .. } = self;
        let address = server.registration.as_ref();
        let address = address.ok_or_else(|| LoginError::NoRegistration(server.issuer.clone()))?;
        let methods = server.methods.as_deref();
        let description = json!({
            "client_name": "Drawgate",
            "application_type": "native",
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": Method::to_register(methods).as_str(),
        });
        let target = Target { way: *way, address, what: "the authorization server's registration" };
        let answer = target.json(&description).await?;
        let Some(members) = answer.members.filter(|_| answer.status.is_success()) else {
            if answer.status.is_server_error() {
                let reason = format!("HTTP {}", answer.status.as_u16());
                return Err(LoginError::Network { what: target.what, reason });
            }
            let code = format!("HTTP {}", answer.status.as_u16());
            return Err(LoginError::Refused { what: "the registration of this program", code });
        };
        if members.contains_key("error") {
            let code = code(text(&members, "error"));
            return Err(LoginError::Refused { what: "the registration of this program", code });
        }
        registered(&members, methods, redirect)
    }
}

fn registered(
    members: &Map<String, Value>,
    methods: Option<&[String]>,
    redirect: &str,
) -> Result<Client, LoginError> {
    let usable = |text: &&str| {
        !text.is_empty()
            && text.len() <= MAX_TEXT
            && text.bytes().all(|b| (b' '..=b'~').contains(&b))
    };
    let id = text(members, "client_id")
        .filter(usable)
        .ok_or_else(|| LoginError::malformed(ANSWER, "no `client_id`"))?;
    let expires_at = members.get("client_secret_expires_at").and_then(Value::as_u64);
    let secret = match text(members, "client_secret").filter(usable) {
        None => ClientSecret::Public,
        Some(value) => ClientSecret::Given {
            value: Secret::new(value.to_owned()),
            expires_at: expires_at.filter(|end| *end > 0).map(|end| end.saturating_mul(1000)),
        },
    };
    let given = text(members, "token_endpoint_auth_method");
    let named = [Method::None, Method::Post, Method::Basic]
        .into_iter()
        .find(|method| given == Some(method.as_str()));
    let method = match (&secret, named) {
        (ClientSecret::Public | ClientSecret::Configured | ClientSecret::Key, _) => Method::None,
        (ClientSecret::Given { .. }, Some(named)) => named,
        (ClientSecret::Given { .. }, None) => Method::with_secret(methods),
    };
    Ok(Client { id: id.to_owned(), secret, method, redirect: Some(redirect.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_method_follows_secret_answer_and_metadata() {
        let list = |methods: &[&str]| methods.iter().map(|m| (*m).to_owned()).collect::<Vec<_>>();
        let check = |answer: Value, methods: Option<&[&str]>| {
            let methods = methods.map(list);
            registered(answer.as_object().unwrap(), methods.as_deref(), "r").unwrap().method
        };
        let secret = || json!({ "client_id": "c", "client_secret": "s" });
        assert_eq!(check(json!({ "client_id": "c" }), None), Method::None);
        assert_eq!(check(secret(), None), Method::Basic);
        assert_eq!(check(secret(), Some(&["none"])), Method::None);
        assert_eq!(check(secret(), Some(&["client_secret_post"])), Method::Post);
        assert_eq!(check(secret(), Some(&["private_key_jwt"])), Method::Basic);
        let mut told = secret();
        told["token_endpoint_auth_method"] = "client_secret_post".into();
        assert_eq!(check(told, Some(&["client_secret_basic"])), Method::Post);
    }

    #[test]
    fn an_answer_without_a_name_is_none() {
        for answer in [json!({}), json!({ "client_id": "" }), json!({ "client_id": "a\nb" })] {
            assert!(registered(answer.as_object().unwrap(), None, "r").is_err(), "{answer}");
        }
    }
}
