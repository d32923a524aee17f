//! A gateway that is killed again and again, in every kind of step, loses no run and repeats nothing that
//! may not be repeated.

use std::collections::BTreeMap;
use std::time::Duration;

use drawgate_agents::model::{Part, Reply};
use drawgate_agents::runs::RunDetails;
use drawgate_agents::runs::record::{ModelOutcome, Step, StepBody};
use drawgate_agents::testing::fake_models::{FakeModels, Received, Rule};
use serde_json::{Value, json};

use super::once::{Once, TOOL};
use super::{HELPER, KEY, config, folder_with};
use crate::load::offers;
use crate::support::{Gateway, TestFolder, eventually};

/// Kills that are always made, and the most that are made to hit each kind of step this often.
const KILLS: usize = 100;
const MOST_KILLS: usize = 2 * KILLS;
const LEAST_HITS: usize = 3;

/// Children that a run starts where their ends are to take a while.
const CHILDREN: usize = 8;

/// What a run was at when the gateway was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Hit {
    /// A model was asked and had not answered.
    ModelOpen,
    /// A tool was called and had not answered.
    ToolOpen,
    /// A run that it had started was at work.
    ChildAtWork,
    /// Every step had its outcome, and the next had not begun.
    BetweenSteps,
    /// It had its last reply, but its end was not stored, or not in the log.
    Ending,
    /// It was over. Nothing was hit.
    Over,
}

impl Hit {
    /// What must be hit.
    const KINDS: [Self; 5] =
        [Self::ModelOpen, Self::ToolOpen, Self::ChildAtWork, Self::BetweenSteps, Self::Ending];
}

/// The conversation of a round, from its prompt to its end.
fn script(round: usize) -> Vec<Rule> {
    match aim(round) {
        Hit::ModelOpen | Hit::ToolOpen | Hit::ChildAtWork | Hit::Over => plain_script(round),
        Hit::BetweenSteps | Hit::Ending => crowded_script(round),
    }
}

/// A call, a child that makes a call, a text.
fn plain_script(round: usize) -> Vec<Rule> {
    let once = |id: &str| Rule::calls([(TOOL, json!({ "id": id }))]);
    let (own, child) = (own(round), child(round));
    let mut rules = vec![
        once(&child).containing(&child).at_turn(0),
        Rule::text("the child is done").containing(&child),
        once(&own).containing(&own).at_turn(0),
        Rule::calls([("spawn_agent", json!({ "prompt": child }))]).containing(&own).at_turn(1),
        Rule::text("all is done").containing(&own),
    ];
    let held = match aim(round) {
        Hit::ModelOpen => Some(round % 3 + 2),
        Hit::ChildAtWork => Some(0),
        Hit::ToolOpen | Hit::BetweenSteps | Hit::Ending | Hit::Over => None,
    };
    if let Some(rule) = held.and_then(|held| rules.get_mut(held)) {
        *rule = rule.clone().held(&own);
    }
    rules
}

/// Many children at once, and a text. Their ends are stored one after the other: as messages between two
/// steps, if they end before the text comes, and while their parent ends, if they do not.
fn crowded_script(round: usize) -> Vec<Rule> {
    let (own, child) = (own(round), child(round));
    let spawn = || ("spawn_agent", json!({ "prompt": child, "wait": false }));
    let (of_child, text) =
        (Rule::text("the child is done").containing(&child), Rule::text("all is done"));
    let (of_child, text) = match aim(round) {
        Hit::BetweenSteps => (of_child.held(&child), text.at_turn(1).held(&own)),
        Hit::ModelOpen | Hit::ToolOpen | Hit::ChildAtWork | Hit::Ending | Hit::Over => {
            (of_child.held(&own), text.at_turn(1))
        }
    };
    vec![
        of_child,
        Rule::calls([(); CHILDREN].map(|()| spawn())).containing(&own).at_turn(0),
        text.containing(&own),
        // Its children have ended, and one of them spoke last.
        Rule::text("all is done").containing("the child is done"),
        Rule::text("all is done").containing(&own),
    ]
}

/// What the run of a round is told, and its children.
fn own(round: usize) -> String {
    format!("root {round}.")
}

fn child(round: usize) -> String {
    format!("child {round}.")
}

/// What a round is to hit.
fn aim(round: usize) -> Hit {
    Hit::KINDS[round % Hit::KINDS.len()]
}

/// A gateway on a folder, a fake provider and a tool.
struct Scene {
    fake: FakeModels,
    once: Once,
    place: TestFolder,
    /// How long to wait before a kill that is to hit a moment.
    delays: BTreeMap<Hit, Duration>,
}

impl Scene {
    async fn new() -> Self {
        let rules = (0..MOST_KILLS).flat_map(script).collect();
        let fake = FakeModels::start(rules).await.unwrap();
        let once = Once::start().await;
        // Requests that a kill cut off count as spent.
        let profile = HELPER.replace("tools: [vfs_write, vfs_read]\n", "");
        let profile = profile.replace("tokens: 50000", "tokens: 10000000");
        let config = format!("{}{}", config(&fake, "env:MODEL_KEY"), once.config());
        let config = config.replace("[providers.fake]\n", "[providers.fake]\nconcurrency = 64\n");
        let place = folder_with(&config, &[("helper.md", &profile)]);
        Self { fake, once, place, delays: BTreeMap::new() }
    }

    async fn serve(&self) -> Gateway {
        let gateway = self.place.serve_with(|command| {
            command.env(KEY.0, KEY.1);
        });
        offers(&gateway, TOOL).await;
        gateway
    }

    /// Starts a run, kills the gateway when the run is where it is to be hit, and looks what was hit.
    async fn kill(&mut self, round: usize) -> (String, Hit) {
        let (own, aim) = (own(round), aim(round));
        if aim == Hit::ToolOpen {
            self.once.hold(&own);
        }
        let mut gateway = self.serve().await;
        let id = self.place.ok(&["run", "helper", &own, "--detach"]).trim().to_owned();
        let patience = Duration::from_mins(1);
        let there = tokio::time::timeout(patience, self.is_there(&id, round)).await;
        assert!(there.is_ok(), "round {round} never comes to {aim:?}");
        if matches!(aim, Hit::BetweenSteps | Hit::Ending) {
            let delay = *self.delays.entry(aim).or_insert(Duration::from_millis(2));
            tokio::task::block_in_place(|| std::thread::sleep(delay));
        }
        gateway.child.kill().unwrap();
        gateway.child.wait().unwrap();
        self.fake.release(&own);
        self.once.release(&own);
        let shown = self.place.json(&["runs", "show", &id]);
        let shown: RunDetails = serde_json::from_value(shown).unwrap();
        let hit = self.hit(&shown);
        self.aim_better(aim, hit, &shown);
        (id, hit)
    }

    /// Waits until the run of a round is where it is to be hit, or shortly before.
    async fn is_there(&self, id: &str, round: usize) {
        let (own, child) = (own(round), child(round));
        match aim(round) {
            Hit::ModelOpen => drop(self.fake.asked(turn(round % 3, &own)).await),
            Hit::ChildAtWork => drop(self.fake.asked(turn(0, &child)).await),
            Hit::ToolOpen => self.once.called(&own).await,
            Hit::BetweenSteps => {
                self.fake.asked(turn(1, &own)).await;
                self.fake.release(&child);
                eventually("the children end", async || {
                    let shown = self.place.json(&["runs", "show", id]);
                    let below = shown["below"].as_array()?;
                    below.iter().all(|child| child["phase"] == "ended").then_some(())
                })
                .await;
                self.fake.release(&own);
            }
            Hit::Ending | Hit::Over => drop(self.fake.asked(turn(1, &own)).await),
        }
    }

    /// The next kill of this kind comes later if this one came too early, and the other way round.
    fn aim_better(&mut self, aim: Hit, hit: Hit, shown: &RunDetails) {
        if hit == aim {
            return;
        }
        let replies = shown.steps.iter().filter(|step| reply_of(step).is_some()).count();
        if let Some(delay) = self.delays.get_mut(&aim) {
            *delay = delay.mul_f64(if replies < 2 { 1.5 } else { 0.7 });
        }
    }

    /// What a run was at, as the store has it.
    fn hit(&self, shown: &RunDetails) -> Hit {
        if shown.run.ending.is_some() {
            let log = self.place.ok(&["audit", "export", "--events-only"]);
            let is_late = |event: &Value| {
                let is_end = event["kind"] == "run_ended" && event["late"] == true;
                is_end && event["runId"] == shown.run.id.as_str()
            };
            return if events(&log).iter().any(is_late) { Hit::Ending } else { Hit::Over };
        }
        let open: Vec<&Step> = shown.steps.iter().filter(|step| step.is_open()).collect();
        match (open.as_slice(), shown.steps.last()) {
            ([], Some(last)) if reply_of(last).is_some_and(|reply| !has_calls(reply)) => {
                Hit::Ending
            }
            ([], _) => Hit::BetweenSteps,
            ([Step { body: StepBody::Model { .. }, .. }, ..], _) => Hit::ModelOpen,
            _ if shown.below.iter().any(|child| child.ending.is_none()) => Hit::ChildAtWork,
            _ => Hit::ToolOpen,
        }
    }
}

/// Whether a request belongs to a conversation with these words, after so many replies.
fn turn(turn: usize, words: &str) -> impl Fn(&Received) -> bool {
    move |received| {
        let messages = received.body["messages"].as_array().cloned().unwrap_or_default();
        let replies = messages.iter().filter(|message| message["role"] == "assistant").count();
        let is_it = messages.first().is_some_and(|first| first.to_string().contains(words));
        is_it && replies == turn
    }
}

fn reply_of(step: &Step) -> Option<&Reply> {
    match &step.body {
        StepBody::Model { outcome: Some(ModelOutcome::Reply { reply, .. }), .. } => Some(reply),
        _ => None,
    }
}

fn has_calls(reply: &Reply) -> bool {
    reply.parts.iter().any(|part| matches!(part, Part::Call(_)))
}

fn events(log: &str) -> Vec<Value> {
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_kills_lose_no_run() {
    let mut scene = Scene::new().await;
    let mut started = Vec::new();
    let mut hits: BTreeMap<Hit, usize> = BTreeMap::new();
    for round in 0..MOST_KILLS {
        if round >= KILLS && hits.get(&aim(round)).is_some_and(|hits| *hits >= LEAST_HITS) {
            continue;
        }
        let (id, hit) = scene.kill(round).await;
        *hits.entry(hit).or_default() += 1;
        started.push(id);
    }
    eprintln!("{} kills hit: {hits:#?}", started.len());
    for kind in Hit::KINDS {
        let often = hits.get(&kind).copied().unwrap_or_default();
        assert!(often >= LEAST_HITS, "{often} kills hit {kind:?}: {hits:?}");
    }
    let gateway = scene.serve().await;
    let runs = eventually("every run ends", async || {
        let runs = scene.place.json(&["runs", "list", "--limit", "1000"]);
        let all_ended = runs.as_array()?.iter().all(|run| run["phase"] == "ended");
        all_ended.then_some(runs)
    })
    .await;
    assert_eq!(gateway.terminate(), Some(0));
    let runs = runs.as_array().unwrap();
    let ids: Vec<&str> = runs.iter().map(|run| run["id"].as_str().unwrap()).collect();
    for id in &started {
        let run = runs.iter().find(|run| run["id"] == id.as_str());
        let run = run.unwrap_or_else(|| panic!("run `{id}` is lost"));
        assert_eq!(run["ending"], "done", "{run}");
    }
    let repeated: Vec<(String, usize)> =
        scene.once.calls().into_iter().filter(|(_, count)| *count > 1).collect();
    assert_eq!(repeated, [], "called twice");
    assert!(scene.place.ok(&["audit", "verify"]).starts_with("intact"));
    let log = scene.place.ok(&["audit", "export", "--events-only"]);
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    let events = events(&log);
    for event in events.iter().filter(|event| event["kind"] == "run_ended") {
        *ends.entry(event["runId"].as_str().unwrap()).or_default() += 1;
    }
    for id in ids {
        assert_eq!(ends.get(id), Some(&1), "the end of {id}");
    }
}
