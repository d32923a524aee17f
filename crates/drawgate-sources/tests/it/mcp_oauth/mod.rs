//! Logins against a real authorization server on loopback.

mod credentials;
mod flow;
mod refusals;
mod renewal;
mod sinks;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use drawgate_core::model::{Principal, SourceId};
use drawgate_core::testing::{TestClock, TestStore, acts};
use drawgate_host::Host;
use drawgate_host::credentials::Try;
use drawgate_host::seal::SealingKey;
use drawgate_host::secrets::Secrets;
use drawgate_sources::mcp::oauth::{
    Address, LoginError, LoginSettings, LoginSummary, LoginTarget, Logins, PendingLogin,
    ServerLogin,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use world::{World, browse};

/// A host with a store, and the login at one server.
struct Stage {
    world: World,
    clock: Arc<TestClock>,
    store: TestStore,
    host: Host,
    logins: Logins,
    login: Arc<ServerLogin>,
}

fn id() -> SourceId {
    SourceId::new("far").unwrap()
}

impl Stage {
    async fn new() -> Self {
        Self::with(World::start().await, LoginSettings::default(), TestStore::default()).await
    }

    /// A host, as after a restart with this store.
    async fn with(world: World, settings: LoginSettings, store: TestStore) -> Self {
        let url = world.url();
        Self::at(world, &url, settings, store).await
    }

    async fn at(world: World, url: &str, settings: LoginSettings, store: TestStore) -> Self {
        let environment = BTreeMap::from([("CLIENT_SECRET".to_owned(), "s3cret/value".to_owned())]);
        Self::in_environment(environment, world, url, settings, store).await
    }

    async fn in_environment(
        environment: BTreeMap<String, String>,
        world: World,
        url: &str,
        settings: LoginSettings,
        store: TestStore,
    ) -> Self {
        let host = Host::new(Secrets::new(environment), None).unwrap();
        // The authorization server is on this machine, which only an operator can allow.
        host.egress.allow(vec!["127.0.0.1:*".parse().unwrap()]);
        Self::on(host, world, url, settings, store).await
    }

    async fn on(
        mut host: Host,
        world: World,
        url: &str,
        settings: LoginSettings,
        store: TestStore,
    ) -> Self {
        let clock = Arc::new(TestClock::default());
        host.clock = clock.clone();
        let key = SealingKey::new(&[3; 32]).unwrap();
        let shared = Arc::new(store.clone());
        let acts = acts(shared.clone(), shared.clone());
        let logins = Logins::new(&host, shared, acts, key);
        let wanted = LoginTarget { url: Address::parse(url).unwrap(), settings };
        let stored = logins.stored().await.unwrap();
        logins.set(BTreeMap::from([(id(), wanted)]), stored);
        let login = logins.get(&id()).unwrap();
        Self { world, clock, store, host, logins, login }
    }

    /// The same data folder, opened again.
    async fn restarted(self) -> Self {
        Self::with(self.world, LoginSettings::default(), self.store).await
    }

    async fn begin(&self) -> Result<PendingLogin, LoginError> {
        self.login.begin(&Principal::local()).await
    }

    /// A whole login, in which the person agrees.
    async fn log_in(&self) -> Result<LoginSummary, String> {
        let begun = self.begin().await.map_err(|error| error.to_string())?;
        browse(&begun.url).await;
        self.login.outcome(&begun.attempt).await.map_err(|error| error.to_string())
    }

    async fn header(&self) -> HeaderValue {
        use drawgate_host::credentials::Bearer as _;
        self.login.header().await.unwrap().unwrap()
    }

    /// What the login says to a refusal of its present token.
    async fn rejected(&self, status: u16, challenge: &str) -> Result<bool, String> {
        self.rejected_at(Try::First, status, challenge).await
    }

    async fn rejected_at(
        &self,
        attempt: Try,
        status: u16,
        challenge: &str,
    ) -> Result<bool, String> {
        use drawgate_host::credentials::Bearer as _;
        let sent = self.login.header().await.unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_str(challenge).unwrap());
        let status = StatusCode::from_u16(status).unwrap();
        let outcome = self.login.rejected(attempt, sent.as_ref(), status, &headers).await;
        outcome.map_err(|needed| needed.to_string())
    }
}
