//! `drawgate plugins`: tools and hooks that an operator adds to the gateway.

mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use drawgate_core::hooks::{HookMode, HookPoint, OnFailure};
use drawgate_host::user_files;
use serde_json::{Map, Value, json};

use super::Context;
use super::backend::{Backend, part};
use super::output::Consent;
use super::{grants, machine};
use crate::cli::table::{cut, spare, state, whole};
use drawgate_runtime::assemble::Start;
use drawgate_runtime::config::HookSettings;
use drawgate_runtime::operations::{
    AddPlugin, ConfigurePlugin, PluginPreview, PluginSource, ShownPlugin,
};
use drawgate_runtime::plugins::check_folder;

const HELP: &str = "\
A plugin is a folder with `drawgate-plugin.json` and a program in TypeScript, JavaScript, Python or any other
language. Its tools are offered as `plugin__tool`; its hooks are asked about calls and told of what agents do. It
runs in the sandbox. Adding one copies its folder, so that what runs is what you agreed to. `delegation` and
`validation` come with the gateway: enable them.

Examples:
  drawgate plugins check ./notes                 loads it, and shows all problems
  drawgate plugins add ./notes                   shows what it asks for, and asks
  drawgate plugins enable delegation             agents can delegate tasks
  drawgate plugins set notes --settings '{\"folder\": \"inbox\"}'
  drawgate plugins set guard --hook before_call --mode audit --tools 'files__*'";

#[derive(Debug, clap::Subcommand)]
#[command(after_help = HELP)]
pub(super) enum PluginsCommand {
    /// List plugins, and whether they are at work
    List,
    /// Show a plugin: what it asks for, its tools, hooks and settings, how it gets on
    Show {
        /// The plugin
        name: String,
    },
    /// Load a plugin in the sandbox, and show every problem with its field. Needs no gateway; exits 1 if there
    /// is one
    Check {
        /// The folder with `drawgate-plugin.json`
        folder: PathBuf,
    },
    /// Show what a plugin asks for, and put it to work after a yes; one of the same name is replaced
    Add {
        /// The folder with `drawgate-plugin.json`
        folder: PathBuf,
        /// Say yes without being asked
        #[arg(long)]
        yes: bool,
    },
    /// Put a plugin to work; one that failed is tried again
    Enable {
        /// The plugin
        name: String,
    },
    /// Take a plugin out of work; its settings stay
    Disable {
        /// The plugin
        name: String,
    },
    /// Change a plugin's settings, its place among the others, or how it is asked about calls
    Set(SetArgs),
    /// Remove a plugin that was added, and its copy
    Remove {
        /// The plugin
        name: String,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct SetArgs {
    /// The plugin
    name: String,
    /// What it reads by itself: a JSON object, or `@FILE`. Not for secrets: it is stored as it is written
    #[arg(long, value_name = "JSON")]
    settings: Option<String>,
    /// Its place among the others: lower ones are asked first
    #[arg(long, allow_negative_numbers = true)]
    position: Option<i32>,
    /// The hook that the following options are about: `rewrite_call`, `before_call` or `after_call`
    #[arg(long, value_parser = point)]
    hook: Option<HookPoint>,
    /// Ask only about tools that match one of these patterns
    #[arg(long, requires = "hook", value_delimiter = ' ', num_args = 1)]
    tools: Option<Vec<String>>,
    /// If it fails: refuse the call or withhold the result (`stop`), or go on without it (`skip`)
    #[arg(long, requires = "hook", value_parser = on_failure)]
    on_failure: Option<OnFailure>,
    /// Whether what it says counts (`enforce`), or is only written to the audit log (`audit`)
    #[arg(long, requires = "hook", value_parser = mode)]
    mode: Option<HookMode>,
    /// Milliseconds that it may take
    #[arg(long, requires = "hook", value_parser = clap::value_parser!(u64).range(1..=HookSettings::MAX_TIMEOUT_MS))]
    timeout_ms: Option<u64>,
}

fn point(text: &str) -> Result<HookPoint, String> {
    HookPoint::parse(text)
        .ok_or_else(|| "use `rewrite_call`, `before_call` or `after_call`".to_owned())
}

fn on_failure(text: &str) -> Result<OnFailure, String> {
    word(text, "use `stop` or `skip`")
}

fn mode(text: &str) -> Result<HookMode, String> {
    word(text, "use `enforce` or `audit`")
}

fn word<T: serde::de::DeserializeOwned>(text: &str, advice: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|_| advice.to_owned())
}

/// Loads a plugin in the sandbox to see whether that works.
async fn check(folder: &Path, context: &Context) -> anyhow::Result<ExitCode> {
    let out = context.out;
    match check_folder(folder, context.whole()?, machine::host()?).await {
        Ok(checked) => {
            out.either(&checked, || words::checked(&checked))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => {
            out.either(&json!({ "problems": problems.to_string() }), || problems.to_string())?;
            Ok(ExitCode::FAILURE)
        }
    }
}

pub(super) async fn run(command: PluginsCommand, context: Context) -> anyhow::Result<ExitCode> {
    if let PluginsCommand::Check { folder } = &command {
        return check(folder, &context).await;
    }
    let backend = Backend::open(&context, Start::Nothing).await?;
    let done = perform(command, &context, &backend).await;
    backend.close().await;
    done
}

async fn perform(
    command: PluginsCommand,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<ExitCode> {
    let out = context.out;
    match command {
        PluginsCommand::Check { folder } => return check(&folder, context).await,
        PluginsCommand::List => list(context, backend).await?,
        PluginsCommand::Show { name } => {
            let shown: ShownPlugin = backend.get(&path(&name, "")).await?;
            out.either(&shown, || words::shown(&shown))?;
        }
        PluginsCommand::Add { folder, yes } => return add(&folder, yes, context, backend).await,
        PluginsCommand::Enable { name } => {
            let shown: ShownPlugin = backend.post(&path(&name, "/enable"), &json!({})).await?;
            out.either(&shown, || words::at_work(&shown))?;
        }
        PluginsCommand::Disable { name } => {
            let shown: ShownPlugin = backend.post(&path(&name, "/disable"), &json!({})).await?;
            out.either(&shown, || format!("`{name}` is disabled"))?;
        }
        PluginsCommand::Set(args) => {
            let name = args.name.clone();
            let before: ShownPlugin = backend.get(&path(&name, "")).await?;
            let change = change(args, &before)?;
            let shown: ShownPlugin = backend.post(&path(&name, "/settings"), &change).await?;
            out.either(&shown, || words::shown(&shown))?;
        }
        PluginsCommand::Remove { name } => {
            backend.delete(&path(&name, "")).await?;
            out.either(&json!({ "removed": name }), || format!("`{name}` is removed"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(context: &Context, backend: &Backend) -> anyhow::Result<()> {
    let all: Vec<ShownPlugin> = backend.get("/plugins").await?;
    let columns = [
        whole("plugin"),
        spare("version"),
        state("state"),
        cut("tools"),
        cut("hooks"),
        spare("position"),
        cut("problem"),
    ];
    let rows: Vec<_> = all.iter().map(words::row).collect();
    let empty = "there are no plugins";
    context.out.table(&all, &columns, &rows, empty)
}

/// Adds a plugin exactly as it is shown.
async fn add(
    folder: &Path,
    yes: bool,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<ExitCode> {
    let consent = Consent::new(yes, context.out);
    ensure!(
        consent != Consent::Impossible,
        "there is no terminal to ask at; look at `drawgate plugins check {}`, then add `--yes`",
        folder.display()
    );
    let path = folder.canonicalize().with_context(|| format!("`{}`", folder.display()))?;
    let source = PluginSource { path: path.clone() };
    let preview: PluginPreview = backend.post("/plugins/preview", &source).await?;
    if !context.out.is_json() {
        context.out.text(&words::preview(&preview))?;
    }
    if preview.replaces.is_none() {
        grants::note_held(&preview.manifest.name, backend).await;
    }
    if !consent.to("add it?").await? {
        context.out.either(&json!({ "added": false }), || "nothing was added".to_owned())?;
        return Ok(ExitCode::SUCCESS);
    }
    let add = AddPlugin { path, hash: preview.hash };
    let shown: ShownPlugin = backend.post("/plugins", &add).await?;
    context.out.either(&shown, || words::at_work(&shown))?;
    Ok(ExitCode::SUCCESS)
}

/// What the options change of how a plugin is set now.
fn change(args: SetArgs, before: &ShownPlugin) -> anyhow::Result<ConfigurePlugin> {
    let is_empty = args.settings.is_none() && args.position.is_none() && args.hook.is_none();
    ensure!(
        !is_empty,
        "say what to change: `--settings`, `--position`, or `--hook` with its options"
    );
    let mut hooks = Vec::new();
    if let Some(point) = args.hook {
        let old = before.record.hooks.get(&point).cloned().unwrap_or_default();
        let settings = HookSettings {
            tools: args.tools.or(old.tools),
            timeout_ms: args.timeout_ms.unwrap_or(old.timeout_ms),
            on_failure: args.on_failure.unwrap_or(old.on_failure),
            mode: args.mode.unwrap_or(old.mode),
        };
        hooks.push((point, settings));
    }
    let settings = args.settings.as_deref().map(settings).transpose()?;
    Ok(ConfigurePlugin { position: args.position, settings, hooks })
}

fn settings(text: &str) -> anyhow::Result<Map<String, Value>> {
    let text = match text.strip_prefix('@') {
        Some(file) => {
            user_files::read_to_string(Path::new(file)).with_context(|| format!("`{file}`"))?
        }
        None => text.to_owned(),
    };
    serde_json::from_str(&text).context("`--settings` must be a JSON object")
}

fn path(name: &str, rest: &str) -> String {
    format!("/plugins/{}{rest}", part(name))
}
