//! A gateway whose system's clock is set while it runs, and between two of its runs.
#![expect(clippy::disallowed_methods, reason = "tests start the program itself")]

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::load::{events, offers};
use crate::support::{Gateway, TestFolder, eventually};

const HOUR: i64 = 60 * 60;
const YEAR: i64 = 365 * 24 * HOUR;

/// A folder whose gateways have a clock of their own.
struct Fixture {
    place: TestFolder,
    preloaded: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let place = TestFolder::new("");
        let preloaded = place.path().join("clock.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/clock.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(&preloaded).arg(source);
        assert!(compiler.status().unwrap().success());
        let fixture = Self { place, preloaded };
        fixture.set(0);
        fixture
    }

    /// Sets the clock this many seconds beside the machine's, in one step.
    fn set(&self, seconds: i64) {
        let (next, file) = (self.place.path().join("next"), self.offset());
        std::fs::write(&next, seconds.to_string()).unwrap();
        std::fs::rename(next, file).unwrap();
    }

    fn offset(&self) -> PathBuf {
        self.place.path().join("offset")
    }

    fn preload(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.preloaded).env("CLOCK_OFFSET", self.offset());
    }

    fn serve(&self) -> Gateway {
        self.place.serve_with(|command| self.preload(command))
    }

    /// Runs a command by the same clock.
    fn ok(&self, args: &[&str]) -> String {
        let mut command = self.place.command(args);
        self.preload(&mut command);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The live grants that were issued.
    fn grants(&self) -> Vec<String> {
        let grants: Value = serde_json::from_str(&self.ok(&["grants", "list", "--json"])).unwrap();
        let ids = grants.as_array().unwrap().iter().map(|it| it["grantId"].as_str().unwrap());
        ids.filter(|id| !id.starts_with("standing:")).map(str::to_owned).collect()
    }

    fn grant(&self, time: &str) -> String {
        self.ok(&["grants", "add", "demo.more", "--agent", "ann", "--for", time, "--quiet"])
            .trim()
            .to_owned()
    }
}

/// Seconds of an event beside the machine's clock.
fn beside(event: &Value) -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(event["createdAt"].as_u64().unwrap() / 1000).unwrap()
        - i64::try_from(now.as_secs()).unwrap()
}

#[tokio::test]
async fn a_grant_ends_although_the_clock_is_set_back() {
    let fixture = Fixture::new();
    let gateway = fixture.serve();
    offers(&gateway, "vfs_write").await;
    fixture.ok(&["agents", "add", "ann", "--capability", "demo"]);
    let (short, long) = (fixture.grant("3s"), fixture.grant("1h"));
    assert_eq!(fixture.grants().len(), 2);
    fixture.set(-2 * HOUR);
    eventually("the grant's end", async || (!fixture.grants().contains(&short)).then_some(()))
        .await;
    assert_eq!(fixture.grants(), [long.as_str()]);
    eventually("the step in the log", async || {
        let found = events(&fixture.place).into_iter().find(|it| it["kind"] == "clock_stepped")?;
        let behind = found["clockBehindMs"].as_i64().unwrap() / 1000;
        assert!((2 * HOUR - 5..=2 * HOUR + 5).contains(&behind), "{found}");
        Some(())
    })
    .await;
    for count in 0..3 {
        gateway.call(&gateway.token, "vfs_write", json!({ "path": "a", "content": "b" })).await;
        eventually("time that passes", async || {
            let times: std::collections::BTreeSet<u64> =
                events(&fixture.place).iter().map(|it| it["createdAt"].as_u64().unwrap()).collect();
            (times.len() > 3 + count).then_some(())
        })
        .await;
    }

    // A start goes on from the newest event; what has ended stays ended.
    assert_eq!(gateway.terminate(), Some(0));
    let gateway = fixture.serve();
    assert_eq!(fixture.grants(), [long.as_str()]);
    let newest = events(&fixture.place).pop().unwrap();
    assert!(beside(&newest).abs() < 60, "{newest}");
    assert_eq!(gateway.terminate(), Some(0));

    // Far in the future and back: not for years.
    fixture.set(10 * YEAR);
    let gateway = fixture.serve();
    assert_eq!(fixture.grants(), Vec::<String>::new());
    let later = fixture.grant("1h");
    assert_eq!(fixture.grants(), [later.as_str()]);
    fixture.set(0);
    assert_eq!(fixture.grants(), [later.as_str()], "time does not go back while it runs");
    assert_eq!(gateway.terminate(), Some(0));
    let gateway = fixture.serve();
    assert_eq!(
        fixture.grants(),
        Vec::<String>::new(),
        "neither the grant of today nor that of then"
    );
    assert!(fixture.place.log().contains("more than a day behind"), "{}", fixture.place.log());
    let newest = events(&fixture.place).pop().unwrap();
    assert!(beside(&newest).abs() < 60, "{newest}");
    assert_eq!(gateway.terminate(), Some(0));
    assert!(fixture.place.ok(&["audit", "verify"]).starts_with("intact"));
}
