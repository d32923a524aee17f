//! A plugin of the tests' own, that does what a closure says.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use drawgate_agents::plugin::{
    CallMeta, Hook, HookAnswer, HookEvent, Plugin, PluginError, PluginTool,
};
use drawgate_core::model::{SourceId, ToolOutput};
use drawgate_core::source::{CallContext, SourceError};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

type Answer = dyn Fn(usize, &HookEvent) -> Behaviour + Send + Sync;

/// What it does at a hook.
pub(crate) enum Behaviour {
    Answers(Result<HookAnswer, PluginError>),
    Hangs,
    Panics,
}

pub(crate) struct TestPlugin {
    name: SourceId,
    hooks: BTreeSet<Hook>,
    answer: Box<Answer>,
    /// What it was told and asked.
    heard: Mutex<Vec<HookEvent>>,
    /// From where its tool was called.
    metas: Mutex<Vec<CallMeta>>,
}

impl TestPlugin {
    /// A plugin whose answers depend on how often it was asked before.
    pub(crate) fn new(
        name: &str,
        hooks: impl IntoIterator<Item = Hook>,
        answer: impl Fn(usize, &HookEvent) -> Behaviour + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            name: SourceId::new(name).unwrap(),
            hooks: hooks.into_iter().collect(),
            answer: Box::new(answer),
            heard: Mutex::default(),
            metas: Mutex::default(),
        })
    }

    pub(crate) fn heard(&self) -> Vec<HookEvent> {
        self.heard.lock().clone()
    }

    pub(crate) fn heard_of(&self, hook: Hook) -> usize {
        self.heard.lock().iter().filter(|event| event.hook() == hook).count()
    }

    pub(crate) fn metas(&self) -> Vec<CallMeta> {
        self.metas.lock().clone()
    }
}

pub(crate) fn nothing() -> Behaviour {
    Behaviour::Answers(Ok(HookAnswer::Nothing))
}

pub(crate) fn accepts() -> Behaviour {
    Behaviour::Answers(Ok(HookAnswer::Verdict { accepted: true, feedback: None }))
}

pub(crate) fn rejects(feedback: &str) -> Behaviour {
    let feedback = Some(feedback.to_owned());
    Behaviour::Answers(Ok(HookAnswer::Verdict { accepted: false, feedback }))
}

#[async_trait]
impl Plugin for TestPlugin {
    fn name(&self) -> &SourceId {
        &self.name
    }

    fn version(&self) -> &'static str {
        "1.0.0"
    }

    fn tools(&self) -> Vec<PluginTool> {
        let (name, description) = ("where".to_owned(), "says where it is called".to_owned());
        vec![PluginTool { name, description, schema: json!({ "type": "object" }) }]
    }

    fn hooks(&self) -> BTreeSet<Hook> {
        self.hooks.clone()
    }

    async fn call(
        &self,
        _tool: &str,
        _input: Map<String, Value>,
        meta: &CallMeta,
        _cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        self.metas.lock().push(meta.clone());
        Ok(ToolOutput::text(meta.thread_id.clone()))
    }

    async fn hook(&self, event: &HookEvent) -> Result<HookAnswer, PluginError> {
        let before = {
            let mut heard = self.heard.lock();
            let before = heard.iter().filter(|other| other.hook() == event.hook()).count();
            heard.push(event.clone());
            before
        };
        match (self.answer)(before, event) {
            Behaviour::Answers(answer) => answer,
            Behaviour::Hangs => std::future::pending().await,
            Behaviour::Panics => panic!("as the test wants it"),
        }
    }
}
