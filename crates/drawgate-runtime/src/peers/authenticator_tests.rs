use super::*;
use crate::peers::testing::{AUTHORITY, REMOTE, TestAuthenticator, TestKey};
use crate::peers::{NONCE_SECONDS, NewKey, Selection};
use drawgate_sdk::statement::Purpose;

/// A door, and the key of its one pack.
fn authenticator() -> (TestAuthenticator, TestKey) {
    let key = TestKey::ed25519();
    (TestAuthenticator::new(&format!("pack=\"files\",tools=\"*\" {}\n", key.public)), key)
}

fn attempt<'a>(connection: u64, statement: &'a str, signature: &'a str) -> LoginAttempt<'a> {
    LoginAttempt { connection, authority: AUTHORITY, statement, signature }
}

/// Proves something on connection 1 with a fresh challenge, after a change to the statement.
fn verify(
    test: &TestAuthenticator,
    key: &TestKey,
    change: impl Fn(String) -> String,
) -> Result<Arc<KeyTerms>, Refusal> {
    let nonce = test.authenticator.challenge(1);
    let statement = change(test.statement("files", &nonce));
    let signature = key.sign(LOGIN_NAMESPACE, &statement);
    let verified = test.authenticator.prove(&attempt(1, &statement, &signature), &mut vec![nonce]);
    verified.map_err(|refused| refused.refusal)
}

#[test]
fn a_true_proof_counts_and_any_other_is_told_apart() {
    let (test, key) = authenticator();
    assert_eq!(verify(&test, &key, |it| it).unwrap().name, "files");
    let rows: [(&str, &str, Refusal); 7] = [
        ("name=files", "name=other", Refusal::WrongName),
        ("purpose=pack", "purpose=agent", Refusal::WrongName),
        ("purpose=pack", "purpose=root", Refusal::Malformed),
        ("server=SHA256:", "server=SHA256:x", Refusal::Foreign),
        ("authority=127.0.0.1:7700", "authority=127.0.0.1:7701", Refusal::Foreign),
        ("authority=127.0.0.1:7700", "authority=", Refusal::Foreign),
        ("-v1\n", "-v2\n", Refusal::Malformed),
    ];
    for (from, to, expected) in rows {
        let verified = verify(&test, &key, |statement| statement.replacen(from, to, 1));
        assert_eq!(verified.unwrap_err(), expected, "{to}");
    }
    assert_eq!(verify(&test, &TestKey::ed25519(), |it| it).unwrap_err(), Refusal::UnknownKey);
    let long =
        verify(&test, &key, |it| it.replace("name=files", &format!("name={}", "x".repeat(5000))));
    assert_eq!(long.unwrap_err(), Refusal::Malformed);
}

#[test]
fn the_authority_is_the_same_in_capitals() {
    let (test, key) = authenticator();
    let nonce = test.authenticator.challenge(1);
    let statement = test.statement("files", &nonce).replace(AUTHORITY, "LOCALHOST:7700");
    let signature = key.sign(LOGIN_NAMESPACE, &statement);
    let mut attempt = attempt(1, &statement, &signature);
    attempt.authority = "localhost:7700";
    assert!(test.authenticator.prove(&attempt, &mut vec![nonce]).is_ok());
}

#[test]
fn a_signature_must_be_of_this_statement_for_this_use() {
    let (test, key) = authenticator();
    let nonce = test.authenticator.challenge(1);
    let statement = test.statement("files", &nonce);
    let other = test.statement("files", &test.authenticator.challenge(1));
    let rows = [
        (key.sign(LOGIN_NAMESPACE, &other), Refusal::BadSignature),
        (key.sign("file", &statement), Refusal::Foreign),
        (key.sign("drawgate-server", &statement), Refusal::Foreign),
        (String::new(), Refusal::Malformed),
        ("x".repeat(100_000), Refusal::Malformed),
    ];
    for (signature, expected) in rows {
        let nonce = test.authenticator.challenge(1);
        let statement =
            statement.replace(statement.rsplit('=').next().unwrap(), &format!("{nonce}\n"));
        let verified =
            test.authenticator.prove(&attempt(1, &statement, &signature), &mut vec![nonce]);
        let refused = verified.unwrap_err();
        assert_eq!(refused.refusal, expected);
        assert_eq!(refused.name.as_deref(), Some("files"));
    }
}

#[test]
fn a_proof_counts_once_here_and_now() {
    let (test, key) = authenticator();
    let nonce = test.authenticator.challenge(1);
    let statement = test.statement("files", &nonce);
    let signature = key.sign(LOGIN_NAMESPACE, &statement);
    let verify = |connection, open: &mut Vec<String>| {
        test.authenticator
            .prove(&attempt(connection, &statement, &signature), open)
            .map_err(|it| it.refusal)
    };
    assert_eq!(verify(2, &mut Vec::new()).unwrap_err(), Refusal::Foreign, "stolen before its use");
    let mut open = vec![nonce];
    assert!(verify(1, &mut open).is_ok());
    assert_eq!(verify(1, &mut open).unwrap_err(), Refusal::Replayed);
    assert_eq!(verify(2, &mut Vec::new()).unwrap_err(), Refusal::Replayed, "stolen after its use");
    test.clock.advance(u64::from(NONCE_SECONDS) * 1000 + 1);
    assert_eq!(verify(1, &mut open).unwrap_err(), Refusal::Stale);
    assert_eq!(verify(2, &mut Vec::new()).unwrap_err(), Refusal::Stale);
    // Another process on the same folder: the same key, but challenges of its own.
    let (again, _) = authenticator();
    let verified = again.authenticator.prove(&attempt(1, &statement, &signature), &mut Vec::new());
    assert_eq!(verified.unwrap_err().refusal, Refusal::Foreign);
}

#[test]
fn who_loses_the_key_is_cut() {
    let (test, key) = authenticator();
    let enter = || {
        let disconnection = Arc::new(Disconnection::default());
        let terms = verify(&test, &key, |it| it).unwrap();
        let number = test.authenticator.connect(&disconnection, REMOTE);
        (0..number).for_each(|earlier| test.authenticator.disconnect(earlier));
        test.authenticator.log_in(number, &terms, &disconnection).unwrap();
        (terms, disconnection)
    };
    let file = test.folder.path().join("authorized_keys");
    let line = std::fs::read_to_string(&file).unwrap();
    let (terms, first) = enter();
    // Comments, other lines and another order change nothing.
    std::fs::write(&file, format!("# c\nnonsense\n{} another comment\n", line.trim())).unwrap();
    assert!(test.authenticator.is_edited());
    test.authenticator.reload();
    assert!(!test.authenticator.is_edited());
    assert!(!first.token().is_cancelled());
    let gone = [
        String::new(),
        line.replace("tools=\"*\"", "tools=\"a\""),
        line.replace("pack=\"files\"", "pack=\"other\""),
        line.replace("tools=", "capabilities=\"x\",tools="),
        format!("unknown,{line}"),
    ];
    for text in gone {
        std::fs::write(&file, &line).unwrap();
        test.authenticator.reload();
        let (_, disconnection) = enter();
        std::fs::write(&file, &text).unwrap();
        test.authenticator.reload();
        assert_eq!(disconnection.reason(), Some(DisconnectReason::KeyRemoved), "{text}");
        assert!(disconnection.token().is_cancelled());
        let late = test.authenticator.log_in(99, &terms, &Arc::new(Disconnection::default()));
        assert_eq!(late, Err(Refusal::UnknownKey), "proved just before");
    }
    std::fs::write(&file, &line).unwrap();
    test.authenticator.reload();
    let (_, disconnection) = enter();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    assert!(test.authenticator.is_edited(), "also if only the permissions change");
    test.authenticator.reload();
    assert_eq!(disconnection.reason(), Some(DisconnectReason::KeyRemoved));
    assert!(
        test.authenticator.list().problem().is_some()
            && test.authenticator.list().entries().is_empty()
    );
}

#[test]
fn a_name_has_so_many_connections() {
    let key = TestKey::ed25519();
    let lines = ["pack=\"files\",tools=\"*\"", "pack=\"other\",tools=\"*\"", "agent=\"files\""];
    let lines = lines.map(|options| format!("{options} {}\n", key.public));
    let test = TestAuthenticator::new(&lines.concat());
    let list = test.authenticator.list();
    let [pack, other, agent] = [0, 1, 2].map(|at| Arc::clone(&list.entries()[at].terms));
    let join = |number, terms| test.authenticator.log_in(number, terms, &Arc::default());
    for number in 1..=4 {
        assert_eq!(join(number, &pack), Ok(()));
    }
    assert_eq!(join(5, &pack), Err(Refusal::Crowded));
    assert_eq!(join(6, &other), Ok(()));
    test.authenticator.disconnect(1);
    assert_eq!(join(5, &pack), Ok(()));
    for number in 100..164 {
        assert_eq!(join(number, &agent), Ok(()));
    }
    assert_eq!(join(164, &agent), Err(Refusal::Crowded));
}

#[tokio::test(start_paused = true)]
async fn edits_by_hand_are_written_down() {
    let (test, key) = authenticator();
    let file = test.folder.path().join("authorized_keys");
    let line = std::fs::read_to_string(&file).unwrap();
    test.authenticator.refresh().await;
    assert_eq!(test.events(), [""; 0]);
    std::fs::write(&file, format!("{line}agent=\"bot\" {}\n", key.public)).unwrap();
    test.authenticator.refresh().await;
    assert_eq!(test.events(), ["key_added"]);
    std::fs::write(&file, line.replace("\"*\"", "\"a b c\"")).unwrap();
    test.authenticator.refresh().await;
    assert_eq!(test.events(), ["key_added", "key_removed", "key_removed", "key_added"]);
    let body = test.store.events().pop().unwrap().body;
    assert!(body.contains("\"by\":\"file\"") && body.contains("\"tools\":\"a b c\""), "{body}");
}

#[tokio::test(start_paused = true)]
async fn a_save_in_two_steps_cuts_nobody() {
    let (test, key) = authenticator();
    let file = test.folder.path().join("authorized_keys");
    let line = std::fs::read_to_string(&file).unwrap();
    let disconnection = Arc::new(Disconnection::default());
    let terms = verify(&test, &key, |it| it).unwrap();
    test.authenticator
        .log_in(test.authenticator.connect(&disconnection, REMOTE), &terms, &disconnection)
        .unwrap();
    // Emptied when the change is noticed, and written again while it is waited for.
    std::fs::write(&file, "").unwrap();
    let authenticator = Arc::clone(&test.authenticator);
    let refresh = tokio::spawn(async move { authenticator.refresh().await });
    tokio::task::yield_now().await;
    std::fs::write(&file, format!("{line}# more\n")).unwrap();
    refresh.await.unwrap();
    assert!(!test.authenticator.is_edited() && !disconnection.token().is_cancelled());
    assert_eq!(test.events(), [""; 0]);
}

#[test]
fn a_damaged_identity_matters_only_where_it_is_needed() {
    let (test, key) = authenticator();
    let file = test.folder.path().join("identity.key");
    assert!(!file.exists(), "not made before it is needed");
    std::fs::write(&file, "half a k").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert!(test.authenticator.identity().is_err());
    assert_eq!(test.authenticator.list().entries().len(), 1);
    std::fs::remove_file(&file).unwrap();
    let first = test.authenticator.identity().unwrap();
    assert_eq!(Identity::open(&file).unwrap().name(), first.name());
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    assert!(Identity::open(&file).is_err());
    assert!(verify(&test, &key, |it| it).is_ok(), "it is read once");
}

#[test]
fn those_who_only_wait_make_room() {
    let (test, _) = authenticator();
    let disconnections: Vec<_> =
        (0..=pending::MAX_PENDING).map(|_| Arc::new(Disconnection::default())).collect();
    let numbers: Vec<u64> = disconnections
        .iter()
        .map(|disconnection| test.authenticator.connect(disconnection, REMOTE))
        .collect();
    let cut = |at: usize| disconnections[at].token().is_cancelled();
    assert!(cut(0), "the oldest");
    assert!(!cut(1) && !cut(pending::MAX_PENDING));
    test.authenticator.disconnect(numbers[1]);
    test.authenticator.connect(&Arc::new(Disconnection::default()), REMOTE);
    assert!(!cut(2), "there was room");
}

#[test]
fn keys_are_added_and_removed_without_harm_to_other_lines() {
    let (test, key) = authenticator();
    let file = test.folder.path().join("authorized_keys");
    let before = format!(
        "# ours\r\n{}# the end, without a line feed",
        std::fs::read_to_string(&file).unwrap()
    );
    std::fs::write(&file, &before).unwrap();
    let new = |name: &str, purpose, tools: &[&str], key: &TestKey| NewKey {
        purpose,
        name: name.to_owned(),
        tools: tools.iter().map(|text| (*text).to_owned()).collect(),
        capabilities: vec!["a".to_owned()],
        key: key.public.clone(),
    };
    let other = TestKey::ed25519();
    let line = new("bot", Purpose::Agent, &[], &other).line().unwrap();
    let terms = test.authenticator.would_add(&line).unwrap();
    assert_eq!((terms.name.as_str(), terms.purpose), ("bot", Purpose::Agent));
    test.authenticator.add(&line).unwrap();
    let after = std::fs::read_to_string(&file).unwrap();
    assert_eq!(after, format!("{before}\nagent=\"bot\",capabilities=\"a\" {}\n", other.public));
    assert_eq!(test.authenticator.list().entries().len(), 2, "it counts at once");
    let again = test.authenticator.would_add(&line).unwrap_err().to_string();
    assert!(
        again.contains("already authorised for agent") && again.contains("in line 4"),
        "{again}"
    );
    let selection = Selection { fingerprint: Some(terms.fingerprint), name: None };
    assert_eq!(test.authenticator.would_remove(&selection).unwrap().len(), 1);
    test.authenticator.remove(&selection).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{before}\n"));
    // Nothing may bring options along.
    for name in ["x\",capabilities=\"*", "x\ny", "", "local", "oauth-x"] {
        let new = new(name, Purpose::Agent, &[], &key);
        let added = new.line().and_then(|line| test.authenticator.would_add(&line));
        assert!(added.is_err(), "{name}");
    }
    let new = new("p", Purpose::Pack, &["x\" ,agent=\"y"], &key);
    assert!(new.line().is_err());
}

/// Several gateways may share a file: each reads it, and puts another in its place.
#[test]
fn no_line_is_lost_when_many_are_added_at_once() {
    let (test, _) = authenticator();
    let file = test.folder.path().join("authorized_keys");
    let authenticators: Vec<TestAuthenticator> =
        (0..4).map(|_| TestAuthenticator::sharing(&file)).collect();
    let lines = |number: usize| (0..4).map(move |count| format!("# {number} {count}"));
    std::thread::scope(|scope| {
        for (number, other) in authenticators.iter().enumerate() {
            scope.spawn(move || {
                lines(number).for_each(|line| other.authenticator.add(&line).unwrap());
            });
        }
    });
    let written = std::fs::read_to_string(&file).unwrap();
    let mut found: Vec<&str> = written.lines().skip(1).collect();
    found.sort_unstable();
    assert_eq!(found, (0..4).flat_map(lines).collect::<Vec<_>>());
    let mut left: Vec<_> = std::fs::read_dir(test.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, [".authorized_keys.lock", "authorized_keys"]);
}

#[tokio::test]
async fn refusals_are_written_down_up_to_a_rate() {
    let (test, _) = authenticator();
    for _ in 0..100 {
        test.authenticator.record_refusal(&Refusal::BadSignature.into(), REMOTE).await;
    }
    assert_eq!(test.events().len(), 60);
    test.authenticator.record_refusal(&Refusal::Stale.into(), REMOTE).await;
    assert_eq!(test.events().len(), 61, "noise of one kind does not hide another");
    test.clock.advance(60_000);
    let refused = Refused {
        refusal: Refusal::UnknownKey,
        purpose: Some(Purpose::Pack),
        name: Some("x\u{1b}[2J".repeat(100)),
        fingerprint: Some("SHA256:x".to_owned()),
    };
    test.authenticator.record_refusal(&refused, REMOTE).await;
    assert_eq!(test.events().last().unwrap(), "peer_refused unknown_key");
    let body = test.store.events().pop().unwrap().body;
    assert!(body.len() < 1500 && !body.contains("\\u001b"), "{body}");
}
