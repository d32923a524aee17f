//! Asks the parts of a pack for their tools, side by side, and hears when they change.
//!
//! A slow part does not delay the others: its request goes on in the background, and its answer is
//! announced as a change. A part that failed is asked again after growing pauses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use drawgate_core::model::McpManifest;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::part::Part;
use crate::backoff::Backoff;

/// How long the others wait for a part that starts.
const PATIENCE: Duration = Duration::from_secs(10);
/// The waits before a part that failed is asked again.
const WAITS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));

/// What a part said; `None` as long as it is being asked.
type Answer = Option<Result<McpManifest, String>>;

pub(super) struct Survey {
    changes: watch::Sender<u64>,
    /// Ended with the pack.
    tasks: Mutex<Tasks>,
    /// Questions under way, by part.
    asked: Vec<Mutex<Option<Question>>>,
}

struct Tasks {
    set: JoinSet<()>,
    /// Whether the parts are listened to.
    listens: bool,
    retry: Option<tokio::task::AbortHandle>,
    waits: Backoff,
}

#[derive(Clone)]
struct Question {
    answer: watch::Receiver<Answer>,
    /// The caller has stopped waiting, so that the answer must be announced as a change.
    is_late: Arc<AtomicBool>,
}

impl Survey {
    pub(super) fn new(parts: usize) -> Self {
        let tasks = Tasks { set: JoinSet::new(), listens: false, retry: None, waits: WAITS };
        Self {
            changes: watch::Sender::new(0),
            tasks: Mutex::new(tasks),
            asked: (0..parts).map(|_| Mutex::default()).collect(),
        }
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(super) fn close(&self) {
        self.tasks.lock().set.abort_all();
    }

    /// What each part says.
    pub(super) async fn ask(&self, parts: &[Part]) -> Vec<Result<McpManifest, String>> {
        self.listen(parts);
        let questions: Vec<Result<Question, String>> =
            self.asked.iter().zip(parts).map(|(asked, part)| self.question(asked, part)).collect();
        let patience = Instant::now() + PATIENCE;
        let mut answers = Vec::new();
        for question in &questions {
            answers.push(match question {
                Ok(question) => wait(question, patience).await,
                Err(reason) => Some(Err(reason.clone())),
            });
        }
        if answers.iter().any(|answer| matches!(answer, Some(Ok(_)))) {
            let late = questions.iter().zip(&mut answers).filter(|(_, answer)| answer.is_none());
            for (question, answer) in late {
                *answer = question.as_ref().ok().and_then(give_up);
            }
        } else {
            // No other part has answered, so that waiting delays nothing.
            for (question, answer) in questions.iter().zip(&mut answers) {
                if let (Ok(question), None) = (question, &answer) {
                    *answer = wait_on(question).await;
                }
            }
        }
        self.settle(parts, &answers);
        let starting = || Err("it has not finished its start yet".to_owned());
        answers.into_iter().map(|answer| answer.unwrap_or_else(starting)).collect()
    }

    /// The question that is under way, or a new one.
    fn question(&self, asked: &Mutex<Option<Question>>, part: &Part) -> Result<Question, String> {
        let source = part.source.as_ref().map_err(Clone::clone)?;
        let mut asked = asked.lock();
        if let Some(question) = &*asked
            && question.answer.borrow().is_none()
            && question.answer.has_changed().is_ok()
        {
            question.is_late.store(false, Ordering::SeqCst);
            return Ok(question.clone());
        }
        let (sender, answer) = watch::channel(None);
        let question = Question { answer, is_late: Arc::default() };
        *asked = Some(question.clone());
        let (source, is_late) = (Arc::clone(source), Arc::clone(&question.is_late));
        let changes = self.changes.clone();
        self.spawn(async move {
            let said = source.manifest().await.map_err(|error| error.to_string());
            sender.send_replace(Some(said));
            if is_late.load(Ordering::SeqCst) {
                bump(&changes);
            }
        });
        Ok(question)
    }

    /// Passes on what the parts announce, from the first question on.
    fn listen(&self, parts: &[Part]) {
        if std::mem::replace(&mut self.tasks.lock().listens, true) {
            return;
        }
        for mut heard in parts.iter().filter_map(|part| part.source.as_ref().ok()?.changes()) {
            let changes = self.changes.clone();
            self.spawn(async move {
                while heard.changed().await.is_ok() {
                    bump(&changes);
                }
            });
        }
    }

    /// Sees to it that parts that failed are asked again. A part that could not be made never will be.
    fn settle(&self, parts: &[Part], answers: &[Answer]) {
        let failed = parts.iter().zip(answers);
        let failed = failed.filter(|(part, _)| part.source.is_ok());
        let has_failed = failed.into_iter().any(|(_, answer)| matches!(answer, Some(Err(_))));
        let mut tasks = self.tasks.lock();
        if let Some(retry) = tasks.retry.take() {
            retry.abort();
        }
        if !has_failed {
            tasks.waits.reset();
            return;
        }
        let (pause, changes) = (tasks.waits.next(0), self.changes.clone());
        let retry = async move {
            sleep(pause).await;
            bump(&changes);
        };
        tasks.retry = Some(tasks.set.spawn(retry));
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        while tasks.set.try_join_next().is_some() {}
        tasks.set.spawn(task);
    }
}

async fn wait(question: &Question, until: Instant) -> Answer {
    timeout_at(until, wait_on(question)).await.ok().flatten()
}

async fn wait_on(question: &Question) -> Answer {
    let mut answer = question.answer.clone();
    match answer.wait_for(Option::is_some).await {
        Ok(answer) => answer.clone(),
        Err(_) => Some(Err("it failed inside".to_owned())),
    }
}

/// No longer waits, unless the answer came just now.
fn give_up(question: &Question) -> Answer {
    question.is_late.store(true, Ordering::SeqCst);
    question.answer.borrow().clone()
}

fn bump(changes: &watch::Sender<u64>) {
    changes.send_modify(|version| *version = version.wrapping_add(1));
}
