//! Who gets in, and who does not: each refusal and each end with its event in the log.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use drawgate_sdk::proto::{ChallengeRequest, ProveRequest};
use drawgate_sdk::statement::{
    LOGIN_NAMESPACE, LoginStatement, Purpose, SERVER_NAMESPACE, server_statement,
};
use serde_json::Value;
use ssh_key::PrivateKey;
use tonic::Code;

use super::{Peers, RawPack, Wire, key, key_line, manifest, sign, tool};
use crate::support::eventually;

fn gateway() -> Peers {
    Peers::start(&[
        key_line("pack=\"files\",tools=\"read_* write_*\"", &key(1)),
        key_line("agent=\"bot\",capabilities=\"filesystem\"", &key(2)),
    ])
}

/// The events about peers, as kind and reason.
fn events(peers: &Peers) -> Vec<String> {
    let kinds = ["peer_connected", "peer_disconnected", "peer_refused", "key_added", "key_removed"];
    let shown = |event: &Value| {
        let kind = event["kind"].as_str().filter(|kind| kinds.contains(kind))?;
        let reason = event["reason"].as_str();
        Some(reason.map_or_else(|| kind.to_owned(), |reason| format!("{kind} {reason}")))
    };
    log(peers).iter().filter_map(shown).collect()
}

fn log(peers: &Peers) -> Vec<Value> {
    let text = peers.place.ok(&["audit", "export"]);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits for what is written down in the background.
async fn noted(peers: &Peers, expected: &[&str]) {
    eventually("the events are written down", async || {
        (events(peers).len() >= expected.len()).then_some(())
    })
    .await;
    assert_eq!(events(peers), expected);
}

/// A proof that is right on this connection, after a change to what is signed.
async fn proof(
    wire: &Wire,
    key: &PrivateKey,
    change: impl Fn(String) -> String,
) -> (String, String) {
    let challenge = wire.challenge().await.unwrap();
    let statement = change(wire.statement(&challenge, Purpose::Pack, "files"));
    let signature = sign(key, LOGIN_NAMESPACE, &statement);
    (statement, signature)
}

#[tokio::test]
async fn a_proof_that_does_not_count_is_refused_and_written_down() {
    let peers = gateway();
    let unchanged = |text: String| text;
    let mut refusals = Vec::new();

    let mut wire = peers.wire().await;
    let (statement, signature) = proof(&wire, &key(9), unchanged).await;
    refusals.push((wire.submit(statement, signature).await, "peer_refused unknown_key"));

    let (statement, _) = proof(&wire, &key(1), unchanged).await;
    let signature = sign(&key(1), LOGIN_NAMESPACE, "something else");
    refusals.push((wire.submit(statement, signature).await, "peer_refused bad_signature"));

    let mut wire = peers.wire().await;
    let renamed = |text: String| text.replace("name=files", "name=other");
    let (statement, signature) = proof(&wire, &key(1), renamed).await;
    refusals.push((wire.submit(statement, signature).await, "peer_refused wrong_name"));
    let (statement, signature) = proof(&wire, &key(2), unchanged).await;
    refusals.push((wire.submit(statement, signature).await, "peer_refused wrong_name"));

    let mut wire = peers.wire().await;
    let elsewhere = |text: String| text.replace("authority=127.0.0.1", "authority=127.0.0.2");
    let (statement, signature) = proof(&wire, &key(1), elsewhere).await;
    refusals.push((wire.submit(statement, signature).await, "peer_refused foreign"));
    let (statement, _) = proof(&wire, &key(1), unchanged).await;
    let signature = sign(&key(1), "file", &statement);
    refusals.push((wire.submit(statement, signature).await, "peer_refused foreign"));

    let mut wire = peers.wire().await;
    let (statement, _) = proof(&wire, &key(1), unchanged).await;
    refusals.push((wire.submit(statement, "nonsense".into()).await, "peer_refused malformed"));
    refusals.push((wire.submit("\0".into(), String::new()).await, "peer_refused malformed"));

    for (answer, event) in &refusals {
        assert_eq!(answer.as_ref().unwrap_err().code(), Code::Unauthenticated, "{event}");
    }
    let expected: Vec<&str> = refusals.iter().map(|(_, event)| *event).collect();
    assert_eq!(events(&peers), expected);
    let first = log(&peers).into_iter().find(|event| event["kind"] == "peer_refused").unwrap();
    assert_eq!((&first["purpose"], &first["name"]), (&"pack".into(), &"files".into()));
    let claimed = key(9).fingerprint(ssh_key::HashAlg::Sha256).to_string();
    assert_eq!(first["fingerprint"], claimed);
    assert_eq!(first["remote"], "127.0.0.1");
}

#[tokio::test]
async fn a_stolen_proof_is_worthless() {
    let (peers, other) = (gateway(), gateway());
    let mut wire = peers.wire().await;
    let (statement, signature) = proof(&wire, &key(1), |text| text).await;
    let unused = proof(&wire, &key(1), |text| text).await;
    let replay = |mut wire: Wire, (statement, signature): (String, String)| async move {
        wire.submit(statement, signature).await.unwrap_err()
    };
    let used = (statement.clone(), signature.clone());
    wire.submit(statement, signature).await.unwrap();
    for (place, refused) in [
        ("here", replay(wire.clone(), used.clone()).await),
        ("on another connection", replay(peers.wire().await, used.clone()).await),
    ] {
        assert!(refused.message().contains("used before"), "{place}: {refused:?}");
    }
    replay(peers.wire().await, unused.clone()).await;
    assert_eq!(
        events(&peers),
        [
            "peer_connected",
            "peer_refused replayed",
            "peer_refused replayed",
            "peer_refused foreign"
        ]
    );
    // Another gateway with the same keys, and a proof that names it but is made of our challenge.
    replay(other.wire().await, unused).await;
    let theirs = other.wire().await;
    let challenge = theirs.challenge().await.unwrap();
    let ours = peers.wire().await.challenge().await.unwrap();
    let statement = LoginStatement {
        purpose: Purpose::Pack,
        name: "files",
        server: &challenge.server,
        authority: theirs.authority(),
        nonce: &ours.nonce,
    }
    .to_string();
    let signature = sign(&key(1), LOGIN_NAMESPACE, &statement);
    replay(theirs, (statement, signature)).await;
    assert_eq!(events(&other), ["peer_refused foreign", "peer_refused foreign"]);
}

#[tokio::test]
async fn a_session_opens_nothing_elsewhere() {
    let peers = gateway();
    let pack = peers.pack("files", &key(1)).await;
    let mut thief = peers.wire().await;
    for session in [None, Some("x".to_owned()), pack.wire.session.clone()] {
        thief.session = session;
        let refused = RawPack { wire: thief.clone() }
            .connect(manifest("files", vec![tool("read_file", &[])]))
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused:?}");
    }
    // A pack's connection is not an agent's.
    let agent = super::RawAgent { wire: pack.wire.clone() };
    let Err(refused) = agent.join("files").await else { panic!("a pack is no agent") };
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused:?}");
    let expected = [
        "peer_connected",
        "peer_refused no_session",
        "peer_refused no_session",
        "peer_refused no_session",
    ];
    noted(&peers, &expected).await;
}

#[tokio::test]
async fn nothing_large_is_read_from_a_stranger() {
    let peers = gateway();
    let wire = peers.wire().await;
    let proof = ProveRequest { statement: "x".repeat(64 * 1024), signature: String::new() };
    let refused = wire.login().prove(proof).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange, "{refused:?}");
    let large = "x".repeat(8 * 1024 * 1024);
    let refused = RawPack { wire }.connect(manifest(&large, Vec::new())).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated, "{refused:?}");
    // And who keeps trying is cut.
    let mut wire = peers.wire().await;
    for _ in 0..3 {
        let _ = wire.submit("x".to_owned(), "y".to_owned()).await;
    }
    tokio::time::timeout(Duration::from_mins(1), wire.closed()).await.unwrap();
}

#[tokio::test]
async fn a_withdrawn_key_ends_its_connections_at_once() {
    let peers = gateway();
    let pack = peers.pack("files", &key(1)).await;
    let mut calls = pack.connect(manifest("files", vec![tool("read_file", &[])])).await.unwrap();
    let agent = peers.agent("bot", &key(2)).await;
    let (_conversation, welcome) = agent.join("bot").await.unwrap();
    assert_eq!(welcome.capabilities, ["filesystem"]);

    let removed = peers.place.ok(&["keys", "remove", "--pack", "files"]);
    assert!(removed.starts_with("removed SHA256:"), "{removed}");
    while let Ok(Some(_)) = calls.message().await {}
    pack.wire.closed().await;
    let names = peers.gateway.tool_names(&peers.gateway.token).await;
    assert!(!names.contains(&"read_file".to_owned()), "{names:?}");
    let mut wire = peers.wire().await;
    assert!(wire.prove(Purpose::Pack, "files", &key(1)).await.is_err());
    noted(
        &peers,
        &[
            "peer_connected",
            "peer_connected",
            "key_removed",
            "peer_disconnected key_removed",
            "peer_refused unknown_key",
        ],
    )
    .await;

    // By an edit of the file too, and also if a key only stands for something else.
    peers.authorize(&[key_line("agent=\"bot\",capabilities=\"other\"", &key(2))]);
    agent.wire.closed().await;
    eventually("the edit and the agent's end are written down", async || {
        let events = events(&peers);
        let count = |wanted: &str| events.iter().filter(|event| *event == wanted).count();
        let ends = count("peer_disconnected key_removed");
        (ends == 2 && count("key_removed") == 2 && count("key_added") == 1).then_some(())
    })
    .await;
    let agent = peers.agent("bot", &key(2)).await;
    let (_conversation, welcome) = agent.join("bot").await.unwrap();
    assert_eq!(welcome.capabilities, ["other"]);
}

#[tokio::test]
async fn a_list_that_others_may_write_lets_nobody_in() {
    let peers = gateway();
    let pack = peers.pack("files", &key(1)).await;
    let file = peers.place.data().join("authorized_keys");
    let mode = |mode| std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
    mode(0o666);
    pack.wire.closed().await;
    let mut wire = peers.wire().await;
    assert!(wire.prove(Purpose::Pack, "files", &key(1)).await.is_err());
    let keys = peers.place.json(&["keys", "list"]);
    assert!(keys["problem"].as_str().unwrap().contains("chmod go-w"), "{keys}");
    assert!(peers.place.log().contains("no authorised key counts"));
    mode(0o600);
    eventually("the keys count again", async || {
        let mut wire = peers.wire().await;
        wire.prove(Purpose::Pack, "files", &key(1)).await.ok()
    })
    .await;
}

#[tokio::test]
async fn the_gateway_shows_the_identity_that_it_proves() {
    let peers = gateway();
    let wire = peers.wire().await;
    let request = ChallengeRequest { client_nonce: "my-nonce".to_owned() };
    let challenge = wire.login().challenge(request).await.unwrap().into_inner();
    let shown = peers.place.ok(&["keys", "server"]);
    assert_eq!(shown.trim(), challenge.server);
    let public = peers.place.json(&["keys", "server"])["publicKey"].clone();
    let public: ssh_key::PublicKey = public.as_str().unwrap().parse().unwrap();
    let signature: ssh_key::SshSig = challenge.server_signature.parse().unwrap();
    let statement = server_statement(wire.authority(), &challenge.nonce, "my-nonce");
    public.verify(SERVER_NAMESPACE, statement.as_bytes(), &signature).unwrap();
    // It stays the same, and its file is its owner's alone.
    let file = peers.place.data().join("identity.key");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let (place, gateway, before) = (peers.place, peers.gateway, challenge.server);
    // Beside this thread, on which our end of the connection says goodbye.
    tokio::task::spawn_blocking(move || gateway.terminate()).await.unwrap();
    let _again = place.serve();
    assert_eq!(place.ok(&["keys", "server"]).trim(), before);
}
