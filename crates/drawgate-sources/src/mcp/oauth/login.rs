//! The login at one server: what there is of it, and what goes with each request.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use drawgate_core::acts::Acts;
use drawgate_core::audit::{EventDraft, EventKind};
use drawgate_core::clock::{Clock, Ids};
use drawgate_core::model::{Principal, SourceId};
use drawgate_core::secret::Secret;
use drawgate_core::source::SourceError;
use drawgate_core::store::{Documents, Write};
use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::broadcast;

use super::address::Address;
use super::assertion::Statement;
use super::attempt::Attempt;
use super::challenge::Challenge;
use super::error::LoginError;
use super::fetch::Way;
use super::refresh::Trouble;
use super::registration::{Client, ClientSecret};
use super::stored_login::{KIND, StoredLogin};
use drawgate_host::credentials::{Bearer, Try};
use drawgate_host::egress::{Egress, HostRule, Reach};
use drawgate_host::seal::SealingKey;
use drawgate_host::secrets::{Resolved, Secrets};

/// How many generations of tokens are masked: the current one, and those that may still be under way.
const MASKED_GENERATIONS: usize = 3;

/// How the gateway comes by tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Grant {
    /// A person agrees in a browser.
    #[default]
    AuthorizationCode,
    /// The configured client asks in its own name.
    ClientCredentials,
}

/// What the operator says about the login at a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoginSettings {
    /// How tokens are got.
    pub grant: Grant,
    /// A client that was registered by hand.
    pub client_id: Option<String>,
    /// A reference to its secret, `env:NAME`.
    pub client_secret: Option<String>,
    /// A reference to its key, `env:NAME`, in place of a secret: PKCS#8 in PEM.
    pub private_key: Option<String>,
    /// The only issuer to log in at.
    pub issuer: Option<String>,
    /// The scopes to ask for, instead of those that the server names.
    pub scopes: Vec<String>,
    /// The address of a document that describes the client.
    pub client_metadata_url: Option<String>,
    /// The port that the browser is sent back to.
    pub redirect_port: Option<u16>,
}

/// A login, for people and for the log. Holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoginSummary {
    /// The server.
    pub server: SourceId,
    /// Who vouches for it.
    pub issuer: String,
    /// As which client.
    pub client_id: String,
    /// What it allows.
    pub scopes: Vec<String>,
    /// When its token ends, in milliseconds since the epoch.
    pub expires_at: Option<u64>,
    /// Whether the token can be renewed without a person.
    pub renewable: bool,
}

impl LoginSummary {
    pub(super) fn of(id: &SourceId, kept: &StoredLogin) -> Self {
        let tokens = kept.tokens.as_ref();
        Self {
            server: id.clone(),
            issuer: kept.issuer.clone(),
            client_id: kept.client.id.clone(),
            scopes: kept.scopes.clone(),
            expires_at: tokens.and_then(|tokens| tokens.expires_at),
            renewable: match kept.grant {
                Grant::AuthorizationCode => tokens.is_some_and(|it| it.refresh.is_some()),
                Grant::ClientCredentials => true,
            },
        }
    }
}

/// Where the login at a server stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum LoginState {
    /// There is none, and none was asked for.
    None,
    /// There is none, and the server wants one.
    Needed,
    /// There is one.
    Active(LoginSummary),
    /// There is one that does not reach.
    Lacking(LoginSummary),
    /// There was one.
    Expired,
    /// The configured client gets no token that serves.
    Refused {
        /// Why, and what to do.
        reason: String,
    },
}

/// What all logins share.
pub(super) struct LoginContext {
    pub(super) egress: Arc<Egress>,
    pub(super) secrets: Arc<Secrets>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn Ids>,
    pub(super) documents: Arc<dyn Documents>,
    pub(super) acts: Acts,
    pub(super) key: SealingKey,
    /// Whose login is new, or gone.
    pub(super) news: broadcast::Sender<SourceId>,
}

/// The login at one server.
pub struct ServerLogin {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) id: SourceId,
    pub(super) url: Address,
    pub(super) settings: LoginSettings,
    reach: Reach,
    pub(super) context: Arc<LoginContext>,
    kept: RwLock<Option<Arc<StoredLogin>>>,
    /// Held while the stored login is changed, so that tokens are renewed once and not lost.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
    /// What the server said when it last refused a request.
    pub(super) challenge: Mutex<Option<Challenge>>,
    pub(super) attempt: Mutex<Option<Attempt>>,
    pub(super) trouble: Mutex<Trouble>,
    masked: Mutex<VecDeque<Vec<String>>>,
}

impl ServerLogin {
    /// A login that may have been kept. Tokens of another address are none: they must not go to a
    /// server that took over the name, nor a person's be used for what the client may do alone.
    pub(super) fn new(
        id: SourceId,
        url: Address,
        settings: LoginSettings,
        context: Arc<LoginContext>,
        kept: Option<StoredLogin>,
    ) -> Self {
        let ours = |kept: &StoredLogin| kept.url == url.as_str() && kept.grant == settings.grant;
        let kept = kept.filter(ours).map(Arc::new);
        let shared = Shared {
            id,
            reach: reach(&url, &settings),
            url,
            settings,
            context,
            kept: RwLock::new(kept.clone()),
            turn: Arc::default(),
            challenge: Mutex::default(),
            attempt: Mutex::default(),
            trouble: Mutex::default(),
            masked: Mutex::default(),
        };
        if let Some(kept) = &kept {
            shared.mask(kept);
        }
        Self { shared: Arc::new(shared) }
    }

    /// Whether it was made of the same address and settings.
    pub(super) fn is_of(&self, url: &Address, settings: &LoginSettings) -> bool {
        self.shared.url == *url && self.shared.settings == *settings
    }

    /// Where it stands.
    #[must_use]
    pub fn state(&self) -> LoginState {
        let shared = &self.shared;
        if shared.is_unattended() {
            return shared.unattended_state();
        }
        let Some(kept) = shared.kept() else {
            let asked = shared.challenge.lock().is_some();
            return if asked { LoginState::Needed } else { LoginState::None };
        };
        let now = shared.context.clock.now_ms();
        let lives = kept
            .tokens
            .as_ref()
            .is_some_and(|tokens| tokens.refresh.is_some() || !tokens.is_over(now));
        let summary = LoginSummary::of(&shared.id, &kept);
        match (lives && !shared.trouble.lock().is_rejected(&kept), kept.lacking.is_empty()) {
            (false, _) => LoginState::Expired,
            (true, true) => LoginState::Active(summary),
            (true, false) => LoginState::Lacking(summary),
        }
    }

    /// Ends the login: tokens are given back where the authorization server takes them, and forgotten
    /// here in any case. `false` if there was none.
    pub async fn log_out(&self, actor: &Principal) -> Result<bool, LoginError> {
        let shared = &self.shared;
        shared.demand_person()?;
        shared.abandon().await;
        let turn = Arc::clone(&shared.turn).lock_owned().await;
        let kept = shared.kept();
        if kept.is_none() && !shared.is_stored().await? {
            return Ok(false);
        }
        let outcome = shared.outcome(actor, EventKind::ServerLogout);
        let write = Write::RemoveDocument { kind: KIND, id: shared.id.to_string() };
        let forgetting = Arc::clone(shared);
        let memory = async move {
            let _turn = turn;
            forgetting.kept.write().take();
            *forgetting.trouble.lock() = Trouble::default();
        };
        shared.context.acts.turn().await.act(vec![outcome], vec![write], memory).await?;
        if let Some(kept) = kept {
            shared.announce();
            shared.give_back(&kept).await;
        }
        Ok(true)
    }
}

#[async_trait]
impl Bearer for ServerLogin {
    async fn header(&self) -> Result<Option<HeaderValue>, SourceError> {
        Ok(self.shared.header().await?)
    }

    async fn rejected(
        &self,
        attempt: Try,
        sent: Option<&HeaderValue>,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<bool, SourceError> {
        let challenge = Challenge::find(headers);
        let again = match status {
            StatusCode::UNAUTHORIZED => self.shared.refused(attempt, sent, challenge).await,
            StatusCode::FORBIDDEN => match challenge.filter(Challenge::wants_more_scope) {
                Some(challenge) => self.shared.lacks(challenge).await,
                None => Ok(false),
            },
            _ => Ok(false),
        };
        Ok(again?)
    }
}

/// What the operator wrote may be anywhere; what others publish is on the internet.
fn reach(url: &Address, settings: &LoginSettings) -> Reach {
    let issuer = settings.issuer.as_deref().and_then(|text| Address::parse(text).ok());
    let written = [Some(url), issuer.as_ref()].into_iter().flatten();
    let rules = written.filter_map(|address| HostRule::of(address.uri())).map(HostRule::anywhere);
    Reach::public().and(rules)
}

impl Shared {
    /// The way out.
    pub(super) fn way(&self) -> Way<'_> {
        Way { egress: &self.context.egress, reach: &self.reach }
    }

    pub(super) fn kept(&self) -> Option<Arc<StoredLogin>> {
        self.kept.read().clone()
    }

    /// Only a login that a person makes can be begun or ended by one.
    pub(super) fn demand_person(&self) -> Result<(), LoginError> {
        if self.is_unattended() {
            return Err(LoginError::Unattended(self.id.clone()));
        }
        Ok(())
    }

    /// Takes a new login over. One that can't be kept or written down is none.
    pub(super) async fn adopt(
        self: &Arc<Self>,
        actor: &Principal,
        kept: StoredLogin,
    ) -> Result<LoginSummary, LoginError> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let summary = LoginSummary::of(&self.id, &kept);
        let outcome = self
            .outcome(actor, EventKind::ServerLogin)
            .text("issuer", &summary.issuer)
            .text("clientId", &summary.client_id)
            .texts("scopes", summary.scopes.iter().map(String::as_str));
        let body = self.sealed(&kept)?;
        let write = Write::PutDocument { kind: KIND, id: self.id.to_string(), body };
        let taking = Arc::clone(self);
        let memory = async move {
            let _turn = turn;
            taking.take(kept);
            *taking.challenge.lock() = None;
            taking.announce();
        };
        self.context.acts.turn().await.act(vec![outcome], vec![write], memory).await?;
        Ok(summary)
    }

    /// The event of an operator's act on this login.
    fn outcome(&self, actor: &Principal, kind: EventKind) -> EventDraft {
        EventDraft::new(kind, self.context.clock.now_ms())
            .text("principal", actor.as_str())
            .text("server", self.id.as_str())
    }

    /// Whether the store has a login of this server, perhaps one that is not used.
    async fn is_stored(&self) -> Result<bool, LoginError> {
        let all = self.context.documents.documents(KIND).await?;
        Ok(all.iter().any(|(id, _)| id == self.id.as_str()))
    }

    /// Replaces what is kept; the caller holds the turn. New tokens are used even if they can't be
    /// stored: those in the store may be worth nothing any more.
    pub(super) async fn replace(&self, kept: StoredLogin) {
        if let Err(error) = self.store(&kept).await {
            tracing::error!(source = %self.id, error = %error, "a login could not be stored");
        }
        self.take(kept);
    }

    fn take(&self, kept: StoredLogin) {
        self.mask(&kept);
        *self.kept.write() = Some(Arc::new(kept));
        *self.trouble.lock() = Trouble::default();
    }

    fn sealed(&self, kept: &StoredLogin) -> Result<Value, LoginError> {
        Ok(match kept.grant {
            Grant::AuthorizationCode => kept.seal(&self.id, &self.context.key)?,
            // A new token can be had at any time.
            Grant::ClientCredentials => {
                StoredLogin { tokens: None, ..kept.clone() }.seal(&self.id, &self.context.key)?
            }
        })
    }

    async fn store(&self, kept: &StoredLogin) -> Result<(), LoginError> {
        let document = self.sealed(kept)?;
        self.context.documents.put_document(KIND, self.id.as_str(), &document).await?;
        Ok(())
    }

    fn announce(&self) {
        // There may be no listener.
        let _ = self.context.news.send(self.id.clone());
    }

    /// What a client proves itself with at its issuer: a secret, or a statement that it signs.
    pub(super) fn client_secret(
        &self,
        client: &Client,
        issuer: &str,
    ) -> Result<Option<Secret<String>>, LoginError> {
        match &client.secret {
            ClientSecret::Public => Ok(None),
            ClientSecret::Given { value, .. } => Ok(Some(value.clone())),
            ClientSecret::Configured => {
                self.settings.client_secret.as_deref().map(|it| self.resolve(it)).transpose()
            }
            ClientSecret::Key => {
                let Some(reference) = &self.settings.private_key else { return Ok(None) };
                let statement = Statement {
                    client: &client.id,
                    audience: issuer,
                    id: self.context.ids.unique(),
                    now: self.context.clock.now_ms(),
                };
                statement.sign(&self.resolve(reference)?).map(Some)
            }
        }
    }

    fn resolve(&self, reference: &str) -> Result<Secret<String>, LoginError> {
        Ok(match self.context.secrets.resolve(reference)? {
            Resolved::Secret(secret) => secret,
            Resolved::Plain(text) => Secret::new(text),
        })
    }

    /// Has the secrets of a login masked wherever they turn up, and those of long ago forgotten.
    fn mask(&self, kept: &StoredLogin) {
        let mut values = Vec::new();
        if let ClientSecret::Given { value, .. } = &kept.client.secret {
            values.push(value.expose().clone());
        }
        if let Some(tokens) = &kept.tokens {
            values.push(tokens.access.expose().clone());
            values.extend(tokens.refresh.as_ref().map(|token| token.expose().clone()));
        }
        for value in &values {
            self.context.secrets.remember(value);
        }
        let mut masked = self.masked.lock();
        masked.push_back(values);
        while masked.len() > MASKED_GENERATIONS {
            let old = masked.pop_front().unwrap_or_default();
            for value in old.iter().filter(|value| !masked.iter().flatten().any(|it| it == *value))
            {
                self.context.secrets.forget(value);
            }
        }
    }
}
