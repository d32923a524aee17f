use super::*;
use crate::peers::testing::{AUTHORITY, REMOTE, TestDoor, TestKey};
use crate::peers::{NONCE_SECONDS, NewKey, Selection};
use drawgate_sdk::statement::Purpose;

/// A door, and the key of its one pack.
fn door() -> (TestDoor, TestKey) {
    let key = TestKey::ed25519();
    (TestDoor::new(&format!("pack=\"files\",tools=\"*\" {}\n", key.public)), key)
}

fn attempt<'a>(connection: u64, statement: &'a str, signature: &'a str) -> Attempt<'a> {
    Attempt { connection, authority: AUTHORITY, statement, signature }
}

/// Proves something on connection 1 with a fresh challenge, after a change to the statement.
fn judge(
    test: &TestDoor,
    key: &TestKey,
    change: impl Fn(String) -> String,
) -> Result<Arc<Authorized>, Refusal> {
    let nonce = test.door.challenge(1);
    let statement = change(test.statement("files", &nonce));
    let signature = key.sign(LOGIN_NAMESPACE, &statement);
    let judged = test.door.prove(&attempt(1, &statement, &signature), &mut vec![nonce]);
    judged.map_err(|refused| refused.refusal)
}

#[test]
fn a_true_proof_counts_and_any_other_is_told_apart() {
    let (test, key) = door();
    assert_eq!(judge(&test, &key, |it| it).unwrap().name, "files");
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
        let judged = judge(&test, &key, |statement| statement.replacen(from, to, 1));
        assert_eq!(judged.unwrap_err(), expected, "{to}");
    }
    assert_eq!(judge(&test, &TestKey::ed25519(), |it| it).unwrap_err(), Refusal::UnknownKey);
    let long =
        judge(&test, &key, |it| it.replace("name=files", &format!("name={}", "x".repeat(5000))));
    assert_eq!(long.unwrap_err(), Refusal::Malformed);
}

#[test]
fn the_authority_is_the_same_in_capitals() {
    let (test, key) = door();
    let nonce = test.door.challenge(1);
    let statement = test.statement("files", &nonce).replace(AUTHORITY, "LOCALHOST:7700");
    let signature = key.sign(LOGIN_NAMESPACE, &statement);
    let mut attempt = attempt(1, &statement, &signature);
    attempt.authority = "localhost:7700";
    assert!(test.door.prove(&attempt, &mut vec![nonce]).is_ok());
}

#[test]
fn a_signature_must_be_of_this_statement_for_this_use() {
    let (test, key) = door();
    let nonce = test.door.challenge(1);
    let statement = test.statement("files", &nonce);
    let other = test.statement("files", &test.door.challenge(1));
    let rows = [
        (key.sign(LOGIN_NAMESPACE, &other), Refusal::BadSignature),
        (key.sign("file", &statement), Refusal::Foreign),
        (key.sign("drawgate-server", &statement), Refusal::Foreign),
        (String::new(), Refusal::Malformed),
        ("x".repeat(100_000), Refusal::Malformed),
    ];
    for (signature, expected) in rows {
        let nonce = test.door.challenge(1);
        let statement =
            statement.replace(statement.rsplit('=').next().unwrap(), &format!("{nonce}\n"));
        let judged = test.door.prove(&attempt(1, &statement, &signature), &mut vec![nonce]);
        let refused = judged.unwrap_err();
        assert_eq!(refused.refusal, expected);
        assert_eq!(refused.name.as_deref(), Some("files"));
    }
}

#[test]
fn a_proof_counts_once_here_and_now() {
    let (test, key) = door();
    let nonce = test.door.challenge(1);
    let statement = test.statement("files", &nonce);
    let signature = key.sign(LOGIN_NAMESPACE, &statement);
    let judge = |connection, open: &mut Vec<String>| {
        test.door.prove(&attempt(connection, &statement, &signature), open).map_err(|it| it.refusal)
    };
    assert_eq!(judge(2, &mut Vec::new()).unwrap_err(), Refusal::Foreign, "stolen before its use");
    let mut open = vec![nonce];
    assert!(judge(1, &mut open).is_ok());
    assert_eq!(judge(1, &mut open).unwrap_err(), Refusal::Replayed);
    assert_eq!(judge(2, &mut Vec::new()).unwrap_err(), Refusal::Replayed, "stolen after its use");
    test.clock.advance(u64::from(NONCE_SECONDS) * 1000 + 1);
    assert_eq!(judge(1, &mut open).unwrap_err(), Refusal::Stale);
    assert_eq!(judge(2, &mut Vec::new()).unwrap_err(), Refusal::Stale);
    // Another process on the same folder: the same key, but challenges of its own.
    let (again, _) = door();
    let judged = again.door.prove(&attempt(1, &statement, &signature), &mut Vec::new());
    assert_eq!(judged.unwrap_err().refusal, Refusal::Foreign);
}

#[test]
fn who_loses_the_key_is_cut() {
    let (test, key) = door();
    let enter = || {
        let ending = Arc::new(Ending::default());
        let terms = judge(&test, &key, |it| it).unwrap();
        let number = test.door.enter(&ending, REMOTE);
        (0..number).for_each(|earlier| test.door.leave(earlier));
        test.door.join(number, &terms, &ending).unwrap();
        (terms, ending)
    };
    let file = test.folder.path().join("authorized_keys");
    let line = std::fs::read_to_string(&file).unwrap();
    let (terms, first) = enter();
    // Comments, other lines and another order change nothing.
    std::fs::write(&file, format!("# c\nnonsense\n{} another comment\n", line.trim())).unwrap();
    assert!(test.door.is_edited());
    test.door.reload();
    assert!(!test.door.is_edited());
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
        test.door.reload();
        let (_, ending) = enter();
        std::fs::write(&file, &text).unwrap();
        test.door.reload();
        assert_eq!(ending.reason(), Some(End::KeyRemoved), "{text}");
        assert!(ending.token().is_cancelled());
        let late = test.door.join(99, &terms, &Arc::new(Ending::default()));
        assert_eq!(late, Err(Refusal::UnknownKey), "proved just before");
    }
    std::fs::write(&file, &line).unwrap();
    test.door.reload();
    let (_, ending) = enter();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    assert!(test.door.is_edited(), "also if only the permissions change");
    test.door.reload();
    assert_eq!(ending.reason(), Some(End::KeyRemoved));
    assert!(test.door.list().problem().is_some() && test.door.list().entries().is_empty());
}

#[test]
fn a_name_has_so_many_connections() {
    let key = TestKey::ed25519();
    let lines = ["pack=\"files\",tools=\"*\"", "pack=\"other\",tools=\"*\"", "agent=\"files\""];
    let lines = lines.map(|options| format!("{options} {}\n", key.public));
    let test = TestDoor::new(&lines.concat());
    let list = test.door.list();
    let [pack, other, agent] = [0, 1, 2].map(|at| Arc::clone(&list.entries()[at].terms));
    let join = |number, terms| test.door.join(number, terms, &Arc::default());
    for number in 1..=4 {
        assert_eq!(join(number, &pack), Ok(()));
    }
    assert_eq!(join(5, &pack), Err(Refusal::Crowded));
    assert_eq!(join(6, &other), Ok(()));
    test.door.leave(1);
    assert_eq!(join(5, &pack), Ok(()));
    for number in 100..164 {
        assert_eq!(join(number, &agent), Ok(()));
    }
    assert_eq!(join(164, &agent), Err(Refusal::Crowded));
}

#[tokio::test(start_paused = true)]
async fn edits_by_hand_are_written_down() {
    let (test, key) = door();
    let file = test.folder.path().join("authorized_keys");
    let line = std::fs::read_to_string(&file).unwrap();
    test.door.refresh().await;
    assert_eq!(test.events(), [""; 0]);
    std::fs::write(&file, format!("{line}agent=\"bot\" {}\n", key.public)).unwrap();
    test.door.refresh().await;
    assert_eq!(test.events(), ["key_added"]);
    std::fs::write(&file, line.replace("\"*\"", "\"a b c\"")).unwrap();
    test.door.refresh().await;
    assert_eq!(test.events(), ["key_added", "key_removed", "key_removed", "key_added"]);
    let body = test.store.events().pop().unwrap().body;
    assert!(body.contains("\"by\":\"file\"") && body.contains("\"tools\":\"a b c\""), "{body}");
}

#[tokio::test(start_paused = true)]
async fn a_save_in_two_steps_cuts_nobody() {
    let (test, key) = door();
    let file = test.folder.path().join("authorized_keys");
    let line = std::fs::read_to_string(&file).unwrap();
    let ending = Arc::new(Ending::default());
    let terms = judge(&test, &key, |it| it).unwrap();
    test.door.join(test.door.enter(&ending, REMOTE), &terms, &ending).unwrap();
    // Emptied when the change is noticed, and written again while it is waited for.
    std::fs::write(&file, "").unwrap();
    let door = Arc::clone(&test.door);
    let refresh = tokio::spawn(async move { door.refresh().await });
    tokio::task::yield_now().await;
    std::fs::write(&file, format!("{line}# more\n")).unwrap();
    refresh.await.unwrap();
    assert!(!test.door.is_edited() && !ending.token().is_cancelled());
    assert_eq!(test.events(), [""; 0]);
}

#[test]
fn a_damaged_identity_matters_only_where_it_is_needed() {
    let (test, key) = door();
    let file = test.folder.path().join("identity.key");
    assert!(!file.exists(), "not made before it is needed");
    std::fs::write(&file, "half a k").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert!(test.door.identity().is_err());
    assert_eq!(test.door.list().entries().len(), 1);
    std::fs::remove_file(&file).unwrap();
    let first = test.door.identity().unwrap();
    assert_eq!(Identity::open(&file).unwrap().name(), first.name());
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    assert!(Identity::open(&file).is_err());
    assert!(judge(&test, &key, |it| it).is_ok(), "it is read once");
}

#[test]
fn those_who_only_wait_make_room() {
    let (test, _) = door();
    let endings: Vec<_> = (0..=waiting::MAX_WAITING).map(|_| Arc::new(Ending::default())).collect();
    let numbers: Vec<u64> = endings.iter().map(|ending| test.door.enter(ending, REMOTE)).collect();
    let cut = |at: usize| endings[at].token().is_cancelled();
    assert!(cut(0), "the oldest");
    assert!(!cut(1) && !cut(waiting::MAX_WAITING));
    test.door.leave(numbers[1]);
    test.door.enter(&Arc::new(Ending::default()), REMOTE);
    assert!(!cut(2), "there was room");
}

#[test]
fn keys_are_added_and_removed_without_harm_to_other_lines() {
    let (test, key) = door();
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
    let terms = test.door.would_add(&line).unwrap();
    assert_eq!((terms.name.as_str(), terms.purpose), ("bot", Purpose::Agent));
    test.door.add(&line).unwrap();
    let after = std::fs::read_to_string(&file).unwrap();
    assert_eq!(after, format!("{before}\nagent=\"bot\",capabilities=\"a\" {}\n", other.public));
    assert_eq!(test.door.list().entries().len(), 2, "it counts at once");
    let again = test.door.would_add(&line).unwrap_err().to_string();
    assert!(again.contains("already, in line 4"), "{again}");
    let selection = Selection { fingerprint: Some(terms.fingerprint), name: None };
    assert_eq!(test.door.would_remove(&selection).unwrap().len(), 1);
    test.door.remove(&selection).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{before}\n"));
    // Nothing may bring options along.
    for name in ["x\",capabilities=\"*", "x\ny", "", "local", "oauth-x"] {
        let new = new(name, Purpose::Agent, &[], &key);
        let added = new.line().and_then(|line| test.door.would_add(&line));
        assert!(added.is_err(), "{name}");
    }
    let new = new("p", Purpose::Pack, &["x\" ,agent=\"y"], &key);
    assert!(new.line().is_err());
}

/// Several gateways may share a file: each reads it, and puts another in its place.
#[test]
fn no_line_is_lost_when_many_are_added_at_once() {
    let (test, _) = door();
    let file = test.folder.path().join("authorized_keys");
    let doors: Vec<TestDoor> = (0..4).map(|_| TestDoor::sharing(&file)).collect();
    let lines = |number: usize| (0..4).map(move |count| format!("# {number} {count}"));
    std::thread::scope(|scope| {
        for (number, other) in doors.iter().enumerate() {
            scope.spawn(move || lines(number).for_each(|line| other.door.add(&line).unwrap()));
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
    let (test, _) = door();
    for _ in 0..100 {
        test.door.note_refusal(&Refusal::BadSignature.into(), REMOTE).await;
    }
    assert_eq!(test.events().len(), 60);
    test.door.note_refusal(&Refusal::Stale.into(), REMOTE).await;
    assert_eq!(test.events().len(), 61, "noise of one kind does not hide another");
    test.clock.advance(60_000);
    let refused = Refused {
        refusal: Refusal::UnknownKey,
        purpose: Some(Purpose::Pack),
        name: Some("x\u{1b}[2J".repeat(100)),
        fingerprint: Some("SHA256:x".to_owned()),
    };
    test.door.note_refusal(&refused, REMOTE).await;
    assert_eq!(test.events().last().unwrap(), "peer_refused unknown_key");
    let body = test.store.events().pop().unwrap().body;
    assert!(body.len() < 1500 && !body.contains("\\u001b"), "{body}");
}
