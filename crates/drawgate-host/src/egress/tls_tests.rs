use std::path::Path;

use rustls_native_certs::{Error, load_certs_from_paths};

use super::super::network::System;
use super::*;

const AUTHORITY: &[u8] = include_bytes!("../../tests/it/egress/certificates/authority.pem");

/// Asks for a client as often as there are answers of the machine; how often it was looked at.
fn looks(trust: &Trust, scopes: &[Scope], load: impl Fn() -> CertificateResult) -> usize {
    let network: Arc<dyn Network> = Arc::new(System);
    let looks = std::cell::Cell::new(0);
    for scope in scopes {
        let counted = || {
            looks.set(looks.get() + 1);
            load()
        };
        trust.client_by(*scope, &network, counted).unwrap();
    }
    looks.get()
}

fn failing(kind: ErrorKind) -> CertificateResult {
    let mut result = CertificateResult::default();
    result.errors.push(Error { context: "reading", kind });
    result
}

fn io_error(number: i32) -> ErrorKind {
    ErrorKind::Io { inner: io::Error::from_raw_os_error(number), path: "/certs".into() }
}

fn trust() -> Trust {
    Trust::new(Authorities::from_pem(AUTHORITY).unwrap())
}

const ASKED: [Scope; 3] = [Scope::Public, Scope::Anywhere, Scope::Public];

#[tokio::test]
async fn what_could_be_read_is_read_once() {
    assert_eq!(looks(&trust(), &ASKED, CertificateResult::default), 1);
}

#[tokio::test]
async fn what_failed_for_now_is_read_again() {
    let trust = trust();
    for number in [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EIO] {
        assert_eq!(looks(&trust, &ASKED, || failing(io_error(number))), 3, "{number}");
    }
    assert_eq!(looks(&trust, &ASKED, CertificateResult::default), 1, "once it is whole");
}

#[tokio::test]
async fn what_nobody_can_ever_read_is_done_without() {
    for number in [libc::ENOENT, libc::EACCES] {
        assert_eq!(looks(&trust(), &ASKED, || failing(io_error(number))), 1, "{number}");
    }
}

#[tokio::test]
async fn a_machine_without_certificates_is_asked_again() {
    let trust = Trust::default();
    let network: Arc<dyn Network> = Arc::new(System);
    // It can be opened, and not read.
    let unread = || load_certs_from_paths(Some(Path::new("/proc/self/mem")), None);
    assert!(unread().errors.iter().any(may_pass), "{:?}", unread().errors);
    let refused = trust.client_by(Scope::Public, &network, unread).err().unwrap();
    assert!(refused.contains("has no certificates"), "{refused}");
    let mut whole = CertificateResult::default();
    whole.certs = Authorities::from_pem(AUTHORITY).unwrap().0;
    assert!(trust.client_by(Scope::Public, &network, || whole).is_ok());
}
