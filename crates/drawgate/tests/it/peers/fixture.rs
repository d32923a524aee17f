//! A gateway with a list of authorised keys.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

use ssh_key::private::{Ed25519Keypair, PrivateKey};

use super::wire::{RawAgent, RawPack, Wire};
use crate::support::{Gateway, TestFolder};

/// A gateway in a process of its own, and its list of authorised keys.
pub(crate) struct Peers {
    pub(crate) place: TestFolder,
    pub(crate) gateway: Gateway,
}

impl Peers {
    /// A gateway with nothing configured and these lines in its list of keys.
    pub(crate) fn start(lines: &[String]) -> Self {
        Self::start_with("", lines)
    }

    /// The same, with a configuration.
    pub(crate) fn start_with(config: &str, lines: &[String]) -> Self {
        let place = TestFolder::new(config);
        std::fs::DirBuilder::new().mode(0o700).create(place.data()).unwrap();
        authorize(&place, lines);
        let gateway = place.serve();
        Self { place, gateway }
    }

    /// Replaces the list of keys.
    pub(crate) fn authorize(&self, lines: &[String]) {
        authorize(&self.place, lines);
    }

    /// The gateway's address as SDKs take it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.gateway.address)
    }

    /// A connection that has not proved anything.
    pub(crate) async fn wire(&self) -> Wire {
        Wire::connect(&self.gateway.address).await
    }

    /// A pack's connection, proved, not registered.
    pub(crate) async fn pack(&self, name: &str, key: &PrivateKey) -> RawPack {
        RawPack::prove(self.wire().await, name, key).await.unwrap()
    }

    /// An agent's connection, proved, not registered.
    pub(crate) async fn agent(&self, name: &str, key: &PrivateKey) -> RawAgent {
        RawAgent::prove(self.wire().await, name, key).await.unwrap()
    }
}

fn authorize(place: &TestFolder, lines: &[String]) {
    let next = place.data().join("authorized_keys.next");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&next).unwrap();
    for line in lines {
        writeln!(file, "{line}").unwrap();
    }
    std::fs::rename(next, place.data().join("authorized_keys")).unwrap();
}

/// A key for tests; the same number is always the same key.
pub(crate) fn key(number: u8) -> PrivateKey {
    Ed25519Keypair::from_seed(&[number; 32]).into()
}

/// A line of the list: what a key stands for.
pub(crate) fn key_line(options: &str, key: &PrivateKey) -> String {
    format!("{options} {}", key.public_key().to_openssh().unwrap())
}
