//! Hooks around calls: what a call costs without one, with one in the gateway's own process, and with one
//! in a process of a plugin.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use drawgate_core::hooks::{
    BoundHook, CallHook, HookCall, HookError, HookPoint, HookTerms, Hooks as Bound, Opinion,
};
use drawgate_core::model::ToolOutput;
use drawgate_core::testing::{FakeSource, TestGate, tool};
use serde::Serialize;
use serde_json::{Value, json};

use super::Plan;
use super::children::{Load, Server};
use super::gateway::{self, Gateway, Program};
use super::table::{Table, figure, figure_or_dash};

/// Clients of the gateway, and calls of the gate alone in one round.
const CLIENTS: usize = 16;
const CALLS: u32 = 2000;

const MANIFEST: &str = r#"{"name": "guard", "version": "1.0.0", "main": "main.py", "runtime": "python",
  "permissions": {"hooks": ["beforeCall"]}}"#;
const PLUGIN: &str = "from drawgate_plugin import Plugin\n\
    p = Plugin('guard', '1.0.0')\n\
    @p.hook('beforeCall')\n\
    def before_call(ctx, call):\n    return None\n\
    p.run()\n";

/// What was measured.
#[derive(Serialize)]
pub(crate) struct Hooks {
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    /// Processor time of the gateway for a call, without that of the plugin's process.
    cpu_us: f64,
    /// The same of the row that it is compared with.
    without_us: f64,
    p50_us: Option<f64>,
}

impl Hooks {
    pub(super) fn text(&self) -> String {
        let head = ["path", "p50 µs", "CPU µs/call", "x without", "added CPU µs"];
        let mut table = Table::new("hooks around calls", &head);
        for row in &self.rows {
            table.row([
                row.name.to_owned(),
                figure_or_dash(row.p50_us),
                figure(row.cpu_us),
                figure(row.cpu_us / row.without_us),
                figure(row.cpu_us - row.without_us),
            ]);
        }
        table.text()
    }
}

/// Measures the gate alone, and the program with and without a plugin.
pub(crate) async fn measure(program: &Program, upstream: &Server, plan: Plan) -> Result<Hooks> {
    eprintln!("hooks around calls");
    let (without, with) = in_process(plan).await?;
    let (plain_us, plain_p50) = through(program, upstream, plan, None).await?;
    let (guarded_us, guarded_p50) = through(program, upstream, plan, Some(PLUGIN)).await?;
    let row = |name, cpu_us, without_us, p50_us| Row { name, cpu_us, without_us, p50_us };
    Ok(Hooks {
        rows: vec![
            row("the gate alone, no hooks", without, without, None),
            row("the gate alone, one native hook", with, without, None),
            row("16 clients, no hooks", plain_us, plain_us, Some(plain_p50)),
            row("16 clients, one hook in a process", guarded_us, plain_us, Some(guarded_p50)),
        ],
    })
}

/// A hook in the gateway's own process that has nothing to say.
struct Native;

#[async_trait]
impl CallHook for Native {
    async fn check(&self, _call: &HookCall<'_>) -> Result<Opinion, HookError> {
        Ok(Opinion::Pass)
    }
}

/// Processor time of a call of the gate alone, in memory: without and with a hook, in turn.
async fn in_process(plan: Plan) -> Result<(f64, f64)> {
    let gate = TestGate::new().await;
    let echo = |_: &str, arguments| Ok(ToolOutput::text(Value::Object(arguments).to_string()));
    let source = FakeSource::new("up", vec![tool("echo", &Value::Null)], echo);
    gate.register(source).await?;
    let hooks = || {
        let points = vec![(HookPoint::Check, HookTerms::default())];
        Bound::new(vec![BoundHook {
            name: "native".into(),
            position: 0,
            points,
            hook: Arc::new(Native),
        }])
    };
    let (mut without, mut with) = (f64::MAX, f64::MAX);
    for _ in 0..=plan.rounds {
        gate.control.parts().hooks.store(Arc::default());
        without = without.min(calls(&gate).await?);
        gate.control.parts().hooks.store(Arc::new(hooks()));
        with = with.min(calls(&gate).await?);
    }
    Ok((without, with))
}

async fn calls(gate: &TestGate) -> Result<f64> {
    let begin = Instant::now();
    for _ in 0..CALLS {
        let result = gate.call("bench", "up:echo", json!({ "text": "hello" })).await;
        ensure!(result.success, "a call failed: {:?}", result.error);
    }
    // Nothing waits for anything here, so that time is processor time.
    Ok(begin.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS))
}

/// Processor time and median time of a call through the program, with a plugin if there is one.
async fn through(
    program: &Program,
    upstream: &Server,
    plan: Plan,
    plugin: Option<&str>,
) -> Result<(f64, f64)> {
    let gateway = Gateway::start(program, &gateway::http_server(upstream.address())).await?;
    if let Some(plugin) = plugin {
        let folder = gateway.folder();
        folder.write("guard/drawgate-plugin.json", MANIFEST)?;
        folder.write("guard/main.py", plugin)?;
        let added = program.output(folder, &["plugins", "add", "guard", "--yes"]).await?;
        ensure!(
            added.status.success(),
            "the plugin was not added: {}",
            String::from_utf8_lossy(&added.stderr)
        );
    }
    let load = Load {
        target: gateway.target(),
        clients: CLIENTS,
        milliseconds: plan.milliseconds,
        list: None,
        watch: Some(gateway.pid()?),
    };
    let measured = load.run().await?;
    gateway.stop().await?;
    Ok((measured.cpu_us.context("no processor time was measured")?, measured.p50_us))
}
