use std::net::Ipv4Addr;
use std::time::Duration;

use drawgate_sdk::statement::{
    LOGIN_NAMESPACE, LoginStatement, Purpose, SERVER_NAMESPACE, SESSION_METADATA, server_statement,
};
use http::HeaderValue;
use tonic::Code;

use super::*;
use crate::surface::grpc::ConnectionAddresses;
use crate::surface::guard::Guard;
use drawgate_runtime::peers::testing::{AUTHORITY, REMOTE, TestAuthenticator, TestKey};
use drawgate_runtime::peers::{DisconnectReason, NONCE_SECONDS, PeerAuthenticator};

/// One connection to a door.
struct Caller {
    connection: Arc<Connection>,
    guard: Guard,
}

impl Caller {
    fn new(authenticator: &Arc<PeerAuthenticator>) -> Self {
        let addresses = ConnectionAddresses { local: Ipv4Addr::LOCALHOST.into(), remote: REMOTE };
        let connection = Connection::new(authenticator, addresses);
        Self { connection, guard: Guard::new(AUTHORITY.parse().unwrap(), &[], &[]) }
    }

    /// A request that passed the connection's own check, or why it did not.
    async fn admitted<T>(
        &self,
        path: &str,
        session: Option<&str>,
        message: T,
    ) -> Result<Request<T>, Status> {
        let mut request = http::Request::new(message);
        *request.uri_mut() = format!("http://{AUTHORITY}{path}").parse().unwrap();
        if let Some(session) = session {
            let session = HeaderValue::from_str(session).unwrap();
            request.headers_mut().insert(SESSION_METADATA, session);
        }
        self.connection.count().await?;
        self.connection.admit(&self.guard, &mut request).await?;
        Ok(Request::from_http(request))
    }

    async fn challenge(&self, client_nonce: &str) -> Result<ChallengeResponse, Status> {
        let message = ChallengeRequest { client_nonce: client_nonce.to_owned() };
        let request = self.admitted("/drawgate.v1.LoginService/Challenge", None, message).await?;
        Ok(Login.challenge(request).await?.into_inner())
    }

    async fn submit(&self, statement: &str, signature: &str) -> Result<String, Status> {
        let (statement, signature) = (statement.to_owned(), signature.to_owned());
        let message = ProveRequest { statement, signature };
        let request = self.admitted("/drawgate.v1.LoginService/Prove", None, message).await?;
        Ok(Login.prove(request).await?.into_inner().session)
    }

    async fn proof(&self, key: &TestKey) -> (String, String) {
        let challenge = self.challenge("").await.unwrap();
        let statement = LoginStatement {
            purpose: Purpose::Pack,
            name: "files",
            server: &challenge.server,
            authority: AUTHORITY,
            nonce: &challenge.nonce,
        }
        .to_string();
        let signature = key.sign(LOGIN_NAMESPACE, &statement);
        (statement, signature)
    }

    async fn log_in(&self, key: &TestKey) -> Result<String, Status> {
        let (statement, signature) = self.proof(key).await;
        self.submit(&statement, &signature).await
    }

    async fn call(&self, session: Option<&str>) -> Result<Request<()>, Status> {
        self.admitted("/drawgate.v1.PackService/Connect", session, ()).await
    }
}

fn authenticator() -> (TestAuthenticator, TestKey) {
    let key = TestKey::ed25519();
    (TestAuthenticator::new(&format!("pack=\"files\",tools=\"*\" {}\n", key.public)), key)
}

#[tokio::test]
async fn a_login_opens_its_connection() {
    let (test, key) = authenticator();
    let caller = Caller::new(&test.authenticator);
    let session = caller.log_in(&key).await.unwrap();
    let request = caller.call(Some(&session)).await.unwrap();
    let found = peer(&request, Purpose::Pack).unwrap();
    assert_eq!((found.name.as_str(), found.purpose), ("files", Purpose::Pack));
    assert!(found.terms.tools.allows("anything"));
    assert_ne!(found.session, session, "the public name is not the secret");
    assert_eq!(peer(&request, Purpose::Agent).unwrap_err().code(), Code::PermissionDenied);
    caller.connection.ended(DisconnectReason::Left).await;
    caller.connection.ended(DisconnectReason::Lost).await;
    assert_eq!(test.events(), ["peer_connected", "peer_disconnected left"]);
    assert_eq!(caller.call(Some(&session)).await.unwrap_err().code(), Code::Unauthenticated);
}

#[tokio::test]
async fn a_session_counts_on_its_own_connection_alone() {
    let (test, key) = authenticator();
    let (first, second) = (Caller::new(&test.authenticator), Caller::new(&test.authenticator));
    let session = first.log_in(&key).await.unwrap();
    let other = second.log_in(&key).await.unwrap();
    assert_ne!(session, other);
    let wrong = [None, Some(""), Some("x"), Some(other.as_str())];
    for session in wrong {
        let refused = first.call(session).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
    }
    // Neither may there be two.
    let mut request = http::Request::new(());
    *request.uri_mut() =
        format!("http://{AUTHORITY}/drawgate.v1.PackService/Connect").parse().unwrap();
    for session in [&session, &other] {
        request.headers_mut().append(SESSION_METADATA, HeaderValue::from_str(session).unwrap());
    }
    assert!(first.connection.admit(&first.guard, &mut request).await.is_err());
    let refused = ["peer_refused no_session"; 5];
    assert_eq!(test.events(), [["peer_connected"; 2].as_slice(), &refused].concat());
    assert!(first.call(Some(&session)).await.is_ok());
}

#[tokio::test]
async fn nothing_but_the_open_services_is_reached_without_a_login() {
    let (test, _) = authenticator();
    let caller = Caller::new(&test.authenticator);
    let open = [
        "/drawgate.v1.LoginService/Challenge",
        "/grpc.health.v1.Health/Check",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ];
    for path in open {
        assert!(caller.admitted(path, None, ()).await.is_ok(), "{path}");
    }
    let closed = [
        "/drawgate.v1.PackService/Connect",
        "/drawgate.v1.FoldService/Converse",
        "/drawgate.v1.LoginServiceX/Challenge",
        "/x/drawgate.v1.LoginService/Challenge",
        "/",
    ];
    for path in closed {
        let refused = caller.admitted(path, None, ()).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{path}");
    }
    for _ in 0..64 {
        let _ = caller.admitted(open[1], None, ()).await;
    }
    assert!(caller.connection.cut().is_cancelled(), "nor without end");
}

#[tokio::test]
async fn one_login_for_each_connection_and_few_attempts() {
    let (test, key) = authenticator();
    let caller = Caller::new(&test.authenticator);
    caller.log_in(&key).await.unwrap();
    assert!(caller.log_in(&key).await.is_err(), "a second login");
    assert!(!caller.connection.cut().is_cancelled());
    let stranger = Caller::new(&test.authenticator);
    for attempt in 1..=3 {
        assert!(!stranger.connection.cut().is_cancelled(), "{attempt}");
        let refused = stranger.submit("x", "y").await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
    }
    assert!(stranger.connection.cut().is_cancelled());
    let asking = Caller::new(&test.authenticator);
    for _ in 0..4 {
        asking.challenge("").await.unwrap();
    }
    assert!(asking.challenge("").await.is_err());
    assert!(asking.connection.cut().is_cancelled());
    let malformed = ["peer_refused malformed"; 3];
    let expected = [
        ["peer_connected", "peer_refused too_many"].as_slice(),
        &malformed,
        &["peer_refused too_many"],
    ];
    assert_eq!(test.events(), expected.concat());
}

#[tokio::test]
async fn who_has_to_make_room_is_written_down() {
    let (test, _) = authenticator();
    let first = Caller::new(&test.authenticator);
    let mut others = Vec::new();
    while !first.connection.cut().is_cancelled() {
        assert!(others.len() < 1000, "there is room for everybody");
        others.push(Caller::new(&test.authenticator));
    }
    let noted = async {
        while test.events().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), noted).await.unwrap();
    assert_eq!(test.events(), ["peer_refused no_room"]);
    let body = test.store.events().pop().unwrap().body;
    assert!(body.contains(&format!("\"remote\":\"{REMOTE}\"")), "{body}");
    // Its end is told once, and who ends by itself afterwards has not been refused.
    first.connection.ended(DisconnectReason::Lost).await;
    others[0].connection.ended(DisconnectReason::Left).await;
    assert_eq!(test.events().len(), 1);
}

#[tokio::test]
async fn a_proof_is_worth_nothing_later_or_elsewhere() {
    let (test, key) = authenticator();
    let (first, second) = (Caller::new(&test.authenticator), Caller::new(&test.authenticator));
    let (statement, signature) = first.proof(&key).await;
    let unused = first.proof(&key).await;
    first.submit(&statement, &signature).await.unwrap();
    let refused = first.submit(&statement, &signature).await.unwrap_err();
    assert!(refused.message().contains("used before"), "{refused:?}");
    assert!(second.submit(&statement, &signature).await.is_err());
    assert!(second.submit(&unused.0, &unused.1).await.is_err());
    test.clock.advance(u64::from(NONCE_SECONDS) * 1000 + 1);
    let refused = Caller::new(&test.authenticator).submit(&unused.0, &unused.1).await.unwrap_err();
    assert!(refused.message().contains("too old"), "{refused:?}");
    let expected = [
        "peer_connected",
        "peer_refused replayed",
        "peer_refused replayed",
        "peer_refused foreign",
        "peer_refused stale",
    ];
    assert_eq!(test.events(), expected);
}

#[tokio::test]
async fn strangers_learn_nothing_about_keys() {
    let (test, key) = authenticator();
    let stranger = TestKey::ed25519();
    let caller = Caller::new(&test.authenticator);
    let unknown = caller.log_in(&stranger).await.unwrap_err();
    let (statement, _) = caller.proof(&key).await;
    let bad = caller.submit(&statement, &key.sign(LOGIN_NAMESPACE, "x")).await.unwrap_err();
    let other = Caller::new(&test.authenticator);
    let (statement, _) = other.proof(&key).await;
    let statement = statement.replace("name=files", "name=other");
    let wrong = other.submit(&statement, &key.sign(LOGIN_NAMESPACE, &statement)).await.unwrap_err();
    for refused in [&bad, &wrong] {
        assert_eq!((refused.code(), refused.message()), (unknown.code(), unknown.message()));
    }
    let expected =
        ["peer_refused unknown_key", "peer_refused bad_signature", "peer_refused wrong_name"];
    assert_eq!(test.events(), expected);
}

#[tokio::test]
async fn a_withdrawn_key_cuts_the_connection() {
    let (test, key) = authenticator();
    let caller = Caller::new(&test.authenticator);
    let session = caller.log_in(&key).await.unwrap();
    let request = caller.call(Some(&session)).await.unwrap();
    std::fs::write(test.folder.path().join("authorized_keys"), "").unwrap();
    test.authenticator.reload();
    assert!(caller.connection.cut().is_cancelled());
    assert!(peer(&request, Purpose::Pack).is_err(), "also for requests that are here already");
    caller.connection.ended(DisconnectReason::Left).await;
    assert_eq!(test.events(), ["peer_connected", "peer_disconnected key_removed"]);
    assert!(Caller::new(&test.authenticator).log_in(&key).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_connection_has_twenty_seconds_to_log_in() {
    let (test, key) = authenticator();
    let (idle, busy) = (Caller::new(&test.authenticator), Caller::new(&test.authenticator));
    busy.log_in(&key).await.unwrap();
    tokio::time::advance(Duration::from_secs(19)).await;
    assert!(!idle.connection.cut().is_cancelled());
    idle.connection.cut().cancelled().await;
    while test.events().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(test.events(), ["peer_connected", "peer_refused timeout"]);
    assert!(!busy.connection.cut().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_login_must_be_used() {
    let (test, key) = authenticator();
    let (idle, busy) = (Caller::new(&test.authenticator), Caller::new(&test.authenticator));
    idle.log_in(&key).await.unwrap();
    let session = busy.log_in(&key).await.unwrap();
    busy.call(Some(&session)).await.unwrap();
    idle.connection.cut().cancelled().await;
    tokio::time::advance(Duration::from_mins(10)).await;
    tokio::task::yield_now().await;
    assert!(!busy.connection.cut().is_cancelled());
    idle.connection.ended(DisconnectReason::Left).await;
    assert_eq!(test.events().last().unwrap(), "peer_disconnected idle");
}

#[tokio::test]
async fn a_connection_is_for_what_it_was_proved_for() {
    let (test, key) = authenticator();
    let caller = Caller::new(&test.authenticator);
    let session = caller.log_in(&key).await.unwrap();
    let path = "/drawgate.v1.FoldService/Converse";
    let refused = caller.admitted(path, Some(&session), ()).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn who_takes_a_login_back_does_not_stay_half_inside() {
    let (test, key) = authenticator();
    let caller = Caller::new(&test.authenticator);
    let (statement, signature) = caller.proof(&key).await;
    {
        let mut submitted = std::pin::pin!(caller.submit(&statement, &signature));
        // Looked at once, and dropped.
        let _ =
            std::future::poll_fn(|cx| std::task::Poll::Ready(submitted.as_mut().poll(cx))).await;
    }
    while test.events().is_empty() || caller.connection.peer().is_none() {
        tokio::task::yield_now().await;
    }
    caller.connection.ended(DisconnectReason::Lost).await;
    assert_eq!(test.events(), ["peer_connected", "peer_disconnected lost"]);
}

#[tokio::test]
async fn the_gateway_proves_itself_to_those_who_ask() {
    let (test, _) = authenticator();
    let caller = Caller::new(&test.authenticator);
    assert_eq!(caller.challenge("").await.unwrap().server_signature, "");
    let challenge = caller.challenge("my-own-nonce").await.unwrap();
    assert!((1..=20).contains(&challenge.expires_in_seconds), "no longer than the login may take");
    let signature: ssh_key::SshSig = challenge.server_signature.parse().unwrap();
    let key = ssh_key::PublicKey::from(signature.public_key().clone());
    assert_eq!(key.fingerprint(ssh_key::HashAlg::Sha256).to_string(), challenge.server);
    let statement = server_statement(AUTHORITY, &challenge.nonce, "my-own-nonce");
    key.verify(SERVER_NAMESPACE, statement.as_bytes(), &signature).unwrap();
    for bad in ["a\nb", "a b", "ä", &"x".repeat(257)] {
        let refused = caller.challenge(bad).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{bad}");
    }
}

#[tokio::test]
async fn another_authority_or_a_web_page_does_not_get_in() {
    let (test, _) = authenticator();
    let caller = Caller::new(&test.authenticator);
    let admit = async |uri: &str, headers: &[(&'static str, &'static str)]| {
        let mut request = http::Request::new(());
        *request.uri_mut() = uri.parse().unwrap();
        for (name, value) in headers {
            request.headers_mut().append(*name, HeaderValue::from_static(value));
        }
        caller.connection.admit(&caller.guard, &mut request).await.map_err(|status| status.code())
    };
    let path = "/drawgate.v1.LoginService/Challenge";
    let ours = format!("http://{AUTHORITY}{path}");
    assert_eq!(admit(&ours, &[]).await, Ok(()));
    assert_eq!(admit(&ours, &[("host", AUTHORITY)]).await, Ok(()));
    assert_eq!(admit(path, &[("host", AUTHORITY)]).await, Ok(()));
    let refused = Err(Code::PermissionDenied);
    assert_eq!(admit(&format!("http://evil.example{path}"), &[]).await, refused);
    assert_eq!(admit(&ours, &[("host", "evil.example")]).await, refused);
    assert_eq!(admit(&ours, &[("host", AUTHORITY), ("host", AUTHORITY)]).await, refused);
    assert_eq!(admit(path, &[]).await, refused);
    assert_eq!(admit(&ours, &[("origin", "https://evil.example")]).await, refused);
}
