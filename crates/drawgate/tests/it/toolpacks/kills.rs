//! Killed at any moment: the old pack or the new one is there, whole, and never something between.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::commands;
use super::github::{FileServer, locked};
use crate::support::{TestFolder, text};

/// Kills of the command alone, and of the command and the gateway that it talks to.
const KILLS: u32 = 25;

/// The latest moment for a kill.
const LONGEST: Duration = Duration::from_secs(2);

fn version(number: u32) -> Value {
    let tool = format!("tool_{}", number % 2);
    let mut manifest = commands("pack", &[(tool.as_str(), "echo -- {{what}}")]);
    manifest["version"] = format!("1.0.{number}").into();
    manifest
}

fn digit(number: u32) -> char {
    if number.is_multiple_of(2) { 'a' } else { 'b' }
}

struct Fixture {
    github: FileServer,
    place: TestFolder,
    /// Every version that was ever published, with what the lock must say about it.
    published: u32,
}

impl Fixture {
    async fn new() -> Self {
        let github = FileServer::start().await;
        let place = TestFolder::new(&github.config());
        let mut fixture = Self { github, place, published: 0 };
        fixture.publish();
        fixture.place.ok(&["toolpacks", "install", "octo/pack"]);
        fixture
    }

    /// Another version under the same reference, by its own commit.
    fn publish(&mut self) {
        self.published += 1;
        let id = format!("{:0>39}{}", self.published, digit(self.published));
        self.github.publish("main", &id, &version(self.published));
    }

    fn update(&self) -> Child {
        let mut command = self.place.command(&["toolpacks", "update", "pack", "--yes"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// What is installed, after it was checked to be whole: a version that was published.
    fn check(&self) -> u32 {
        let verified = self.place.run(&["toolpacks", "lock", "verify"]);
        let said = text(&verified.stdout);
        assert!(verified.status.success(), "{said}{}", text(&verified.stderr));
        let entry = locked(&self.place, "pack");
        let number: u32 =
            entry["version"].as_str().unwrap().rsplit('.').next().unwrap().parse().unwrap();
        let manifest = self.place.path().join("toolpacks/pack/toolpack.json");
        let manifest: Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
        assert_eq!(manifest["version"], entry["version"]);
        assert_eq!(manifest["tools"], version(number)["tools"]);
        assert!(entry["commit"].as_str().unwrap().ends_with(digit(number)));
        assert!(entry["definitions"].get(format!("tool_{}", number % 2)).is_some(), "{entry}");
        number
    }
}

fn kill(mut child: Child, after: Duration) {
    std::thread::sleep(after);
    let _ = child.kill();
    child.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_kills_leave_the_old_or_the_new() {
    let mut fixture = Fixture::new().await;
    let mut outcomes = [0, 0];
    for with_gateway in [false, true] {
        // How long it takes when nobody kills it, so that the kills come at all stages.
        let gateway = with_gateway.then(|| fixture.place.serve());
        fixture.publish();
        let begun = Instant::now();
        assert!(fixture.update().wait().unwrap().success());
        // A machine that has stalled meanwhile does not make every kill come late.
        let whole = begun.elapsed().min(LONGEST);
        assert_eq!(fixture.check(), fixture.published);
        drop(gateway);
        for round in 0..KILLS {
            let before = fixture.check();
            fixture.publish();
            let after = whole * round / (KILLS - 1);
            if with_gateway {
                let mut gateway = fixture.place.serve();
                let command = fixture.update();
                std::thread::sleep(after);
                gateway.child.kill().unwrap();
                kill(command, Duration::ZERO);
            } else {
                kill(fixture.update(), after);
            }
            let now = fixture.check();
            assert!(
                now == before || now == fixture.published,
                "{before}, {now}, {}",
                fixture.published
            );
            outcomes[usize::from(now != before)] += 1;
        }
    }
    assert_eq!(outcomes.iter().sum::<u32>(), 2 * KILLS);
    assert!(outcomes[0] > 0, "no kill came before the change: {outcomes:?}");
    // And nothing is in the way of the next one.
    fixture.publish();
    assert!(fixture.update().wait().unwrap().success());
    assert_eq!(fixture.check(), fixture.published);
    for folder in [".staging", ".staged", ".leaving", ".trash"] {
        let folder = fixture.place.path().join("toolpacks").join(folder);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "{}", folder.display());
    }
}
