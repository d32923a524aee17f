//! A protected server behind the gateway: login by the command line, renewal, revocation, logout,
//! and no token anywhere but at the server.

mod opened;
#[path = "../../../drawgate-sources/tests/it/mcp_oauth/world.rs"]
pub(crate) mod world;

use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use world::{World, browse};

use crate::load::events;
use crate::support::{Gateway, TestFolder, eventually, text};

const EXPIRED: &str = "the login at `far` has expired; the gateway's operator must log in again";

/// A configuration with the protected server, and the log at its loudest.
fn place(world: &World) -> TestFolder {
    let url = world.url();
    // The authorization server is another one than the protected server, on the same machine.
    TestFolder::new(&format!(
        "[telemetry]\nlog = \"trace\"\n[egress]\nallow = [\"127.0.0.1:*\"]\n[servers.far]\nurl = \"{url}\"\n"
    ))
}

/// The command, which waits for the person.
struct Login {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    url: String,
}

impl Login {
    fn begin(place: &TestFolder) -> Self {
        let mut command = place.command(&["servers", "login", "far"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("http") {
            line.clear();
            let read = output.read_line(&mut line).unwrap();
            assert!(read > 0, "no address; {}", stderr(&mut child));
        }
        Self { child, output, url: line.trim().to_owned() }
    }

    /// What the command prints once the person has answered, and whether it succeeded.
    fn end(mut self) -> (bool, String) {
        let mut shown = String::new();
        self.output.read_to_string(&mut shown).unwrap();
        let output = self.child.wait_with_output().unwrap();
        (output.status.success(), shown + &text(&output.stderr))
    }
}

fn stderr(child: &mut Child) -> String {
    let mut shown = String::new();
    child.stderr.take().unwrap().read_to_string(&mut shown).unwrap();
    shown
}

/// A login in which the person agrees.
async fn log_in(place: &TestFolder) {
    let login = Login::begin(place);
    browse(&login.url).await;
    let (done, shown) = login.end();
    assert!(done && shown.contains("for `far`"), "{shown}");
}

async fn offered(gateway: &Gateway) {
    eventually("the tools of the protected server are offered", async || {
        let names = gateway.tool_names(&gateway.token).await;
        names.contains(&"far__hello".to_owned()).then_some(())
    })
    .await;
}

async fn hello(gateway: &Gateway) -> Value {
    gateway.call(&gateway.token, "far__hello", json!({})).await
}

fn works(answer: &Value) -> bool {
    answer["isError"] != true && answer["content"][0]["text"] == "hello [REDACTED]"
}

fn renewals(world: &World) -> usize {
    let all = world.seen("/token");
    all.iter().filter(|form| form["grant_type"] == "refresh_token").count()
}

/// Fails if anything that the authorization server gave out is in a file, a log or an answer.
fn assert_no_leak(place: &TestFolder, world: &World, answers: &[String]) {
    let given = world.given();
    assert!(given.len() >= 3, "{given:?}");
    let mut shown: Vec<(String, String)> =
        files(&place.data()).into_iter().map(|(name, bytes)| (name, text(&bytes))).collect();
    assert!(shown.iter().any(|(name, _)| name.ends_with("sealing.key")));
    assert!(shown.iter().any(|(_, content)| content.contains(&world.issuer)), "the login is kept");
    shown.push(("log".to_owned(), place.log()));
    shown.extend(answers.iter().map(|answer| ("an answer".to_owned(), answer.clone())));
    for secret in given {
        for (name, content) in &shown {
            assert!(!content.contains(&secret), "`{secret}` is in {name}");
        }
    }
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, plain): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    // The socket can't be read, and is no file.
    let read =
        |path: &std::path::PathBuf| Some((path.display().to_string(), std::fs::read(path).ok()?));
    let below = folders.iter().flat_map(|folder| files(folder));
    plain.iter().filter_map(read).chain(below).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_renewal_revocation_and_login_again() {
    let world = World::start().await;
    let place = place(&world);
    let gateway = place.serve();
    eventually("the server says that it needs a login", async || {
        let doctor = place.run(&["servers", "doctor", "far"]);
        let shown = text(&doctor.stdout);
        assert_eq!(doctor.status.code(), Some(1), "{shown}");
        shown.contains("it needs a login; run `drawgate servers login far`").then_some(())
    })
    .await;

    // The first token is due at once, and is therefore never shown to the server.
    world.behave(|it| it.expires_in = 0);
    log_in(&place).await;
    let first = world.given().into_iter().find(|text| text.starts_with("access")).unwrap();
    world.behave(|it| it.expires_in = 3600);
    offered(&gateway).await;
    let mut answers = vec![hello(&gateway).await];
    assert!(works(&answers[0]), "{}", answers[0]);
    assert!(renewals(&world) >= 1);
    assert!(world.seen("/mcp").iter().all(|seen| seen["token"] != first.as_str()));
    let doctor = place.ok(&["servers", "doctor", "far"]);
    assert!(doctor.contains("far: ready"), "{doctor}");

    // The server refuses the token before its time: it is renewed, and the caller notices nothing.
    let before = renewals(&world);
    world.end_access_tokens();
    answers.push(hello(&gateway).await);
    assert!(works(&answers[1]), "{}", answers[1]);
    assert_eq!(renewals(&world), before + 1);

    // Consent is withdrawn: the tools say what to do, and so does the doctor.
    world.revoke_all();
    for _ in 0..2 {
        let answer = hello(&gateway).await;
        assert!(answer["isError"] == true && answer.to_string().contains(EXPIRED), "{answer}");
        answers.push(answer);
    }
    assert_eq!(renewals(&world), before + 2, "a refused login is not tried again");
    let doctor = place.run(&["servers", "doctor", "far"]);
    assert_eq!(doctor.status.code(), Some(1));
    assert!(text(&doctor.stdout).contains("its login has expired"), "{}", text(&doctor.stdout));
    answers.push(text(&doctor.stdout).into());

    log_in(&place).await;
    let answer =
        eventually("the tool works again", async || Some(hello(&gateway).await).filter(works))
            .await;
    answers.push(answer);
    assert_no_leak(&place, &world, &answers.iter().map(Value::to_string).collect::<Vec<_>>());
    let kinds: Vec<Value> = events(&place)
        .into_iter()
        .filter(|event| event["kind"] == "server_login")
        .map(|event| json!([event["server"], event["issuer"], event["principal"]]))
        .collect();
    assert_eq!(kinds, vec![json!(["far", world.issuer, "local"]); 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_made_without_a_gateway_serves_the_next_one() {
    let world = World::start().await;
    let place = place(&world);
    log_in(&place).await;
    let gateway = place.serve();
    offered(&gateway).await;
    assert!(works(&hello(&gateway).await));
    assert_eq!(gateway.terminate(), Some(0));
    let gateway = place.serve();
    offered(&gateway).await;
    assert_no_leak(&place, &world, &[]);
    assert_eq!(place.ok(&["servers", "logout", "far"]), "logged out at `far`\n");
    assert_eq!(world.seen("/revoke").len(), 1);
    let answer = hello(&gateway).await.to_string();
    assert!(answer.contains("`far` needs a login"), "{answer}");
    let again = place.run(&["servers", "logout", "far"]);
    assert!(text(&again.stderr).contains("there is no login at `far`"), "{}", text(&again.stderr));
    assert!(events(&place).iter().any(|event| event["kind"] == "server_logout"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_needs_more_asks_for_it() {
    let world = World::start().await;
    world.behave(|it| {
        it.challenged = Some("basic");
        it.admin_scope = Some("admin");
    });
    let place = place(&world);
    log_in(&place).await;
    let gateway = place.serve();
    offered(&gateway).await;
    let refused = gateway.call(&gateway.token, "far__admin", json!({})).await.to_string();
    assert!(refused.contains("needs the scope `admin`"), "{refused}");
    assert!(works(&hello(&gateway).await), "the other tool still works");
    log_in(&place).await;
    assert_eq!(world.seen("/authorize")[1]["scope"], "basic admin");
    assert!(works(&gateway.call(&gateway.token, "far__admin", json!({})).await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logins_that_fail_say_why() {
    let world = World::start().await;
    let place = place(&world);
    let _gateway = place.serve();
    world.behave(|it| it.denies = Some("access_denied"));
    let login = Login::begin(&place);
    browse(&login.url).await;
    let (done, shown) = login.end();
    assert!(!done && shown.contains("answered `access_denied`"), "{shown}");
    world.behave(|it| it.s256 = false);
    for (args, expected) in [
        (["servers", "login", "far"], "does not support PKCE"),
        (["servers", "login", "near"], "there is no login at `near`"),
        (["servers", "logout", "near"], "there is no login at `near`"),
    ] {
        let output = place.run(&args);
        assert!(!output.status.success());
        let shown = text(&output.stderr);
        assert!(shown.contains(expected), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_of_the_operator_are_not_replaced() {
    let world = World::start().await;
    let url = world.url();
    let place = TestFolder::new(&format!(
        "[servers.far]\nurl = \"{url}\"\nheaders = {{ Authorization = \"env:FAR_AUTHORIZATION\" }}\n"
    ));
    let _gateway = place.serve_with(|command| {
        command.env("FAR_AUTHORIZATION", "Bearer of-the-operator");
    });
    eventually("the server is asked", async || (!world.seen("/mcp").is_empty()).then_some(()))
        .await;
    assert!(world.seen("/mcp").iter().all(|seen| seen["token"] == "of-the-operator"));
    let output = place.run(&["servers", "login", "far"]);
    assert!(text(&output.stderr).contains("there is no login at `far`"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_credentials_needs_no_person() {
    let world = World::start().await;
    world.behave(|it| {
        it.methods = vec!["client_secret_basic"];
        it.client_secret = Some("right-secret-of-ci");
    });
    let (url, issuer) = (world.url(), &world.issuer);
    let place = TestFolder::new(&format!(
        "[telemetry]\nlog = \"trace\"\n[servers.far]\nurl = \"{url}\"\n[servers.far.oauth]\nissuer = \"{issuer}\"\ngrant = \"client_credentials\"\nclient_id = \"ci\"\nclient_secret = \"env:FAR_SECRET\"\n"
    ));
    let refused = "there is no token for `far`: the authorization server refused the client's credentials (invalid_client); check `servers.far.oauth`";
    let gateway = place.serve_with(|command| {
        command.env("FAR_SECRET", "wrong-secret-of-ci");
    });
    eventually("the server says what is wrong", async || {
        let doctor = place.run(&["servers", "doctor", "far"]);
        text(&doctor.stdout).contains(refused).then_some(())
    })
    .await;
    assert_eq!(world.seen("/token").len(), 1, "it is not asked again and again");
    assert_eq!(gateway.terminate(), Some(0));

    let gateway = place.serve_with(|command| {
        command.env("FAR_SECRET", "right-secret-of-ci");
    });
    offered(&gateway).await;
    assert!(works(&hello(&gateway).await));
    world.end_access_tokens();
    assert!(works(&hello(&gateway).await), "a new token is got at once");
    let login = place.run(&["servers", "login", "far"]);
    let shown = text(&login.stderr);
    assert!(!login.status.success() && shown.contains("needs no login by a person"), "{shown}");
    let doctor = place.ok(&["servers", "doctor", "far"]);
    assert!(doctor.contains("far: ready"), "{doctor}");
    let secret = "right-secret-of-ci".to_owned();
    for (name, bytes) in files(&place.data()) {
        for secret in world.given().iter().chain([&secret]) {
            assert!(!text(&bytes).contains(secret.as_str()), "`{secret}` is in {name}");
        }
    }
    for secret in world.given().iter().chain([&secret]) {
        assert!(!place.log().contains(secret.as_str()), "`{secret}` is in the log");
    }
}
