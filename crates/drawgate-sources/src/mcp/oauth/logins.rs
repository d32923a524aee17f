//! The logins of all configured servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use drawgate_core::acts::Acts;
use drawgate_core::model::SourceId;
use drawgate_core::store::{Documents, StoreError};
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::broadcast;

use super::address::Address;
use super::login::{LoginContext, LoginSettings, ServerLogin};
use super::stored_login::{KIND, StoredLogin};
use drawgate_host::Host;
use drawgate_host::credentials::{Bearer, Credentials};
use drawgate_host::seal::SealingKey;

/// How much news is kept for a listener that is slow.
const NEWS: usize = 64;

/// A server that may have a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginTarget {
    /// Its address.
    pub url: Address,
    /// What the operator says about the login.
    pub settings: LoginSettings,
}

/// Sealed logins as the store has them, by their server's id.
pub struct StoredLogins(BTreeMap<String, Value>);

/// Every server's login, by its id.
pub struct Logins {
    context: Arc<LoginContext>,
    servers: RwLock<BTreeMap<SourceId, Arc<ServerLogin>>>,
}

impl Credentials for Logins {
    fn bearer(&self, source: &SourceId) -> Option<Arc<dyn Bearer>> {
        Some(self.get(source)?)
    }
}

impl Logins {
    /// Of no server yet.
    #[must_use]
    pub fn new(host: &Host, documents: Arc<dyn Documents>, acts: Acts, key: SealingKey) -> Self {
        let context = LoginContext {
            egress: Arc::clone(&host.egress),
            secrets: Arc::clone(&host.secrets),
            clock: Arc::clone(&host.clock),
            ids: Arc::clone(&host.ids),
            documents,
            acts,
            key,
            news: broadcast::Sender::new(NEWS),
        };
        Self { context: Arc::new(context), servers: RwLock::default() }
    }

    /// The login at a server.
    #[must_use]
    pub fn get(&self, id: &SourceId) -> Option<Arc<ServerLogin>> {
        self.servers.read().get(id).cloned()
    }

    /// Tells which server's login is new, or gone.
    #[must_use]
    pub fn news(&self) -> broadcast::Receiver<SourceId> {
        self.context.news.subscribe()
    }

    /// Reads the logins that are kept, for [`set`](Self::set).
    pub async fn stored(&self) -> Result<StoredLogins, StoreError> {
        let documents = self.context.documents.documents(KIND).await?;
        Ok(StoredLogins(documents.into_iter().collect()))
    }

    /// Takes these servers in place of those before. Logins whose server stays the same go on.
    pub fn set(&self, wanted: BTreeMap<SourceId, LoginTarget>, stored: StoredLogins) {
        let StoredLogins(mut documents) = stored;
        let mut servers = self.servers.write();
        let before = std::mem::take(&mut *servers);
        *servers = wanted
            .into_iter()
            .map(|(id, LoginTarget { url, settings })| {
                let same = before.get(&id).filter(|login| login.is_of(&url, &settings));
                let login = same.cloned().unwrap_or_else(|| {
                    let kept = documents.remove(id.as_str()).and_then(|document| {
                        let kept = StoredLogin::open(&document, &id, &self.context.key);
                        if kept.is_none() {
                            tracing::warn!(source = %id, "a stored login can't be opened; log in again");
                        }
                        kept
                    });
                    let context = Arc::clone(&self.context);
                    Arc::new(ServerLogin::new(id.clone(), url, settings, context, kept))
                });
                (id, login)
            })
            .collect();
    }
}
