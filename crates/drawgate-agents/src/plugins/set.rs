//! The plugins at work, in order: by position, then by name. What happens is dispatched to them here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use drawgate_core::model::{Lineage, SourceId};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::known::Known;
use super::seat::{NOTICE_TIME, Seat};
use crate::plugin::{Hook, HookAnswer, HookEvent, InvokeResult, Plugin, PluginError};
use crate::runs::{Role, RunHooks};
use crate::tasks::TaskHooks;

/// Bytes of a prompt that a plugin may write.
const MAX_PROMPT: usize = 1024 * 1024;

/// The plugins at work.
pub(crate) struct PluginSet {
    seats: ArcSwap<Vec<Arc<Seat>>>,
    /// By name, also of plugins that are not at work yet.
    known: Mutex<BTreeMap<SourceId, Arc<Known>>>,
    generation: AtomicU64,
    changes: watch::Sender<u64>,
    /// One change at a time.
    changing: Mutex<()>,
}

impl Default for PluginSet {
    fn default() -> Self {
        Self {
            seats: ArcSwap::default(),
            known: Mutex::default(),
            generation: AtomicU64::new(0),
            changes: watch::Sender::new(0),
            changing: Mutex::default(),
        }
    }
}

impl PluginSet {
    /// What is remembered of the plugin of a name.
    pub(crate) fn known(&self, name: &SourceId) -> Arc<Known> {
        Arc::clone(self.known.lock().entry(name.clone()).or_default())
    }

    /// All seats, in order.
    pub(crate) fn seats(&self) -> Arc<Vec<Arc<Seat>>> {
        self.seats.load_full()
    }

    /// The value changes with the set.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Puts a plugin in its place; the one of its name before, if there was one.
    pub(crate) fn put(&self, plugin: Arc<dyn Plugin>, position: i32) -> Option<Arc<Seat>> {
        let _alone = self.changing.lock();
        let generation = self.generation.fetch_add(1, Ordering::Relaxed);
        let known = self.known(plugin.name());
        let seat = Seat::new(plugin, position, generation, known);
        let (before, mut seats) = self.without(seat.name().as_str());
        seats.push(seat);
        seats.sort_by(|a, b| (a.position, a.name()).cmp(&(b.position, b.name())));
        self.seats.store(Arc::new(seats));
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
        before
    }

    /// Takes a plugin out of its place.
    pub(crate) fn remove(&self, name: &str) -> Option<Arc<Seat>> {
        let _alone = self.changing.lock();
        let (before, seats) = self.without(name);
        self.seats.store(Arc::new(seats));
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
        before
    }

    fn without(&self, name: &str) -> (Option<Arc<Seat>>, Vec<Arc<Seat>>) {
        let seats = self.seats.load();
        let (mut own, others): (Vec<_>, Vec<_>) =
            seats.iter().cloned().partition(|seat| seat.name().as_str() == name);
        (own.pop(), others)
    }

    fn find(&self, name: &str) -> Option<Arc<Seat>> {
        self.seats.load().iter().find(|seat| seat.name().as_str() == name).cloned()
    }

    fn is_wanted(&self, hook: Hook) -> bool {
        self.seats.load().iter().any(|seat| seat.wants(hook))
    }

    /// Tells all plugins that want to know, but for one.
    pub(crate) fn tell(&self, event: HookEvent, but: Option<&SourceId>) {
        let event = Arc::new(event);
        let seats = self.seats.load();
        let wanting = seats.iter().filter(|seat| seat.wants(event.hook()));
        for seat in wanting.filter(|seat| Some(seat.name()) != but) {
            seat.tell(&event);
        }
    }

    /// Waits until a plugin is at work.
    async fn awaited(&self, name: &str, patience: Duration) -> Option<Arc<Seat>> {
        let mut changes = self.changes.subscribe();
        let found = async {
            loop {
                if let Some(seat) = self.find(name) {
                    return Some(seat);
                }
                changes.changed().await.ok()?;
            }
        };
        tokio::time::timeout(patience, found).await.ok().flatten()
    }
}

#[async_trait]
impl RunHooks for PluginSet {
    fn message(&self, run: &Lineage, role: Role, content: &str) {
        if self.is_wanted(Hook::OnMessage) {
            let (thread_id, role) = (run.thread.to_string(), role.as_str().to_owned());
            let content = content.to_owned();
            self.tell(HookEvent::OnMessage { thread_id, role, content }, None);
        }
    }

    fn rewrites(&self) -> bool {
        self.is_wanted(Hook::OnBeforeInvoke)
    }

    async fn before_invoke(&self, run: &Lineage, mut prompt: String) -> String {
        for seat in self.seats().iter().filter(|seat| seat.wants(Hook::OnBeforeInvoke)) {
            let thread_id = run.thread.to_string();
            let event = HookEvent::OnBeforeInvoke { thread_id, prompt: prompt.clone() };
            match seat.ask(Arc::new(event), NOTICE_TIME).await {
                Ok(HookAnswer::Prompt(other)) if other.len() <= MAX_PROMPT => prompt = other,
                Ok(HookAnswer::Prompt(_)) => {
                    tracing::warn!(plugin = %seat.name(), "a prompt by a plugin is too long, and not used");
                }
                // Whoever fails is skipped, and counted.
                Ok(HookAnswer::Nothing | HookAnswer::Verdict { .. }) | Err(_) => {}
            }
        }
        prompt
    }

    fn after_invoke(&self, run: &Lineage, result: InvokeResult) {
        if self.is_wanted(Hook::OnAfterInvoke) {
            let thread_id = run.thread.to_string();
            self.tell(HookEvent::OnAfterInvoke { thread_id, result }, None);
        }
    }
}

#[async_trait]
impl TaskHooks for PluginSet {
    fn wanting(&self, hook: Hook) -> Vec<String> {
        let seats = self.seats.load();
        let wanting = seats.iter().filter(|seat| seat.wants(hook));
        wanting.map(|seat| seat.name().to_string()).collect()
    }

    async fn ask(
        &self,
        plugin: &str,
        event: HookEvent,
        absent: Duration,
        answer: Duration,
    ) -> Result<HookAnswer, PluginError> {
        match self.awaited(plugin, absent).await {
            Some(seat) => seat.ask(Arc::new(event), answer).await,
            None => Err(PluginError("it is not at work".to_owned())),
        }
    }
}
