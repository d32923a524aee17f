//! A plugin that misbehaves in every way. For each: what becomes of its own call, and that another plugin and the
//! gateway go on.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use drawgate_agents::plugin::process::{ProcessLimits, ProcessPlugin, ProcessSettings};
use drawgate_agents::plugin::{
    HookAnswer, HookEvent, InvokeOptions, InvokeResult, NewTask, Plugin, PluginContext,
    PluginError, TaskView,
};
use drawgate_core::hooks::{HookCall, Review};
use drawgate_core::model::{Operation, Principal, SourceId, ToolId};
use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::{KEY, Machine, Recorder, call, example, fixture, text, until};
use crate::support::PATIENCE;

const MANIFEST: &str = r#"{
    "name": "hostile", "version": "1.0.0", "main": "main.py", "runtime": "exec",
    "permissions": {"hooks": ["onMessage", "onBeforeInvoke", "beforeCall", "afterCall"]}
}"#;

/// A machine with a plugin that behaves and one that does not.
struct Neighbours {
    machine: Machine,
    good: ProcessPlugin,
    settings: ProcessSettings,
}

impl Neighbours {
    async fn new(mode: &str) -> Self {
        let machine = Machine::new();
        let (good, _recorder) = machine.load(&example("shout")).await.unwrap();
        let program = std::fs::read_to_string(fixture("hostile/main.py")).unwrap();
        let other = machine.write("other", &[("secret.txt", "not for others")]);
        let paths = json!({
            "other plugin": other.join("secret.txt"),
            "other plugins": other.parent().unwrap(),
            "data": machine.folder.path().join("data/drawgate.db"),
            "data folder": machine.folder.path().join("data"),
        });
        let files = [
            ("drawgate-plugin.json", MANIFEST),
            ("main.py", &program),
            ("mode", mode),
            ("paths.json", &paths.to_string()),
        ];
        let folder = machine.write("hostile", &files);
        let runnable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.join("main.py"), runnable).unwrap();
        let limits = ProcessLimits {
            start: Duration::from_secs(2),
            stop: Duration::from_millis(500),
            ping: Duration::from_millis(500),
            observe: Duration::from_millis(300),
            first_pause: Duration::from_millis(20),
            longest_pause: Duration::from_millis(100),
            queue: 10,
            ..ProcessLimits::default()
        };
        let settings = ProcessSettings { limits, ..machine.settings(&folder) };
        Self { machine, good, settings }
    }

    async fn load(&self) -> (ProcessPlugin, Arc<Recorder>) {
        self.machine.load_with(self.settings.clone()).await.unwrap()
    }

    /// The neighbour works as ever, and at once.
    async fn others_are_unharmed(&self, mode: &str) {
        let work = call(&self.good, "up", json!({ "text": mode }));
        let output =
            timeout(Duration::from_secs(10), work).await.expect("it is not held up").unwrap();
        assert_eq!(text(&output), mode.to_uppercase(), "{mode}");
        assert_eq!(self.good.report().failures, 0, "{mode}");
    }
}

/// How long a caller waits for what does not come.
const SHORT: Duration = Duration::from_secs(1);

/// What became of the call of the tool that misbehaves.
async fn bad(plugin: &ProcessPlugin) -> String {
    bad_within(plugin, PATIENCE).await
}

async fn bad_within(plugin: &ProcessPlugin, patience: Duration) -> String {
    match timeout(patience, call(plugin, "bad", json!({}))).await {
        Ok(Ok(output)) => text(&output).to_owned(),
        Ok(Err(error)) => format!("error: {error}"),
        Err(_) => "nothing".to_owned(),
    }
}

async fn works_again(plugin: &ProcessPlugin, mode: &str) {
    let echo = async {
        while call(plugin, "echo", json!({})).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, echo).await.unwrap_or_else(|_| panic!("{mode}: it never came back"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_start_is_not_loaded() {
    let rows = [
        ("hang_initialize", "it did not say what it offers within 2 s"),
        (
            "hello_and_hang",
            "it did not say what it offers within 2 s; it printed `hello`, which is not a message of the protocol",
        ),
        ("exit_at_once", "it exited with code 3; its last line of stderr: cannot find my database"),
        ("flood_at_start", "it wrote a message of more than 4194304 bytes"),
    ];
    for (mode, expected) in rows {
        let neighbours = Neighbours::new(mode).await;
        let error = neighbours.machine.load_with(neighbours.settings.clone()).await.err().unwrap();
        assert_eq!(error.to_string(), format!("plugin `hostile` did not start: {expected}"));
        neighbours.others_are_unharmed(mode).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ends_its_process_fails_its_own_calls_and_is_started_again() {
    let lost = "error: the plugin `hostile` was lost: ";
    let rows = [
        ("hang_call", "nothing".to_owned(), "it did not answer a ping for 0.5 s"),
        ("flood_stderr", "nothing".to_owned(), "it did not answer a ping for 0.5 s"),
        ("exit_call", format!("{lost}it exited with code 7"), "it exited with code 7"),
        (
            "flood",
            format!("{lost}it wrote a message of more than 4194304 bytes"),
            "it wrote a message of more than 4194304 bytes",
        ),
        (
            "huge",
            format!("{lost}it wrote a message of more than 4194304 bytes"),
            "it wrote a message of more than 4194304 bytes",
        ),
        (
            "flood_lines",
            format!("{lost}it wrote more than 1000 messages without meaning in a minute"),
            "it wrote more than 1000 messages without meaning in a minute",
        ),
        ("close_output", format!("{lost}it closed its output"), "it closed its output"),
        (
            "asks_and_never_reads",
            format!("{lost}it asks for more and does not read the answers"),
            "it asks for more and does not read the answers",
        ),
    ];
    for (mode, expected, reason) in rows {
        let neighbours = Neighbours::new(mode).await;
        let (plugin, _recorder) = neighbours.load().await;
        let patience = if expected == "nothing" { SHORT } else { PATIENCE };
        let (outcome, ()) =
            tokio::join!(bad_within(&plugin, patience), neighbours.others_are_unharmed(mode));
        assert_eq!(outcome, expected, "{mode}");
        until(mode, || plugin.report().restarts == 1).await;
        works_again(&plugin, mode).await;
        let report = plugin.report();
        assert_eq!((report.state, report.last_error.as_deref()), ("ready", Some(reason)), "{mode}");
        neighbours.others_are_unharmed(mode).await;
        plugin.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_wait_behind_one_that_hangs_end_with_it() {
    let neighbours = Neighbours::new("hang_call").await;
    let (plugin, _recorder) = neighbours.load().await;
    // More than may be under way at once; only the last caller is impatient.
    let patient = join_all((0..100).map(|_| bad(&plugin)));
    let impatient = bad_within(&plugin, SHORT);
    let first_process = async { until("it is lost", || plugin.report().failures > 0).await };
    let work = async { tokio::join!(patient, impatient, first_process) };
    let others = neighbours.others_are_unharmed("hang_call");
    let ((outcomes, impatient, ()), ()) = timeout(PATIENCE, async { tokio::join!(work, others) })
        .await
        .expect("no call waits for ever");
    assert_eq!(impatient, "nothing");
    let lost = "error: the plugin `hostile` was lost: it did not answer a ping for 0.5 s";
    assert_eq!(outcomes, vec![lost; 100]);
    plugin.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_only_wrong_fails_its_own_call_alone() {
    let rows = [
        ("other_id", "nothing", 1),
        ("twice", "first", 1),
        ("late", "nothing", 1),
        ("no_content", "error: the plugin `hostile` answered a call without a list `content`", 0),
        (
            "deep",
            "error: the plugin `hostile`'s answer can't be read: nested deeper than 64 levels",
            0,
        ),
        (
            "not_json",
            "error: the plugin `hostile`'s answer can't be read: it is not JSON (expected ident at line 1 column 35)",
            0,
        ),
    ];
    for (mode, expected, ignored) in rows {
        let neighbours = Neighbours::new(mode).await;
        let (plugin, _recorder) = neighbours.load().await;
        let patience = if expected == "nothing" { SHORT } else { PATIENCE };
        assert_eq!(bad_within(&plugin, patience).await, expected, "{mode}");
        until(mode, || plugin.report().ignored_messages == ignored).await;
        works_again(&plugin, mode).await;
        let report = plugin.report();
        assert_eq!((report.state, report.restarts, report.failures), ("ready", 0, 0), "{mode}");
        neighbours.others_are_unharmed(mode).await;
        plugin.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_it_may_not_have_it_does_not_get() {
    let hint = "needs the permission `invoke`; set `permissions.invoke` to true in the plugin's drawgate-plugin.json";
    let rows = [
        ("invoke", format!("`ctx.invoker.invoke` {hint}")),
        ("delegate", format!("`ctx.tasks.delegate` {hint}")),
        ("forge_thread", "the plugin was not told of a thread `somebody-elses`".to_owned()),
        ("unknown_method", "unknown method `drawgate/grant`".to_owned()),
        ("wrong_params", "invalid params: invalid type: integer `7`, expected a string".to_owned()),
    ];
    for (mode, expected) in rows {
        let neighbours = Neighbours::new(mode).await;
        let (plugin, recorder) = neighbours.load().await;
        assert_eq!(bad(&plugin).await, expected, "{mode}");
        assert_eq!(recorder.asked(), Vec::<String>::new(), "{mode}");
        neighbours.others_are_unharmed(mode).await;
        plugin.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_data_and_other_plugins_are_not_there() {
    let neighbours = Neighbours::new("snoop").await;
    let (plugin, _recorder) = neighbours.load().await;
    assert_eq!(plugin.confinement(), "workspace");
    let seen: Value = serde_json::from_str(&bad(&plugin).await).unwrap();
    assert_eq!(
        seen,
        json!({
            "other plugin": "No such file or directory",
            "other plugins": ["hostile"],
            "data": "No such file or directory",
            "data folder": "No such file or directory",
            "key": null,
            "own folder": "Read-only file system",
        })
    );
    let report = serde_json::to_string(&plugin.report()).unwrap();
    assert!(!report.contains(KEY.1));
    plugin.stop().await;
}

/// Asks about the result of a call.
async fn after(plugin: &ProcessPlugin) -> Result<Review, String> {
    let tool = ToolId::new(&SourceId::new("files").unwrap(), "read").unwrap();
    let call = HookCall {
        call_id: "call-1",
        tool: &tool,
        name: "files__read",
        operation: Operation::CallTool,
        principal: &Principal::local(),
        lineage: None,
        arguments: &Map::new(),
    };
    let hook = plugin.call_hook().unwrap();
    let result = json!({ "content": [{ "type": "text", "text": "x" }], "isError": false });
    match timeout(Duration::from_secs(1), hook.after(&call, &result)).await {
        Ok(review) => review.map_err(|error| error.0),
        Err(_) => Err("nothing".to_owned()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_that_answer_wrongly_fail() {
    let rows = [
        (
            "patch_without_permission",
            "afterCall answered with a patch, for which the plugin lacks the permission `rewrite` in its drawgate-plugin.json",
        ),
        (
            "nonsense_hook",
            "afterCall answered with `allow`; it may answer with nothing, or with one of `patch`, `withhold`",
        ),
        (
            "empty_reason",
            "afterCall answered with a `withhold` that is not a reason; write a sentence",
        ),
        ("hang_hook", "nothing"),
    ];
    for (mode, expected) in rows {
        let neighbours = Neighbours::new(mode).await;
        let (plugin, _recorder) = neighbours.load().await;
        assert_eq!(after(&plugin).await, Err(expected.to_owned()), "{mode}");
        neighbours.others_are_unharmed(mode).await;
        // One that hangs is noticed, ended and started again.
        let restarts = u64::from(mode == "hang_hook");
        until(mode, || plugin.report().restarts == restarts).await;
        plugin.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_that_only_tell_wait_in_a_bounded_queue() {
    let neighbours = Neighbours::new("hang_hook").await;
    let (plugin, _recorder) = neighbours.load().await;
    let event = HookEvent::OnMessage {
        thread_id: "thread-1".to_owned(),
        role: "user".to_owned(),
        content: "hi".to_owned(),
    };
    let began = Instant::now();
    for _ in 0..100 {
        assert_eq!(plugin.hook(&event).await, Ok(HookAnswer::Nothing));
    }
    assert!(began.elapsed() < Duration::from_secs(1), "nobody waits");
    // Ten wait, one is being told; the others were left out.
    let dropped = plugin.report().dropped_hooks;
    assert!((89..100).contains(&dropped), "{dropped}");
    until("the one that hangs counts, too", || plugin.report().dropped_hooks > dropped).await;
    neighbours.others_are_unharmed("hang_hook").await;
    plugin.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_that_fails_again_and_again_is_given_up_for_a_while() {
    let neighbours = Neighbours::new("exit_call").await;
    let (plugin, _recorder) = neighbours.load().await;
    for failure in 1..=5 {
        let outcome = bad(&plugin).await;
        assert!(outcome.contains("it exited with code 7"), "{outcome}");
        until("the failure counts", || plugin.report().failures == failure).await;
    }
    until("it is given up", || plugin.report().state == "given_up").await;
    let began = Instant::now();
    assert_eq!(
        bad(&plugin).await,
        "error: the plugin `hostile` failed again and again, and is not started for some minutes: it exited with code 7"
    );
    assert!(began.elapsed() < Duration::from_secs(1), "the call is refused at once");
    assert_eq!(plugin.report().restarts, 4);
    neighbours.others_are_unharmed("exit_call").await;
    plugin.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_knows_only_mcp_is_a_plugin_without_hooks() {
    let neighbours = Neighbours::new("knows_mcp_only").await;
    let (plugin, _recorder) = neighbours.load().await;
    plugin.start().await.unwrap();
    assert_eq!(text(&call(&plugin, "echo", json!({})).await.unwrap()), "echo");
    plugin.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_that_ignores_its_stop_is_killed() {
    let neighbours = Neighbours::new("ignore_stop").await;
    let (plugin, _recorder) = neighbours.load().await;
    let pid = plugin.report().pid.unwrap();
    let began = Instant::now();
    plugin.stop().await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    until("its process is gone", || !std::path::Path::new(&format!("/proc/{pid}")).exists()).await;
    assert_eq!((plugin.report().state, plugin.report().pid), ("stopped", None));
    neighbours.others_are_unharmed("ignore_stop").await;
}

/// A context in which models never answer.
struct Patient(Recorder);

#[async_trait::async_trait]
impl PluginContext for Patient {
    async fn invoke(&self, _: String, _: InvokeOptions) -> InvokeResult {
        std::future::pending().await
    }

    async fn send_to_thread(&self, thread: &str, message: String) -> Result<(), PluginError> {
        self.0.send_to_thread(thread, message).await
    }

    async fn broadcast(&self, event: String, data: Value) -> Result<(), PluginError> {
        self.0.broadcast(event, data).await
    }

    async fn delegate(&self, task: NewTask) -> Result<TaskView, PluginError> {
        self.0.delegate(task).await
    }

    async fn task(&self, id: &str) -> Result<TaskView, PluginError> {
        self.0.task(id).await
    }

    async fn check_in(&self, thread: &str, message: String) -> Result<(), PluginError> {
        self.0.check_in(thread, message).await
    }

    async fn load(&self, key: &str) -> Result<Option<Value>, PluginError> {
        self.0.load(key).await
    }

    async fn save(&self, key: &str, value: Option<Value>) -> Result<(), PluginError> {
        self.0.save(key, value).await
    }

    fn settings(&self) -> Value {
        self.0.settings()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_it_asks_for_at_once_is_bounded() {
    let neighbours = Neighbours::new("many_asks").await;
    let manifest = MANIFEST.replace("{\"hooks\"", "{\"invoke\": true, \"hooks\"");
    std::fs::write(neighbours.settings.folder.join("drawgate-plugin.json"), manifest).unwrap();
    let context = Arc::new(Patient(Recorder::default()));
    let host = Arc::clone(&neighbours.machine.host);
    let plugin = ProcessPlugin::load(neighbours.settings.clone(), host, context).await.unwrap();
    assert_eq!(bad(&plugin).await, "136 were refused");
    neighbours.others_are_unharmed("many_asks").await;
    plugin.stop().await;
}
