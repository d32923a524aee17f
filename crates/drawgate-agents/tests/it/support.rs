//! A gate with runs, and a fake server of models behind it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use drawgate_agents::model::config::{ModelsConfig, ProviderConfig, ProvidersConfig};
use drawgate_agents::model::{Api, ModelLimits, Models};
use drawgate_agents::plugin::Plugin;
use drawgate_agents::plugins::{PluginTerms, Plugins};
use drawgate_agents::profile::{Budget, Profile, parse};
use drawgate_agents::runs::record::StepBody;
use drawgate_agents::runs::{
    ConfiguredModels, End, Happened, NewRun, Origin, RunEvent, RunSettings, Runs, RunsParts,
    StartError,
};
use drawgate_agents::source::{AgentTools, ProfileTools, Profiles};
use drawgate_agents::testing::fake_models::{FakeModels, Rule};
use drawgate_core::model::SourceId;
use drawgate_core::registry::{Origin as Manifest, SourceTerms};
use drawgate_core::source::ToolSource;
use drawgate_core::store::Storage;
use drawgate_core::testing::{TestGate, TestStore, caller};
use drawgate_host::Host;
use drawgate_host::seal::SealingKey;
use drawgate_host::secrets::Secrets;

/// How long anything here may take.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The provider that each API is configured as.
pub(crate) const APIS: [(Api, &str); 4] = [
    (Api::Anthropic, "anthropic"),
    (Api::Openai, "openai"),
    (Api::OpenaiChat, "chat"),
    (Api::Gemini, "gemini"),
];

pub(crate) struct Bench {
    pub(crate) gate: TestGate,
    pub(crate) fake: FakeModels,
    pub(crate) runs: Runs,
    pub(crate) plugins: Plugins,
    pub(crate) profiles: Arc<Accepted>,
}

/// Profiles by name.
pub(crate) struct Accepted(BTreeMap<String, Arc<Profile>>);

impl Profiles for Accepted {
    fn get(&self, name: &str) -> Option<Arc<Profile>> {
        self.0.get(name).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}

/// No act here is about files.
struct NoFiles;

#[async_trait::async_trait]
impl drawgate_core::acts::Files for NoFiles {
    async fn have(&self, _outcome: &drawgate_core::audit::EventDraft) -> Option<bool> {
        None
    }
}

/// Models that stay as they are.
struct Fixed(Arc<Models>);

impl ConfiguredModels for Fixed {
    fn models(&self) -> Arc<Models> {
        Arc::clone(&self.0)
    }
}

/// Limits of the fake model, with prices.
pub(crate) fn limits(context_tokens: u64, max_output: u64) -> ModelLimits {
    let prices =
        serde_json::from_value(serde_json::json!({ "input": 3.0, "output": 15.0 })).unwrap();
    ModelLimits { context_tokens, max_output, usd_per_million: Some(prices) }
}

impl Bench {
    /// A gate whose local user may do everything.
    pub(crate) async fn new(profiles: &[&str], rules: Vec<Rule>) -> Self {
        let gate = TestGate::with(TestStore::default()).await;
        gate.grant("local", "*", None).await;
        Self::on(gate, profiles, rules, limits(100_000, 1_000)).await
    }

    pub(crate) async fn on(
        gate: TestGate,
        profiles: &[&str],
        rules: Vec<Rule>,
        limits: ModelLimits,
    ) -> Self {
        let fake = FakeModels::start(rules).await.unwrap();
        let accepted = profiles.iter().map(|text| {
            let parsed = parse("test.md", text).unwrap_or_else(|problems| panic!("{problems:?}"));
            (parsed.profile.name.clone(), Arc::new(parsed.profile))
        });
        let profiles = Arc::new(Accepted(accepted.collect()));
        let models = Arc::new(Fixed(Arc::new(models(&fake, limits))));
        let runs = Runs::new(parts(&gate, models));
        let plugins = Plugins::new(&runs);
        let bench = Self { gate, fake, runs, plugins, profiles };
        bench.offer().await;
        bench
    }

    /// Registers the tools for agents and those of the profiles.
    async fn offer(&self) {
        let id = SourceId::new("agents").unwrap();
        let profiles: Arc<dyn Profiles> = self.profiles.clone();
        let search = Some("gemini/fake".to_owned());
        let tools = Arc::new(AgentTools::new(id, self.runs.clone(), profiles, search));
        let terms = AgentTools::terms(SourceTerms::default());
        let manifest = tools.manifest().await.unwrap();
        let bad = self.gate.declare(tools, manifest, terms, Manifest::Declared).unwrap();
        assert_eq!(bad, []);
        for profile in self.profiles.0.values().filter(|profile| ProfileTools::any(profile)) {
            let tools = ProfileTools::new(Arc::clone(profile), self.runs.clone()).unwrap();
            let tools = Arc::new(tools);
            let (terms, manifest) = (tools.terms(SourceTerms::default()), tools.manifest().await);
            let bad =
                self.gate.declare(tools, manifest.unwrap(), terms, Manifest::Declared).unwrap();
            assert_eq!(bad, []);
        }
    }

    pub(crate) fn new_run(&self, profile: &str, prompt: &str) -> NewRun {
        NewRun {
            caller: caller("local"),
            profile: self.profiles.get(profile).unwrap(),
            tool: None,
            prompt: prompt.to_owned(),
            model: None,
            answer: None,
            budget: Budget::default(),
            origin: Origin::New,
            trace: None,
        }
    }

    pub(crate) async fn start(&self, profile: &str, prompt: &str) -> Result<String, StartError> {
        self.runs.start(self.new_run(profile, prompt)).await
    }

    /// Runs a profile to its end.
    pub(crate) async fn run(&self, profile: &str, prompt: &str) -> (String, End) {
        let id = self.start(profile, prompt).await.unwrap();
        let end = self.end_of(&id).await;
        (id, end)
    }

    pub(crate) async fn end_of(&self, id: &str) -> End {
        let ended = tokio::time::timeout(PATIENCE, self.runs.ended(id)).await;
        ended.expect("the run hangs").expect("there is no such run")
    }

    /// The first run below another, once it has been started.
    pub(crate) async fn child_of(&self, id: &str) -> String {
        let mut after = 0;
        let started = async {
            loop {
                let events = self.runs.events(id, after, PATIENCE).await.unwrap_or_default();
                after = events.last().map_or(after, |event| event.seq);
                if let Some(of_child) = events.iter().find(|event| event.run != id) {
                    return of_child.run.clone();
                }
            }
        };
        tokio::time::timeout(PATIENCE, started).await.expect("no child is started")
    }

    /// Waits until a run is in this phase.
    pub(crate) async fn phase_of(&self, id: &str, wanted: &str) {
        let mut after = 0;
        let reached = async {
            loop {
                let events = self.runs.events(id, after, PATIENCE).await.unwrap_or_default();
                after = events.last().map_or(after, |event| event.seq);
                let is_wanted = |event: &RunEvent| {
                    let Happened::Phase { phase } = event.body else { return false };
                    event.run == id && phase.as_str() == wanted
                };
                if events.iter().any(is_wanted) {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, reached).await.expect("the run does not come to this");
    }

    /// What the calls of a run were answered, in order.
    pub(crate) async fn outcomes(&self, run: &str) -> Vec<String> {
        let shown = self.runs.show(run).await.unwrap().unwrap();
        let texts = shown.steps.into_iter().filter_map(|step| match step.body {
            StepBody::Call { outcome, .. } => outcome.map(|outcome| outcome.text),
            _ => None,
        });
        texts.collect()
    }

    /// Another process on the same store: the runs of the first one are gone, those of this one are
    /// taken up.
    pub(crate) async fn restarted(self) -> Self {
        let bench = self.reopened().await;
        bench.recover().await;
        bench
    }

    /// Another process on the same store, which has not taken anything up yet.
    pub(crate) async fn reopened(self) -> Self {
        let Self { gate, fake, runs, plugins, profiles } = self;
        let models = Arc::new(Fixed(Arc::new(models(&fake, limits(100_000, 1_000)))));
        drop((runs, plugins));
        let runs = Runs::new(parts(&gate, models));
        let plugins = Plugins::new(&runs);
        let bench = Self { gate, fake, runs, plugins, profiles };
        bench.offer().await;
        bench
    }

    pub(crate) async fn recover(&self) {
        let acts = drawgate_core::testing::acts(self.gate.store.clone(), self.gate.store.clone());
        acts.settle(&NoFiles).await.unwrap();
        self.plugins.tasks().recover().await.unwrap();
    }

    /// Puts a plugin in, and registers its tools.
    pub(crate) async fn put(&self, plugin: Arc<dyn Plugin>, position: i32) {
        let name = plugin.name().clone();
        self.plugins.start(&plugin).await.unwrap();
        self.plugins.seat(plugin, position).await;
        let offered = self.plugins.offered().into_iter().map(|offered| offered.source);
        for tools in offered.filter(|source| *source.id() == name) {
            let (terms, manifest) = (tools.terms(SourceTerms::default()), tools.manifest().await);
            let tools = Arc::new(tools);
            let bad =
                self.gate.declare(tools, manifest.unwrap(), terms, Manifest::Declared).unwrap();
            assert_eq!(bad, []);
        }
    }

    /// Puts a plugin in that comes with the gateway.
    pub(crate) async fn put_native(&self, name: &str, settings: serde_json::Value) {
        let id = SourceId::new(name).unwrap();
        let terms = PluginTerms { settings, ..PluginTerms::default() };
        let context = self.plugins.context(&id, terms).unwrap();
        self.put(Plugins::native(name, context).unwrap().unwrap(), 0).await;
    }
}

fn models(fake: &FakeModels, limits: ModelLimits) -> Models {
    let providers: ProvidersConfig = APIS
        .into_iter()
        .map(|(kind, name)| {
            let provider = ProviderConfig {
                kind,
                url: Some(fake.url(kind)),
                key: None,
                concurrency: 64,
                models: ["fake", "slow"].map(|model| (model.to_owned(), limits)).into(),
            };
            (name.to_owned(), provider)
        })
        .collect();
    let names = ModelsConfig { default: Some("anthropic/fake".to_owned()), ..Default::default() };
    let host = Arc::new(Host::new(Secrets::new(BTreeMap::new()), None).unwrap());
    Models::new(&providers, &names, &host)
}

fn parts(gate: &TestGate, models: Arc<dyn ConfiguredModels>) -> RunsParts {
    let storage = Storage {
        store: gate.store.clone(),
        documents: gate.store.clone(),
        log: gate.store.clone(),
        audit: gate.store.clone(),
        artifacts: gate.store.clone(),
    };
    RunsParts {
        programs: None,
        gateway: gate.gateway.clone(),
        storage,
        key: SealingKey::new(&[7; 32]).unwrap(),
        acts: drawgate_core::testing::acts(gate.store.clone(), gate.store.clone()),
        models,
        settings: RunSettings::default(),
    }
}

/// A profile of a few lines.
pub(crate) fn profile(name: &str, more: &str) -> String {
    format!("---\nname: {name}\ndescription: for tests\n{more}\n---\nYou are {name}.\n")
}
