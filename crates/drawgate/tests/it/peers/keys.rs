//! `drawgate keys`, with and without a gateway that runs.

use std::io::Write;
use std::process::Stdio;

use drawgate_sdk::statement::Purpose;

use super::{Wire, key};
use crate::support::{TestFolder, text};

fn public(number: u8, comment: &str) -> String {
    let mut public = key(number).public_key().clone();
    public.set_comment(comment);
    public.to_openssh().unwrap()
}

fn fingerprint(number: u8) -> String {
    key(number).fingerprint(ssh_key::HashAlg::Sha256).to_string()
}

fn file(place: &TestFolder) -> String {
    std::fs::read_to_string(place.data().join("authorized_keys")).unwrap()
}

fn refused(place: &TestFolder, args: &[&str]) -> String {
    let output = place.run(args);
    assert!(!output.status.success(), "{args:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

#[test]
fn a_key_comes_from_a_file_from_standard_input_or_as_text() {
    let place = TestFolder::new("");
    std::fs::write(place.path().join("id.pub"), format!("{}\n", public(1, "me@here"))).unwrap();
    let said = place.ok(&["keys", "add", "--pack", "files", "id.pub"]);
    assert!(said.contains(&fingerprint(1)), "{said}");
    assert!(
        said.contains("it may offer tools named *; `--tools PATTERN` would limit it"),
        "{said}"
    );
    assert!(said.contains("next: start it with the private key"), "{said}");
    let server = place.ok(&["keys", "server"]);
    assert!(said.contains(server.trim()), "{said}");

    let arguments =
        ["keys", "add", "--agent", "bot", "--capability", "a", "--capability", "b", "-"];
    let mut command = place.command(&arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(public(2, "").as_bytes()).unwrap();
    let said = text(&child.wait_with_output().unwrap().stdout);
    assert!(said.contains("it may hold a b"), "{said}");

    let typed = public(3, "typed in");
    place.ok(&["keys", "add", "--pack", "db", "--tools", "db_* sql", "--tools", "x", &typed]);
    let expected = [
        format!("pack=\"files\",tools=\"*\" {}\n", public(1, "me@here")),
        format!("agent=\"bot\",capabilities=\"a b\" {}\n", public(2, "")),
        format!("pack=\"db\",tools=\"db_* sql x\" {typed}\n"),
    ];
    assert_eq!(file(&place), expected.concat());

    let keys = place.json(&["keys", "list"]);
    let names: Vec<&str> =
        keys["keys"].as_array().unwrap().iter().map(|key| key["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["files", "bot", "db"]);
    assert_eq!(keys["keys"][0]["type"], "ssh-ed25519");
    let table = place.ok(&["keys", "list"]);
    assert!(table.trim_start().starts_with("FOR") && table.contains(&fingerprint(3)), "{table}");
    let log = place.ok(&["audit", "export"]);
    assert_eq!(log.matches("\"kind\":\"key_added\"").count(), 3);
}

#[test]
fn what_can_not_be_a_key_is_refused_with_the_reason() {
    let place = TestFolder::new("");
    let write = |name: &str, text: &str| std::fs::write(place.path().join(name), text).unwrap();
    let private = key(1).to_openssh(ssh_key::LineEnding::LF).unwrap();
    write("private", &private);
    write("two.pub", &format!("{}\n{}\n", public(1, ""), public(2, "")));
    write("empty.pub", "\n# nothing\n");
    let one = public(1, "");
    let rows: [(&[&str], &str); 11] = [
        (&["--pack", "a", "private"], "it is a private key"),
        (&["--pack", "a", "two.pub"], "more than one key"),
        (&["--pack", "a", "empty.pub"], "there is no key"),
        (&["--pack", "a", "missing.pub"], "`missing.pub` can't be read"),
        (&["--pack", "a", "hello world"], "it is not a public key"),
        (&[&one], "`--pack NAME` or `--agent NAME`"),
        (&["--pack", "a", "--agent", "b", &one], "cannot be used with"),
        (&["--agent", "b", "--tools", "x", &one], "`--tools` is for packs"),
        (&["--agent", "local", &one], "`local` is kept for other callers"),
        (&["--pack", "a b", &one], "is not a valid source id"),
        (&["--agent", "x\",capabilities=\"*", &one], "is not a valid agent name"),
    ];
    for (arguments, expected) in rows {
        let said = refused(&place, &[&["keys", "add"], arguments].concat());
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    assert!(!place.data().join("authorized_keys").exists());
    place.ok(&["keys", "add", "--agent", "b", &one]);
    let said = refused(&place, &["keys", "add", "--agent", "b", &one]);
    assert!(said.contains("already authorised for agent `b`, in line 1"), "{said}");
}

#[tokio::test]
async fn a_running_gateway_takes_changes_over_at_once() {
    let place = TestFolder::new("");
    let gateway = place.serve();
    place.ok(&["keys", "add", "--pack", "files", &public(1, "")]);
    let mut wire = Wire::connect(&gateway.address).await;
    wire.prove(Purpose::Pack, "files", &key(1)).await.unwrap();
    let removed = place.json(&["keys", "remove", &fingerprint(1)]);
    assert_eq!(removed["removed"][0]["name"], "files");
    wire.closed().await;
    assert_eq!(file(&place), "");
    let said = refused(&place, &["keys", "remove", &fingerprint(1)]);
    assert!(said.contains("there is no such key"), "{said}");
}

/// The data folder is each one's own, the file of keys is not.
#[test]
fn gateways_that_share_a_file_lose_no_key() {
    let shared = TestFolder::new("");
    let keys = shared.path().join("keys");
    let config = format!("[grpc]\nkeys = \"{}\"\n", keys.display());
    let places: Vec<TestFolder> = (0..4).map(|_| TestFolder::new(&config)).collect();
    std::thread::scope(|scope| {
        for (number, place) in (0_u8..).zip(&places) {
            scope.spawn(move || {
                for name in [1, 2, 3].map(|count| format!("p{number}-{count}")) {
                    place.ok(&["keys", "add", "--pack", &name, &public(number, "")]);
                }
            });
        }
    });
    assert_eq!(shared_names(&places[0]), shared_names(&places[3]));
    assert_eq!(shared_names(&places[0]).len(), 12);
}

fn shared_names(place: &TestFolder) -> Vec<String> {
    let keys = place.json(&["keys", "list"]);
    let keys = keys["keys"].as_array().unwrap();
    keys.iter().map(|key| key["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn removal_takes_what_is_meant_and_nothing_else() {
    let place = TestFolder::new("");
    place.make_data(&place.data());
    place.ok(&["keys", "list"]);
    let written = format!(
        "# packs\r\npack=\"a\",tools=\"*\" {one}\r\n\nagent=\"a\" {one}\nnonsense\nagent=\"b\" {one}\nagent=\"b\" {two}",
        one = public(1, ""),
        two = public(2, ""),
    );
    std::fs::write(place.data().join("authorized_keys"), &written).unwrap();
    let output = place.run(&["keys", "list"]);
    assert!(text(&output.stderr).contains("line 5 does not count: option `nonsense` is not known"));
    place.ok(&["keys", "remove", &fingerprint(1), "--agent", "b"]);
    let expected = written.replace(&format!("agent=\"b\" {}\n", public(1, "")), "");
    assert_eq!(file(&place), expected);
    std::fs::write(place.path().join("id.pub"), public(1, "other comment")).unwrap();
    place.ok(&["keys", "remove", "id.pub"]);
    assert_eq!(file(&place), format!("# packs\r\n\nnonsense\nagent=\"b\" {}", public(2, "")));
    place.ok(&["keys", "remove", "--agent", "b"]);
    assert_eq!(file(&place), "# packs\r\n\nnonsense\n");
    for arguments in [vec!["keys", "remove"], vec!["keys", "remove", "--pack", "none"]] {
        refused(&place, &arguments);
    }
    assert_eq!(place.ok(&["audit", "export"]).matches("\"kind\":\"key_removed\"").count(), 4);
}
