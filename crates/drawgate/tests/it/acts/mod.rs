//! Every act of an operator, with faults in its stores and killed at every step: what the gateway has
//! in memory, what it has after a restart and what its log says are the same, and an act that was not
//! done can be done again.

mod faults;
mod kills;
mod table;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::oauth::world as oauth;
use crate::support::{Gateway, TestFolder};
use table::{ACTS, Act, Case};

/// A gateway of its own for one kind of act.
struct Fixture {
    place: TestFolder,
    /// Where its protected server is.
    _far: Option<Far>,
    gateway: Option<Gateway>,
    runtime: tokio::runtime::Runtime,
    count: Cell<u32>,
}

/// A protected server and its authorization server, which serve by themselves.
struct Far {
    _runtime: tokio::runtime::Runtime,
    server: oauth::World,
}

/// Runs a check for each act, each in a fixture of its own.
fn for_each_act(check: fn(&mut Fixture, &Act)) {
    at_once(|act| {
        let mut fixture = Fixture::new(TestFolder::new(""), act);
        check(&mut fixture, act);
        fixture.end();
    });
}

fn at_once(work: impl Fn(&Act) + Sync) {
    std::thread::scope(|scope| {
        for act in ACTS {
            let work = &work;
            scope.spawn(move || work(act));
        }
    });
}

impl Far {
    fn start() -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let server = runtime.block_on(oauth::World::start());
        Self { _runtime: runtime, server }
    }
}

/// Looks again and again until something is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_mins(1);
    while !is_so() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Agrees to a login, as a person does in a browser.
fn agree(output: ChildStdout) {
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    if let Some(url) = lines.find(|line| line.starts_with("http")) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // A gateway that is killed meanwhile answers nothing.
        let _ = runtime
            .block_on(async { tokio::spawn(async move { oauth::browse(&url).await }).await });
    }
    lines.for_each(drop);
}

impl Fixture {
    fn new(place: TestFolder, act: &Act) -> Self {
        let far = act.config.contains("URL").then(Far::start);
        let url = far.as_ref().map(|far| far.server.url()).unwrap_or_default();
        place.configure(&act.config.replace("URL", &url));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut fixture = Self { place, _far: far, gateway: None, runtime, count: Cell::new(0) };
        fixture.start();
        fixture
    }

    fn start(&mut self) {
        table::before_start(&self.place);
        self.gateway = Some(self.place.serve());
        until("its servers are ready", || {
            let all = self.json(&["servers", "list"]);
            all.iter().all(|it| it["state"] == "ready" || it["login"]["state"] == "needed")
        });
    }

    fn kill(&mut self) {
        let gateway = self.gateway.as_mut().unwrap();
        gateway.child.kill().unwrap();
        gateway.child.wait().unwrap();
    }

    fn restart(&mut self) {
        self.kill();
        self.start();
    }

    fn end(mut self) {
        assert_eq!(self.gateway.take().unwrap().terminate(), Some(0));
        let verified = self.place.ok(&["audit", "verify"]);
        assert!(verified.starts_with("intact"), "{verified}");
    }

    fn gateway(&self) -> &Gateway {
        self.gateway.as_ref().unwrap()
    }

    /// What an act needs, for the next time that it is done.
    fn case(&self, act: &Act) -> Case {
        self.count.set(self.count.get() + 1);
        (act.prepare)(self, self.count.get())
    }

    /// Begins an act.
    fn begin(&self, case: &Case) -> Child {
        let args: Vec<&str> = case.args.iter().map(String::as_str).collect();
        let mut command = self.place.command(&args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        std::thread::spawn(move || agree(output));
        child
    }

    /// Performs an act, and returns what it said if it failed.
    fn perform(&self, case: &Case) -> Result<(), String> {
        let output = self.begin(case).wait_with_output().unwrap();
        if output.status.success() {
            return Ok(());
        }
        Err(crate::support::text(&output.stderr))
    }

    fn json(&self, args: &[&str]) -> Vec<Value> {
        match self.place.json(args) {
            Value::Array(all) => all,
            other => panic!("{args:?}: {other}"),
        }
    }

    /// Calls a tool as the local user.
    fn call(&self, tool: &str, arguments: Value) -> Value {
        self.runtime.block_on(self.gateway().call(&self.gateway().token, tool, arguments))
    }

    /// Whether a token is one of a caller that the running gateway knows.
    fn is_known(&self, token: &str) -> bool {
        let answer = self.gateway().stateless(token, "tools/list", json!({}));
        self.runtime.block_on(answer).status == http::StatusCode::OK
    }

    /// One of the gateway's databases, for writing beside it.
    fn database(&self, name: &str) -> Connection {
        Connection::open(self.place.data().join(name)).unwrap()
    }

    fn reading(&self, name: &str) -> Connection {
        let path = self.place.data().join(name);
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
    }

    /// The events of acts: by act, the kinds in their order.
    fn acts_in_log(&self) -> BTreeMap<String, Vec<Value>> {
        let log = self.reading("audit.db");
        let mut statement = log.prepare("SELECT body FROM event ORDER BY seq").unwrap();
        let bodies = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        let mut acts: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for body in bodies {
            let event: Value = serde_json::from_str(&body.unwrap()).unwrap();
            if let Some(act) = event["actId"].as_str() {
                acts.entry(act.to_owned()).or_default().push(event);
            }
        }
        acts
    }

    /// The acts of a kind that have begun.
    fn begun(&self, kind: &str) -> usize {
        let acts = self.acts_in_log();
        acts.values().filter(|events| events[0]["act"] == kind).count()
    }

    /// The acts of a kind that the log says were done.
    fn done(&self, kind: &str) -> usize {
        let acts = self.acts_in_log();
        acts.values().flatten().filter(|event| event["kind"] == kind).count()
    }

    /// Every act has one intent and at most one end after it, and what was done is not owed any more.
    fn check_log(&self) {
        for (act, events) in self.acts_in_log() {
            assert_eq!(events[0]["kind"], "act_started", "{act}: {events:?}");
            assert!(events.len() <= 2, "{act}: {events:?}");
            let ends = [&events[0]["act"], &json!("act_failed")];
            assert!(events[1..].iter().all(|end| ends.contains(&&end["kind"])), "{events:?}");
        }
        let owed: u32 = self
            .reading("drawgate.db")
            .query_row("SELECT count(*) FROM owed", [], |row| row.get(0))
            .unwrap();
        assert_eq!(owed, 0, "nothing is owed to the log");
    }
}
