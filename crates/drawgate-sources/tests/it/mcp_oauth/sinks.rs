//! Addresses that a server or its authorization server publishes, and that lead inside: each is
//! refused where a login would use it, and nobody is knocked at.

use std::io;
use std::net::SocketAddr;

use async_trait::async_trait;
use drawgate_host::credentials::Bearer as _;
use drawgate_host::egress::Egress;
use drawgate_host::egress::network::Network;
use parking_lot::Mutex;
use tokio::net::TcpStream;

use super::credentials;
use super::world::Behaviour;
use super::*;

/// The operating system's, on this machine only, and a list of who was connected to.
#[derive(Default)]
struct Roads(Mutex<Vec<String>>);

#[async_trait]
impl Network for Roads {
    async fn resolve(&self, _: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![([10, 0, 0, 9], port).into()])
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.0.lock().push(format!("http://{address}"));
        if !address.ip().is_loopback() {
            return Err(io::Error::other("nobody goes there"));
        }
        TcpStream::connect(address).await
    }
}

const INNER: [&str; 19] = [
    "http://169.254.169.254/latest/",
    "https://169.254.169.254/latest/",
    "http://localhost:6379/",
    "https://localhost:6379/",
    "http://127.0.0.1:6379/",
    "https://127.0.0.1:6379/",
    "http://[::1]:6379/",
    "http://10.0.0.1/token",
    "https://10.0.0.1/token",
    "https://2130706433/token",
    "https://0x7f.1/token",
    "https://[fd00:ec2::254]/",
    "https://[::ffff:169.254.169.254]/",
    "https://metadata.google.internal/",
    // A public name of an inner address.
    "https://inner.example/",
    "javascript:alert(1)",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_INFO",
    "https://as.example@10.0.0.1/",
];

/// Where a login uses an address of others.
type Sink = (&'static str, fn(&mut Behaviour, String));

const SINKS: [Sink; 4] = [
    ("resource_metadata", |it, url| it.resource_metadata = Some(url)),
    ("authorization_servers", |it, url| it.authority = Some(url)),
    ("registration_endpoint", |it, url| it.registration_endpoint = Some(url)),
    ("token_endpoint", |it, url| it.token_endpoint = Some(url)),
];

/// A stage whose operator allows the true authorization server, and nothing else inside.
async fn stage(world: World, settings: LoginSettings) -> (Stage, Arc<Roads>) {
    let roads = Arc::new(Roads::default());
    let environment = BTreeMap::from([("CLIENT_SECRET".to_owned(), "s3cret/value".to_owned())]);
    let mut host = Host::new(Secrets::new(environment), None).unwrap();
    host.egress = Arc::new(Egress::over(roads.clone()));
    let issuer = world.issuer.trim_start_matches("http://").parse().unwrap();
    host.egress.allow(vec![issuer]);
    let url = world.url();
    (Stage::on(host, world, &url, settings, TestStore::default()).await, roads)
}

/// Refused for what it is, and not for what came of asking there.
fn assert_refused(error: &str, row: &str) {
    let words = ["which was refused", "can't be used", "not an address"];
    assert!(words.iter().any(|words| error.contains(words)), "{row}: {error}");
}

fn assert_nobody_else(stage: &Stage, roads: &Roads, row: &str) {
    let known = [&stage.world.issuer, &stage.world.origin];
    for place in roads.0.lock().iter() {
        assert!(known.contains(&place), "{row}: {place} was connected to");
    }
    assert!(!roads.0.lock().is_empty(), "{row}: not even the server was asked");
}

#[tokio::test]
async fn nothing_inside_is_asked_in_a_login() {
    for (sink, set) in SINKS {
        for inner in INNER {
            let row = format!("{sink} {inner}");
            let (stage, roads) = stage(World::start().await, LoginSettings::default()).await;
            stage.world.behave(|it| set(it, inner.to_owned()));
            let error = stage.log_in().await.unwrap_err();
            assert_refused(&error, &row);
            assert_nobody_else(&stage, &roads, &row);
            assert_eq!(stage.world.seen("/token").len(), 0, "{row}");
            assert_eq!(stage.login.header().await.unwrap(), None, "{row}");
        }
    }
    let (stage, roads) = stage(World::start().await, LoginSettings::default()).await;
    stage.log_in().await.unwrap();
    assert_nobody_else(&stage, &roads, "as it should be");
}

/// No person looks on here, and there is a secret to be had.
#[tokio::test]
async fn nothing_inside_is_asked_for_a_token() {
    for (sink, set) in SINKS.into_iter().filter(|(sink, _)| *sink != "registration_endpoint") {
        for inner in INNER {
            let row = format!("{sink} {inner}");
            let (stage, roads) = stage(credentials::world().await, credentials::settings()).await;
            stage.world.behave(|it| set(it, inner.to_owned()));
            let error = stage.login.header().await.unwrap_err().to_string();
            assert_refused(&error, &row);
            assert!(!error.contains("s3cret"), "{row}: {error}");
            assert_nobody_else(&stage, &roads, &row);
        }
    }
    let (stage, roads) = stage(credentials::world().await, credentials::settings()).await;
    stage.header().await;
    assert_nobody_else(&stage, &roads, "as it should be");
}

/// A logout takes a token along, and is made wherever the login was.
#[tokio::test]
async fn nothing_inside_is_asked_in_a_logout() {
    for inner in INNER {
        let (stage, roads) = stage(World::start().await, LoginSettings::default()).await;
        stage.world.behave(|it| it.revocation_endpoint = Some(inner.to_owned()));
        if stage.log_in().await.is_ok() {
            // The token is forgotten here, whether or not it could be revoked there.
            let _unreachable = stage.login.log_out(&Principal::local()).await;
            assert_eq!(stage.login.header().await.unwrap(), None, "{inner}");
        }
        assert_nobody_else(&stage, &roads, inner);
    }
}
