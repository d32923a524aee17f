//! Keys and signatures of OpenSSH's own making, and hostile ones made by hand.
#![expect(clippy::disallowed_methods, reason = "tests run `ssh-keygen` itself")]
#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::unwrap_used,
    reason = "support of tests, which say what they need by their names"
)]

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drawgate_core::testing::{TestClock, TestIds, TestStore};
use drawgate_sdk::statement::{LoginStatement, Purpose};
use tempfile::TempDir;

use super::{KeyFile, PeerAuthenticator, PeerAuthenticatorParts};

/// A key pair in a folder of its own.
pub struct TestKey {
    folder: TempDir,
    /// The public key's line.
    pub public: String,
}

impl TestKey {
    pub fn ed25519() -> Self {
        Self::of(&["-t", "ed25519"])
    }

    /// A key made with these options of `ssh-keygen`.
    pub fn of(options: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("key");
        let file = file.to_str().unwrap();
        let comment = ["-q", "-N", "", "-C", "someone@example", "-f", file];
        ssh_keygen(&[options, comment.as_slice()].concat());
        let public = std::fs::read_to_string(format!("{file}.pub")).unwrap();
        Self { folder, public: public.trim().to_owned() }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("key")
    }

    /// A signature by `ssh-keygen -Y sign`.
    pub fn sign(&self, namespace: &str, text: &str) -> String {
        self.sign_with(namespace, text, &[])
    }

    pub fn sign_with(&self, namespace: &str, text: &str, options: &[&str]) -> String {
        let message = self.folder.path().join("message");
        std::fs::write(&message, text).unwrap();
        let signature = self.folder.path().join("message.sig");
        let _ = std::fs::remove_file(&signature);
        let key = self.path();
        let args = ["-q", "-Y", "sign", "-f", key.to_str().unwrap(), "-n", namespace];
        let message = [message.to_str().unwrap()];
        ssh_keygen(&[args.as_slice(), options, &message].concat());
        std::fs::read_to_string(signature).unwrap()
    }

    /// Signed by itself, as an authority would.
    pub fn certificate(&self) -> String {
        let key = self.path();
        let key = key.to_str().unwrap();
        ssh_keygen(&["-q", "-s", key, "-I", "someone", &format!("{key}.pub")]);
        std::fs::read_to_string(format!("{key}-cert.pub")).unwrap().trim().to_owned()
    }
}

fn ssh_keygen(args: &[&str]) {
    let mut command = Command::new("ssh-keygen");
    let output = command.args(args).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A string in SSH's encoding.
pub fn string(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap();
    [&length.to_be_bytes(), bytes].concat()
}

/// A signature put together by hand.
pub struct HandMade<'a> {
    pub version: u32,
    pub public: &'a [u8],
    pub namespace: &'a str,
    pub signature: &'a [u8],
}

impl HandMade<'_> {
    pub fn armour(&self) -> String {
        let blob = [
            b"SSHSIG".as_slice(),
            &self.version.to_be_bytes(),
            &string(self.public),
            &string(self.namespace.as_bytes()),
            &string(b""),
            &string(b"sha512"),
            &string(self.signature),
        ]
        .concat();
        armour(&blob)
    }
}

pub fn armour(blob: &[u8]) -> String {
    let text = STANDARD.encode(blob);
    format!("-----BEGIN SSH SIGNATURE-----\n{text}\n-----END SSH SIGNATURE-----\n")
}

/// The bytes in an armour.
pub fn dearmour(text: &str) -> Vec<u8> {
    let body: String = text.lines().filter(|line| !line.starts_with("-----")).collect();
    STANDARD.decode(body).unwrap()
}

/// An authenticator with its own folder, clock and log.
pub struct TestAuthenticator {
    pub authenticator: Arc<PeerAuthenticator>,
    pub clock: Arc<TestClock>,
    pub store: Arc<TestStore>,
    pub folder: TempDir,
}

/// Where connections come from.
pub const REMOTE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
pub const AUTHORITY: &str = "127.0.0.1:7700";

impl TestAuthenticator {
    /// With this list of keys.
    pub fn new(list: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let keys = folder.path().join("authorized_keys");
        std::fs::write(&keys, list).unwrap();
        Self::of(&keys, folder)
    }

    /// With somebody else's list of keys.
    pub fn sharing(keys: &Path) -> Self {
        Self::of(keys, TempDir::new().unwrap())
    }

    fn of(keys: &Path, folder: TempDir) -> Self {
        let (clock, store) = (Arc::new(TestClock::default()), Arc::new(TestStore::default()));
        let parts = PeerAuthenticatorParts {
            keys: KeyFile::new(keys.to_owned()),
            identity: folder.path().join("identity.key"),
            reserved: Some("oauth-".to_owned()),
            audit: store.clone(),
            clock: clock.clone(),
            ids: Arc::new(TestIds::default()),
        };
        let authenticator = PeerAuthenticator::open(parts).unwrap();
        Self { authenticator, clock, store, folder }
    }

    /// The statement of a pack for a challenge.
    pub fn statement(&self, name: &str, nonce: &str) -> String {
        let identity = self.authenticator.identity().unwrap();
        let server = identity.name();
        let (purpose, authority) = (Purpose::Pack, AUTHORITY);
        LoginStatement { purpose, name, server, authority, nonce }.to_string()
    }

    /// The events of the log, as their kind and, where there is one, their reason.
    pub fn events(&self) -> Vec<String> {
        let events = self.store.events();
        let events = events.iter().map(|event| event.event().unwrap());
        events
            .map(|event| match event.rest.get("reason").and_then(|reason| reason.as_str()) {
                Some(reason) => format!("{} {reason}", event.kind),
                None => event.kind.to_string(),
            })
            .collect()
    }
}
