//! One plugin at work: its place in the order, its queue of things to be told, and how often it failed. What
//! it does wrong stays its own: each hook has a time, and runs in a task of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use drawgate_core::model::SourceId;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::known::Known;
use crate::plugin::{Hook, HookAnswer, HookEvent, Plugin, PluginError};

/// What may wait to be told to a plugin: in number, and in bytes.
const QUEUE: usize = 1000;
const QUEUE_BYTES: usize = 16 * 1024 * 1024;
/// How long a plugin may take that is told of something.
pub(crate) const NOTICE_TIME: Duration = Duration::from_secs(5);

/// A plugin at work.
pub(crate) struct Seat {
    pub(crate) plugin: Arc<dyn Plugin>,
    pub(crate) position: i32,
    /// Different for every plugin that ever was at work here.
    pub(crate) generation: u64,
    pub(crate) known: Arc<Known>,
    hooks: BTreeSet<Hook>,
    queue: mpsc::Sender<Arc<HookEvent>>,
    queued_bytes: AtomicUsize,
    dropped: AtomicU64,
    failed: AtomicU64,
    gone: CancellationToken,
}

impl Seat {
    /// Gives a plugin its seat, and begins to tell it what is queued for it.
    pub(crate) fn new(
        plugin: Arc<dyn Plugin>,
        position: i32,
        generation: u64,
        known: Arc<Known>,
    ) -> Arc<Self> {
        let (queue, told) = mpsc::channel(QUEUE);
        let seat = Arc::new(Self {
            hooks: plugin.hooks(),
            plugin,
            position,
            generation,
            known,
            queue,
            queued_bytes: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            gone: CancellationToken::new(),
        });
        tokio::spawn(Arc::clone(&seat).tell_all(told));
        seat
    }

    pub(crate) fn name(&self) -> &SourceId {
        self.plugin.name()
    }

    pub(crate) fn wants(&self, hook: Hook) -> bool {
        self.hooks.contains(&hook)
    }

    pub(crate) const fn hooks(&self) -> &BTreeSet<Hook> {
        &self.hooks
    }

    /// What it was not told because it is too slow.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// How often it failed, panicked or took too long.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Takes it out of work: what it is asked now is not answered any more.
    pub(crate) fn leave(&self) {
        self.gone.cancel();
    }

    /// Tells it of something, without waiting. If too much is queued already, it is not told.
    pub(crate) fn tell(&self, event: &Arc<HookEvent>) {
        let size = size(event);
        let before = self.queued_bytes.fetch_add(size, Ordering::Relaxed);
        let fits = before.saturating_add(size) <= QUEUE_BYTES;
        if !fits || self.queue.try_send(Arc::clone(event)).is_err() {
            self.queued_bytes.fetch_sub(size, Ordering::Relaxed);
            let count = self.dropped.fetch_add(1, Ordering::Relaxed);
            if count == 0 {
                tracing::warn!(plugin = %self.name(), "a plugin is too slow, and is not told of everything");
            }
        }
    }

    async fn tell_all(self: Arc<Self>, mut told: mpsc::Receiver<Arc<HookEvent>>) {
        loop {
            let event = tokio::select! {
                biased;
                () = self.gone.cancelled() => return,
                event = told.recv() => event,
            };
            let Some(event) = event else { return };
            self.queued_bytes.fetch_sub(size(&event), Ordering::Relaxed);
            // A failure has been counted.
            let _ = self.ask(event, NOTICE_TIME).await;
        }
    }

    /// Asks it, and waits for the answer as long as it may take.
    pub(crate) async fn ask(
        &self,
        event: Arc<HookEvent>,
        time: Duration,
    ) -> Result<HookAnswer, PluginError> {
        if let Some(thread) = thread(&event) {
            self.known.learn(thread);
        }
        let hook = event.hook();
        let plugin = Arc::clone(&self.plugin);
        // In a task of its own, so that a panic ends nothing else.
        let work = AbortOnDropHandle::new(tokio::spawn(async move { plugin.hook(&event).await }));
        let answer = tokio::select! {
            biased;
            () = self.gone.cancelled() => Err(PluginError("it was taken out of work".to_owned())),
            answer = tokio::time::timeout(time, work) => match answer {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => Err(PluginError("it panicked".to_owned())),
                Err(_) => Err(PluginError(format!("it did not answer within {} s", time.as_secs_f32()))),
            },
        };
        if let Err(error) = &answer {
            self.failed.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(plugin = %self.name(), ?hook, %error, "a hook of a plugin failed");
        }
        answer
    }
}

/// The conversation that an event is about.
fn thread(event: &HookEvent) -> Option<&str> {
    match event {
        HookEvent::OnMessage { thread_id, .. }
        | HookEvent::OnBeforeInvoke { thread_id, .. }
        | HookEvent::OnAfterInvoke { thread_id, .. }
        | HookEvent::OnTaskCreate { thread_id, .. }
        | HookEvent::OnTaskComplete { thread_id, .. }
        | HookEvent::OnTaskFailed { thread_id, .. } => Some(thread_id),
        HookEvent::OnBroadcast { .. } => None,
    }
}

/// About how many bytes an event has.
fn size(event: &HookEvent) -> usize {
    match event {
        HookEvent::OnMessage { content, .. } => content.len(),
        HookEvent::OnBeforeInvoke { prompt, .. } => prompt.len(),
        HookEvent::OnAfterInvoke { result, .. } => result.output.len(),
        HookEvent::OnTaskComplete { result, .. } => result.len(),
        HookEvent::OnTaskFailed { error, .. } => error.len(),
        // Announcements are bounded where they are made.
        HookEvent::OnTaskCreate { .. } | HookEvent::OnBroadcast { .. } => 0,
    }
}
