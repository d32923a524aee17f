use super::*;
use crate::peers::read_key;
use crate::peers::testing::{HandMade, TestKey, armour, dearmour, string};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair};
use ssh_key::HashAlg;

const NAMESPACE: &str = "drawgate-login";
const TEXT: &str = "drawgate-login-v1\npurpose=pack\n";

/// Whether an armoured signature counts.
fn counts(public: &str, text: &str, armoured: &str) -> bool {
    let key = read_key(public).unwrap();
    read(armoured).is_some_and(|signature| is_valid(&key, NAMESPACE, text, &signature))
}

/// The public key's own bytes.
fn blob(public: &str) -> Vec<u8> {
    STANDARD.decode(public.split(' ').nth(1).unwrap()).unwrap()
}

#[test]
fn signatures_of_ssh_keygen_count() {
    let kinds: [&[&str]; 4] = [
        &["-t", "ed25519"],
        &["-t", "ecdsa", "-b", "256"],
        &["-t", "ecdsa", "-b", "384"],
        &["-t", "rsa", "-b", "2048"],
    ];
    for kind in kinds {
        let key = TestKey::of(kind);
        for options in [&["-O", "hashalg=sha512"], &["-O", "hashalg=sha256"]] {
            let signature = key.sign_with(NAMESPACE, TEXT, options);
            assert!(counts(&key.public, TEXT, &signature), "{kind:?} {options:?}");
            assert!(!counts(&key.public, &TEXT.replace("pack", "agent"), &signature), "{kind:?}");
            assert!(!counts(&key.public, &format!("{TEXT}\n"), &signature), "{kind:?}");
            assert!(!counts(&TestKey::of(kind).public, TEXT, &signature), "{kind:?}");
        }
        assert!(!counts(&key.public, TEXT, &key.sign("file", TEXT)), "{kind:?}");
        assert!(!counts(&key.public, TEXT, &key.sign("drawgate-server", TEXT)), "{kind:?}");
    }
}

#[test]
fn rsa_counts_with_sha2_alone() {
    let key = TestKey::of(&["-t", "rsa", "-b", "2048", "-m", "PEM"]);
    let pem = std::fs::read_to_string(key.path()).unwrap();
    let der: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let pair = RsaKeyPair::from_der(&STANDARD.decode(der).unwrap()).unwrap();
    let signed = SshSig::signed_data(NAMESPACE, HashAlg::Sha512, TEXT.as_bytes()).unwrap();
    let mut raw = vec![0; pair.public().modulus_len()];
    let random = ring::rand::SystemRandom::new();
    pair.sign(&RSA_PKCS1_SHA256, &random, &signed, &mut raw).unwrap();
    let named = |algorithm: &[u8]| {
        let signature = [string(algorithm), string(&raw)].concat();
        let public = blob(&key.public);
        HandMade { version: 1, public: &public, namespace: NAMESPACE, signature: &signature }
            .armour()
    };
    assert!(counts(&key.public, TEXT, &named(b"rsa-sha2-256")));
    // The right bytes under the wrong name, and the name that means SHA-1.
    assert!(!counts(&key.public, TEXT, &named(b"rsa-sha2-512")));
    assert!(!counts(&key.public, TEXT, &named(b"ssh-rsa")));
    assert!(!counts(&key.public, TEXT, &named(b"ssh-ed25519")));
}

#[test]
fn security_keys_count_if_somebody_touched_them() {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[9; 32]).unwrap();
    let name = b"sk-ssh-ed25519@openssh.com";
    let public = [string(name), string(pair.public_key().as_ref()), string(b"ssh:")].concat();
    let line = format!("sk-ssh-ed25519@openssh.com {}", STANDARD.encode(&public));
    let signed = SshSig::signed_data(NAMESPACE, HashAlg::Sha512, TEXT.as_bytes()).unwrap();
    let digest = |bytes: &[u8]| ring::digest::digest(&ring::digest::SHA256, bytes);
    let with = |flags: u8| {
        let trailer = [&[flags], 7_u32.to_be_bytes().as_slice()].concat();
        let inner = [digest(b"ssh:").as_ref(), &trailer, digest(&signed).as_ref()].concat();
        let raw = pair.sign(&inner);
        let signature = [string(name), string(raw.as_ref()), trailer].concat();
        HandMade { version: 1, public: &public, namespace: NAMESPACE, signature: &signature }
            .armour()
    };
    assert!(counts(&line, TEXT, &with(1)));
    assert!(counts(&line, TEXT, &with(5)), "touched, and the person verified");
    assert!(!counts(&line, TEXT, &with(0)), "nobody was there");
    assert!(!counts(&line, TEXT, &with(4)), "nobody was there");
    assert!(!counts(&line, &TEXT.replace("pack", "agent"), &with(1)));
}

#[test]
fn other_widths_and_line_ends_are_read() {
    let key = TestKey::ed25519();
    let signature = key.sign(NAMESPACE, TEXT);
    let rows = [
        signature.replace('\n', "\r\n"),
        format!("\n  {signature}\n\n"),
        signature.trim_end().to_owned(),
        armour(&dearmour(&signature)),
    ];
    for row in rows {
        assert!(counts(&key.public, TEXT, &row), "{row}");
    }
}

#[test]
fn what_is_no_signature_is_not_read() {
    let key = TestKey::ed25519();
    let good = key.sign(NAMESPACE, TEXT);
    let bytes = dearmour(&good);
    let (public, version) = (blob(&key.public), |version| {
        let mut changed = bytes.clone();
        changed[6..10].copy_from_slice(&u32::to_be_bytes(version));
        armour(&changed)
    });
    let empty = HandMade { version: 1, public: &public, namespace: NAMESPACE, signature: b"" };
    let unnamed = HandMade { namespace: "", ..empty };
    let rows = [
        String::new(),
        "x".to_owned(),
        good.replace("SSH SIGNATURE", "SSH PUBLIC KEY"),
        good.replace("-----END SSH SIGNATURE-----", ""),
        good.replace("-----BEGIN SSH SIGNATURE-----", ""),
        good.lines().take(3).collect::<Vec<_>>().join("\n"),
        good.replacen('\n', "\n!", 1),
        good.replacen('\n', "\nä", 1),
        good.replacen('\n', "\n\u{0}", 1),
        format!("{good}{good}"),
        armour(&bytes[..bytes.len() - 1]),
        armour(&bytes[..40]),
        armour(&[bytes.as_slice(), b"x"].concat()),
        armour(b""),
        armour(b"SSHSIG"),
        armour(b"SSHSIG\0\0\0\x01\xff\xff\xff\xff"),
        version(0),
        version(2),
        version(u32::MAX),
        empty.armour(),
        unnamed.armour(),
        format!(
            "-----BEGIN SSH SIGNATURE-----\n{}\n-----END SSH SIGNATURE-----",
            "A".repeat(MAX_SIGNATURE)
        ),
    ];
    for row in rows {
        assert!(read(&row).is_none(), "{row}");
    }
}

#[test]
fn no_changed_byte_leaves_a_signature_that_counts() {
    let key = TestKey::ed25519();
    let bytes = dearmour(&key.sign(NAMESPACE, TEXT));
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(!counts(&key.public, TEXT, &armour(&changed)), "byte {at}");
    }
}
