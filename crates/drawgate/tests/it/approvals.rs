//! Calls that wait for a person.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::load::{events, offers};
use crate::support::{Gateway, TestFolder, eventually, text};

/// Writing needs a person's yes; a call is held for `hold` seconds.
fn config(hold: u64) -> String {
    format!(
        "[approvals]\nhold_seconds = {hold}\n[policy.defaults]\nfallback = \"allow\"\n\
         [[policy.rules]]\nid = \"ask\"\naction = \"file.write\"\ndecision = \"allow_with_confirm\"\n\
         riskTags = [\"overwrite\"]\nreason = \"writing is serious\"\n"
    )
}

fn write(content: &str) -> Value {
    json!({ "path": "a.txt", "content": content })
}

/// The one approval that waits.
async fn pending(place: &TestFolder) -> Value {
    eventually("an approval", async || {
        let waiting = place.json(&["approvals", "list"]);
        waiting.as_array().unwrap().first().cloned()
    })
    .await
}

/// The gate's error code of a result.
fn code(result: &Value) -> &str {
    assert!(result.is_object(), "no result");
    result["_meta"]["drawgate/error"]["code"].as_str().unwrap_or("OK")
}

async fn write_as(gateway: &Gateway, token: &str, content: &str) -> Value {
    gateway.call(token, "vfs_write", write(content)).await
}

#[tokio::test]
async fn a_held_call_goes_on_after_yes_and_ends_after_no() {
    let place = TestFolder::new(&config(60));
    let gateway = place.serve();
    offers(&gateway, "vfs_write").await;
    for (command, expected) in [("approve", "OK"), ("deny", "PERMISSION_DENIED")] {
        let decide = async {
            let approval = pending(&place).await;
            let id = approval["id"].as_str().unwrap();
            assert_eq!(approval["arguments"], write("hello"));
            assert_eq!(approval["reason"], "writing is serious");
            let shown = place.ok(&["approvals", "show", id]);
            for part in [
                "builtin:vfs_write",
                "local",
                "writing is serious",
                "overwrite",
                "\"content\": \"hello\"",
            ] {
                assert!(shown.contains(part), "{part}: {shown}");
            }
            assert!(place.ok(&["approvals", "list"]).contains(id));
            let decided = place.decide(command, id);
            assert!(decided.status.success(), "{decided:?}");
            assert!(text(&decided.stdout).contains("the call that waits"), "{decided:?}");
            let again = place.decide(command, id);
            assert!(
                !again.status.success() && text(&again.stderr).contains("already"),
                "{again:?}"
            );
        };
        let (result, ()) = tokio::join!(write_as(&gateway, &gateway.token, "hello"), decide);
        assert_eq!(code(&result), expected, "{result}");
    }
    let all = place.json(&["approvals", "list", "--all"]);
    let mut states: Vec<&str> =
        all.as_array().unwrap().iter().map(|one| one["state"].as_str().unwrap()).collect();
    states.sort_unstable();
    assert_eq!(states, ["denied", "used"]);
    let kinds: Vec<(String, Value)> = events(&place)
        .into_iter()
        .filter(|event| event["kind"].as_str().unwrap().starts_with("approval_"))
        .map(|event| (event["kind"].as_str().unwrap().to_owned(), event["approved"].clone()))
        .collect();
    let required = || ("approval_required".to_owned(), Value::Null);
    let decided = |yes: bool| ("approval_decided".to_owned(), Value::Bool(yes));
    assert_eq!(kinds, [required(), decided(true), required(), decided(false)]);
}

#[tokio::test]
async fn a_call_that_is_not_answered_in_time_names_the_approval_for_one_retry() {
    let place = TestFolder::new(&config(0));
    let gateway = place.serve();
    offers(&gateway, "vfs_write").await;
    let other = place.ok(&["agents", "add", "other", "--capability", "file.*", "--quiet"]);
    let other = other.trim();
    let first = write_as(&gateway, &gateway.token, "hello").await;
    assert_eq!(code(&first), "PERMISSION_ESCALATION_REQUIRED", "{first}");
    let id = first["_meta"]["drawgate/error"]["details"]["approvalId"].as_str().unwrap().to_owned();
    assert!(first["content"][0]["text"].as_str().unwrap().contains(&id), "{first}");
    assert!(place.approve(&id).status.success());
    // Neither other arguments nor another agent profit from it.
    assert_eq!(
        code(&write_as(&gateway, &gateway.token, "other").await),
        "PERMISSION_ESCALATION_REQUIRED"
    );
    assert_eq!(code(&write_as(&gateway, other, "hello").await), "PERMISSION_ESCALATION_REQUIRED");
    let retried = write_as(&gateway, &gateway.token, "hello").await;
    assert_eq!(code(&retried), "OK", "{retried}");
    let next = write_as(&gateway, &gateway.token, "hello").await;
    assert_eq!(code(&next), "PERMISSION_ESCALATION_REQUIRED");
    assert_ne!(next["_meta"]["drawgate/error"]["details"]["approvalId"], id.as_str());
}

#[tokio::test]
async fn an_approval_outlives_the_gateway_and_can_be_given_without_one() {
    let place = TestFolder::new(&config(0));
    let gateway = place.serve();
    offers(&gateway, "vfs_write").await;
    let first = write_as(&gateway, &gateway.token, "hello").await;
    let id = first["_meta"]["drawgate/error"]["details"]["approvalId"].as_str().unwrap().to_owned();
    assert_eq!(gateway.terminate(), Some(0));
    assert_eq!(pending(&place).await["id"], id.as_str());
    assert!(place.approve(&id).status.success());
    let gateway = place.serve();
    offers(&gateway, "vfs_write").await;
    assert_eq!(code(&write_as(&gateway, &gateway.token, "hello").await), "OK");
    assert_eq!(
        code(&write_as(&gateway, &gateway.token, "hello").await),
        "PERMISSION_ESCALATION_REQUIRED"
    );
    assert_eq!(gateway.terminate(), Some(0));
    assert!(place.ok(&["audit", "verify"]).starts_with("intact"));
    let decided =
        events(&place).into_iter().filter(|event| event["kind"] == "approval_decided").count();
    assert_eq!(decided, 1);
}

#[tokio::test]
async fn nobody_is_asked_when_approvals_are_off() {
    let place = TestFolder::new(&config(0).replace("hold_seconds", "mode = \"off\"\nhold_seconds"));
    let gateway = place.serve();
    offers(&gateway, "vfs_write").await;
    assert_eq!(code(&write_as(&gateway, &gateway.token, "hello").await), "OK");
    assert_eq!(place.json(&["approvals", "list", "--all"]), json!([]));
}

#[tokio::test]
async fn deciding_and_revealing_need_a_terminal_or_the_token() {
    let place = TestFolder::new(&config(0));
    let gateway = place.serve();
    offers(&gateway, "vfs_write").await;
    write_as(&gateway, &gateway.token, "token=hunter2secret").await;
    let id = pending(&place).await["id"].as_str().unwrap().to_owned();
    let wrong = place.path().join("wrong.token");
    std::fs::write(&wrong, "not-the-token\n").unwrap();
    let [wrong, right] = [wrong, place.data().join("admin.token")];
    let (wrong, right) = (wrong.to_str().unwrap(), right.to_str().unwrap());
    for command in [vec!["approve", &id], vec!["deny", &id], vec!["show", &id, "--reveal"]] {
        for (proof, said) in [
            (&[][..], "run it at a terminal"),
            (&["--token-file", wrong], "not the operator's token"),
            (&["--token-file", "missing"], "can't be read"),
            (&["--token-file", "-"], "not the operator's token"),
        ] {
            let words: Vec<&str> =
                ["approvals"].iter().chain(&command).chain(proof).copied().collect();
            let refused = place.run(&words);
            assert!(!refused.status.success(), "{words:?}");
            assert!(text(&refused.stderr).contains(said), "{words:?}: {refused:?}");
            assert!(!text(&refused.stdout).contains("hunter2secret"), "{words:?}");
        }
    }
    assert_eq!(pending(&place).await["id"], id.as_str(), "still open");
    let revealed = place.ok(&["approvals", "show", &id, "--reveal", "--token-file", right]);
    assert!(revealed.contains("token=hunter2secret"), "{revealed}");
    assert!(place.approve(&id).status.success());
}

#[tokio::test]
async fn the_list_shows_arguments_and_the_address_of_the_page() {
    let place = TestFolder::new(&config(0));
    let gateway = place.serve();
    offers(&gateway, "vfs_write").await;
    write_as(&gateway, &gateway.token, &format!("hello {}", "x".repeat(200))).await;
    let approval = pending(&place).await;
    let id = approval["id"].as_str().unwrap();
    let page = format!("http://{}/approvals/{id}", gateway.address);
    assert_eq!(approval["page"], page.as_str());
    let list = place.ok(&["approvals", "list"]);
    for part in [id, "pending", "builtin:vfs_write", "\"content\":\"hello", "…", &page] {
        assert!(list.contains(part), "{part}: {list}");
    }
    assert_eq!(list.matches(id).count(), 2, "its id and its page: {list}");
    let denied = place.decide("deny", id);
    let said = text(&denied.stdout);
    assert!(said.contains("the same call is refused until"), "{denied:?}");
    assert!(place.ok(&["approvals", "list", "--all"]).contains("denied"));
}

#[tokio::test]
async fn a_grant_with_an_approval_is_a_yes_in_advance_for_what_it_covers() {
    let place = TestFolder::new(&config(0));
    let gateway = place.serve();
    offers(&gateway, "vfs_write").await;
    let token = place.ok(&["agents", "add", "bot", "--capability", "file.write", "--quiet"]);
    let token = token.trim();
    let operator = place.data().join("admin.token").display().to_string();
    let add = |capability: &str, approval: &str| {
        let whom = ["grants", "add", capability, "--agent", "bot", "--quiet"];
        let proof = ["--approval", approval, "--token-file", &operator];
        place.ok(&[&whom[..], &proof[..]].concat()).trim().to_owned()
    };
    let ask = async |grants: Option<&[&str]>| {
        let mut params = json!({ "name": "vfs_write", "arguments": write("hello") });
        if let Some(grants) = grants {
            params["_meta"] = json!({ "drawgate/call": { "grantIds": grants } });
        }
        let answer = gateway.rpc(token, "tools/call", params).await;
        code(&answer["result"]).to_owned()
    };
    let must_ask = "PERMISSION_ESCALATION_REQUIRED";
    assert_eq!(ask(None).await, must_ask, "what it is registered with is no approval");
    add("file.read", "T-1");
    assert_eq!(ask(None).await, must_ask, "an approval of something else is none");
    let grant = add("file.*", "T-2");
    assert_eq!(ask(None).await, "OK");
    assert_eq!(ask(Some(&[&grant])).await, "OK");
    let standing = "standing:bot:file.write";
    assert_eq!(ask(Some(&[standing])).await, must_ask, "a call that leaves it out must ask");
    let all = events(&place);
    let issued: Vec<&Value> = all
        .iter()
        .filter(|event| event["kind"] == "grant_issued")
        .map(|e| &e["approvalId"])
        .collect();
    assert_eq!(issued, [&json!("T-1"), &json!("T-2")]);
    let decided = all.iter().rfind(|event| event["kind"] == "decision").unwrap();
    assert_eq!((&decided["approvalId"], &decided["grantIds"]), (&json!("T-2"), &json!([grant])));
    let listed = place.ok(&["grants", "list", "--agent", "bot"]);
    assert!(listed.contains("T-2"), "{listed}");
    place.ok(&["grants", "revoke", &grant]);
    assert_eq!(ask(None).await, must_ask, "it counts as long as it lives");
}

#[tokio::test]
async fn issuing_such_a_grant_takes_a_terminal_or_the_token() {
    let place = TestFolder::new(&config(0));
    let wrong = place.path().join("wrong");
    std::fs::write(&wrong, "guess\n").unwrap();
    let wrong = wrong.to_str().unwrap();
    place.ok(&["grants", "add", "x", "--scope", "workspace"]);
    let cases: [(&[&str], &str); 4] = [
        (&["--approval", "T-1"], "at a terminal"),
        (&["--approval", "T-1", "--token-file", wrong], "not the operator's token"),
        (&["--approval", "T-1", "--token-file", "missing"], "can't be read"),
        (
            &["--approval", "T 1", "--token-file", ".drawgate/admin.token"],
            "not the id of an approval",
        ),
    ];
    for (more, expected) in cases {
        let args = [&["grants", "add", "file.write", "--scope", "workspace"], more].concat();
        let output = place.run(&args);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(expected), "{more:?}: {said}");
    }
    let grants = place.json(&["grants", "list"]);
    let issued =
        grants.as_array().unwrap().iter().filter(|grant| grant["capability"] == "file.write");
    assert_eq!(issued.count(), 0, "{grants}");
}

#[tokio::test]
async fn at_a_terminal_a_person_is_shown_the_call_and_asked() {
    let place = TestFolder::new(&config(0));
    let gateway = place.serve();
    offers(&gateway, "vfs_write").await;
    write_as(&gateway, &gateway.token, "hello").await;
    let id = pending(&place).await["id"].as_str().unwrap().to_owned();
    for (answer, state) in [("n", "pending"), ("", "pending"), ("y", "approved")] {
        let seen = place.at_terminal(answer, &["approvals", "approve", &id]);
        let shown = text(&seen.stdout);
        for part in ["builtin:vfs_write", "\"content\": \"hello\"", "approve this call? [y/N]"] {
            assert!(shown.contains(part), "{answer}, {part}: {shown}");
        }
        let all = place.json(&["approvals", "list", "--all"]);
        assert_eq!(all[0]["state"], state, "{answer}: {shown}");
    }
    let seen = place.at_terminal(
        "y",
        &["grants", "add", "file.write", "--scope", "workspace", "--approval", "T-1"],
    );
    assert!(text(&seen.stdout).contains("without asking a person? [y/N]"), "{seen:?}");
    assert_eq!(place.json(&["grants", "list"]).to_string().matches("T-1").count(), 1);
}

#[tokio::test]
async fn a_watcher_sees_what_waits_and_what_became_of_it() {
    let place = TestFolder::new(&config(0));
    let alone = place.run(&["approvals", "watch"]);
    assert_eq!(alone.status.code(), Some(69), "{alone:?}");
    let gateway = place.serve();
    offers(&gateway, "vfs_write").await;
    // A desktop that writes down what it is told.
    let bin = place.path().join("bin");
    let told = place.path().join("told.txt");
    std::fs::create_dir(&bin).unwrap();
    let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >> '{}'\n", told.display());
    std::fs::write(bin.join("notify-send"), script).unwrap();
    std::fs::set_permissions(bin.join("notify-send"), Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), drawgate::cli::machine::variable("PATH").unwrap());
    let mut watch = place.command(&["approvals", "watch"]);
    let mut watch = watch.env("PATH", path).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    write_as(&gateway, &gateway.token, "token=hunter2secret").await;
    let id = pending(&place).await["id"].as_str().unwrap().to_owned();
    assert_eq!(next(), format!("{id}  pending  builtin:vfs_write by local"));
    assert!(next().contains("\"content\":\"token=[REDACTED"));
    assert!(next().contains("writing is serious; expires "));
    assert_eq!(next().trim(), format!("http://{}/approvals/{id}", gateway.address));
    eventually("the desktop is told", async || {
        let told = std::fs::read_to_string(&told).unwrap_or_default();
        (told.contains("builtin:vfs_write by local") && !told.contains("REDACTED")).then_some(())
    })
    .await;
    assert!(place.approve(&id).status.success());
    assert_eq!(next(), format!("{id}  approved"));
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[tokio::test]
async fn a_webhook_is_told_signed_and_redacted_and_no_call_waits_for_it() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let webhook = format!(
        "[approvals.webhook]\nurl = \"http://{address}/hook\"\nsecret = \"env:HOOK_SECRET\"\n"
    );
    let place = TestFolder::new(&format!("{}{webhook}", config(0)));
    let gateway = place.serve_with(|command| {
        command.env("HOOK_SECRET", "a-secret-of-the-hook");
    });
    offers(&gateway, "vfs_write").await;
    // Nobody answers at the address yet, and the call is answered all the same.
    let asked = write_as(&gateway, &gateway.token, "token=hunter2secret").await;
    let id = asked["_meta"]["drawgate/error"]["details"]["approvalId"].as_str().unwrap();
    let (first, head) = received(&listener, "503 Service Unavailable").await;
    let (again, _) = received(&listener, "204 No Content").await;
    assert_eq!(first, again, "it is tried again");
    let body: Value = serde_json::from_str(&first).unwrap();
    assert_eq!((&body["approvalId"], &body["principal"]), (&json!(id), &json!("local")));
    assert_eq!(body["page"], format!("http://{}/approvals/{id}", gateway.address));
    assert!(body["text"].as_str().unwrap().contains("builtin:vfs_write"), "{body}");
    assert!(body["arguments"]["content"].as_str().unwrap().contains("[REDACTED"), "{body}");
    assert!(!first.contains("hunter2secret") && !head.contains("a-secret-of-the-hook"));
    let sent = head.lines().find_map(|line| line.strip_prefix("drawgate-signature: ")).unwrap();
    let (time, signed) = sent.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"a-secret-of-the-hook");
    let signed = hex::decode(signed).unwrap();
    ring::hmac::verify(&key, format!("{time}.{first}").as_bytes(), &signed).unwrap();
}

/// One request, answered with this status: its body, and its head.
async fn received(listener: &tokio::net::TcpListener, status: &str) -> (String, String) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut bytes = Vec::new();
    loop {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).await.unwrap();
        assert!(count > 0, "it ended early: {}", text(&bytes));
        bytes.extend_from_slice(&part[..count]);
        let all = text(&bytes);
        let Some((head, body)) = all.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() == length.parse::<usize>().unwrap() {
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            return (body.to_owned(), head.to_owned());
        }
    }
}
