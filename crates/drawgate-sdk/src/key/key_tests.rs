//! Signatures against the real `ssh-keygen` and `ssh-agent`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::*;

const NAMESPACE: &str = "drawgate-login";
const MESSAGE: &[u8] = b"drawgate-login-v1\npurpose=pack\n";
const KINDS: [(&str, &str); 4] =
    [("ed25519", "256"), ("ecdsa", "256"), ("ecdsa", "384"), ("rsa", "2048")];

#[expect(clippy::disallowed_methods, reason = "OpenSSH's own programs are the judges here")]
fn command(program: &str) -> Command {
    Command::new(program)
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn generate(folder: &Path, kind: &str, bits: &str, passphrase: &str) -> PathBuf {
    let path = folder.join(format!("{kind}-{bits}"));
    let comment = format!("{kind} {bits}");
    run(command("ssh-keygen")
        .args(["-q", "-t", kind, "-b", bits, "-N", passphrase, "-C", &comment, "-f"])
        .arg(&path));
    path
}

/// Whether `ssh-keygen -Y verify` takes the signature for the message, by the key in `public`.
fn verifies(folder: &Path, public: &str, signature: &str, message: &[u8]) -> bool {
    let allowed = folder.join("allowed");
    let file = folder.join("signature");
    std::fs::write(&allowed, format!("me {public}\n")).unwrap();
    std::fs::write(&file, signature).unwrap();
    let mut verifier = command("ssh-keygen")
        .args(["-q", "-Y", "verify", "-I", "me", "-n", NAMESPACE, "-f"])
        .arg(allowed)
        .arg("-s")
        .arg(file)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    verifier.stdin.take().unwrap().write_all(message).unwrap();
    verifier.wait().unwrap().success()
}

/// An ssh-agent of its own, ended with the test.
struct Agent {
    process: Child,
    socket: PathBuf,
}

impl Agent {
    fn start(folder: &Path) -> Self {
        let socket = folder.join("agent");
        let mut process = command("ssh-agent")
            .args(["-D", "-a"])
            .arg(&socket)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Its first words come when it listens.
        let mut first = [0];
        std::io::Read::read_exact(process.stdout.as_mut().unwrap(), &mut first).unwrap();
        Self { process, socket }
    }

    fn add(&self, key: &Path) {
        run(command("ssh-add").arg("-q").arg(key).env("SSH_AUTH_SOCK", &self.socket));
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn public_of(path: &Path) -> PathBuf {
    path.with_extension("pub")
}

#[tokio::test]
async fn signatures_from_a_file_are_accepted_by_openssh() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, bits) in KINDS {
        let path = generate(folder.path(), kind, bits, "");
        let key = Key::from_file(&path).unwrap();
        let public = std::fs::read_to_string(public_of(&path)).unwrap();
        assert_eq!(key.public_key().unwrap(), public.trim());
        let signature = key.sign(NAMESPACE, MESSAGE).await.unwrap();
        assert!(verifies(folder.path(), &public, &signature, MESSAGE), "{kind} {bits}");
        assert!(!verifies(folder.path(), &public, &signature, b"else"), "{kind} {bits}");
        let foreign = key.sign("else", MESSAGE).await.unwrap();
        assert!(!verifies(folder.path(), &public, &foreign, MESSAGE), "{kind} {bits}");
    }
}

#[tokio::test]
async fn keys_whose_number_begins_with_zeros_sign_too() {
    let folder = tempfile::tempdir().unwrap();
    for (private, public) in [
        (
            include_str!("../../tests/keys/short-p256"),
            include_str!("../../tests/keys/short-p256.pub"),
        ),
        (
            include_str!("../../tests/keys/short-p384"),
            include_str!("../../tests/keys/short-p384.pub"),
        ),
    ] {
        let key = Key::parse(private).unwrap();
        assert_eq!(key.public_key().unwrap(), public.trim());
        let signature = key.sign(NAMESPACE, MESSAGE).await.unwrap();
        assert!(verifies(folder.path(), public, &signature, MESSAGE), "{public}");
    }
}

#[tokio::test]
async fn signatures_of_an_ssh_agent_are_accepted_by_openssh() {
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::start(folder.path());
    for (kind, bits) in KINDS {
        let path = generate(folder.path(), kind, bits, "");
        agent.add(&path);
        let which = AgentKey::PublicKeyFile(public_of(&path));
        let key = Key::from_agent_at(&agent.socket, which).await.unwrap();
        let public = std::fs::read_to_string(public_of(&path)).unwrap();
        let signature = key.sign(NAMESPACE, MESSAGE).await.unwrap();
        assert!(verifies(folder.path(), &public, &signature, MESSAGE), "{kind} {bits}");
    }
}

#[tokio::test]
async fn a_key_of_an_ssh_agent_is_chosen_without_guessing() {
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::start(folder.path());
    let choose = |which| Key::from_agent_at(&agent.socket, which);
    let none = choose(AgentKey::Only).await.unwrap_err();
    assert!(matches!(none, KeyError::NotInAgent { .. }), "{none}");

    let first = generate(folder.path(), "ed25519", "256", "");
    agent.add(&first);
    let expected = Key::from_file(&first).unwrap().fingerprint();
    assert_eq!(choose(AgentKey::Only).await.unwrap().fingerprint(), expected);

    agent.add(&generate(folder.path(), "ecdsa", "256", ""));
    let two = choose(AgentKey::Only).await.unwrap_err();
    assert!(matches!(two, KeyError::Ambiguous { .. }), "{two}");
    for which in
        [AgentKey::Comment("ed25519 256".to_owned()), AgentKey::Fingerprint(expected.clone())]
    {
        assert_eq!(choose(which).await.unwrap().fingerprint(), expected);
    }
    let absent = choose(AgentKey::Comment("nobody".to_owned())).await.unwrap_err().to_string();
    assert!(absent.contains("nobody") && absent.contains("ecdsa 256"), "{absent}");
}

#[tokio::test]
async fn an_ssh_agent_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("nothing");
    let error = Key::from_agent_at(&socket, AgentKey::Only).await.unwrap_err();
    assert!(error.to_string().contains("nothing"), "{error}");
}

#[test]
fn what_is_no_usable_private_key_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let locked = generate(folder.path(), "ed25519", "256", "secret");
    let text = |path: &Path| std::fs::read_to_string(path).unwrap();
    let error = Key::parse(&text(&locked)).unwrap_err();
    assert!(matches!(error, KeyError::Passphrase), "{error}");
    assert!(error.to_string().contains("ssh-add"), "{error}");
    let public = Key::parse(&text(&public_of(&locked))).unwrap_err();
    assert!(matches!(public, KeyError::Public), "{public}");
    let pem = "-----BEGIN RSA PRIVATE KEY-----\nAA==\n-----END RSA PRIVATE KEY-----\n";
    for other in ["", "hello", pem] {
        assert!(matches!(Key::parse(other).unwrap_err(), KeyError::Format), "{other}");
    }
    let broken = text(&locked).replacen("b3BlbnNzaC1r", "AAAAAAAAAAAA", 1);
    assert!(matches!(Key::parse(&broken).unwrap_err(), KeyError::Key(_)));
    let absent = Key::from_file(folder.path().join("absent")).unwrap_err();
    assert!(matches!(absent, KeyError::Read { .. }), "{absent}");
}

#[test]
fn a_key_shows_its_fingerprint_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let key = Key::from_file(generate(folder.path(), "ed25519", "256", "")).unwrap();
    let shown = format!("{key:?}");
    assert!(shown.contains(&key.fingerprint()), "{shown}");
    assert!(shown.len() < 120, "{shown}");
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = generate(folder.path(), "ed25519", "256", "");
    Key::from_file(&path).unwrap();
    for mode in [0o640, 0o604, 0o620] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let error = Key::from_file(&path).unwrap_err();
        assert!(matches!(error, KeyError::Exposed { .. }), "{mode:o}: {error}");
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }
}
