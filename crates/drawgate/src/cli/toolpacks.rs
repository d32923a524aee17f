//! `drawgate toolpacks`: bundles of tools, from where they come to what they may do.

mod check;
mod install;
mod text;
mod update;

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

use super::Context;
use super::backend::{Backend, part};
use super::output::Output;
use crate::cli::table::{cut, spare, state, whole};
use anyhow::Context as _;
use drawgate_core::registry::SourceState;
use drawgate_runtime::assemble::Start;
use drawgate_runtime::operations::{ToolpackList, ToolpackView};
use drawgate_runtime::toolpacks::scaffold;

const HELP: &str = "\
A toolpack is a folder with a `toolpack.json`: commands, MCP servers and HTTP APIs that become tools.
Nothing of it runs before you enable it, and then only with the permissions that are shown.

Examples:
  drawgate toolpacks install ./examples/toolpacks/project-search
  drawgate toolpacks install owner/repo@v1.0.0     pinned to the commit, checked by hash
  drawgate toolpacks enable project-search         its tools are there at once, no restart
  drawgate toolpacks doctor                        does everything behind the packs work?
  drawgate toolpacks new my-pack                   write one yourself";

#[derive(Debug, clap::Subcommand)]
#[command(after_help = HELP)]
pub(super) enum ToolpacksCommand {
    /// List installed toolpacks
    List,
    /// Install a toolpack from a folder or from GitHub; it stays off until you enable it
    #[command(after_help = INSTALL_HELP)]
    Install {
        /// A folder (`./my-pack`), or `OWNER/REPO` or `OWNER/REPO@REF` on GitHub
        source: String,
        /// Accept an older version than the installed one
        #[arg(long)]
        allow_downgrade: bool,
    },
    /// Enable a toolpack: callers can use its tools immediately
    Enable {
        /// The toolpack
        id: String,
    },
    /// Disable a toolpack: callers can't use its tools any more
    Disable {
        /// The toolpack
        id: String,
    },
    /// Show a toolpack: where it is from, its tools, what it is able to do
    Show {
        /// The toolpack
        id: String,
    },
    /// Check manifests; every problem with its place and what to do. Exits 1 if there is one
    #[command(after_help = VALIDATE_HELP)]
    Validate {
        /// An installed toolpack, or a folder; without one, all that are installed
        id: Option<String>,
    },
    /// Try what is behind the tools: programs, servers, APIs, variables. Exits 1 if something fails
    Doctor {
        /// This toolpack only
        id: Option<String>,
    },
    /// Remove a toolpack
    Remove {
        /// The toolpack
        id: String,
    },
    /// Look for newer versions, show what would change, and install them after confirmation
    Update {
        /// This toolpack only
        id: Option<String>,
        /// Don't ask for confirmation
        #[arg(long)]
        yes: bool,
        /// Accept an older version than the installed one
        #[arg(long)]
        allow_downgrade: bool,
    },
    /// Write a toolpack to start from
    New {
        /// Its id, such as `my-pack`
        name: String,
        /// Where its folder is made
        #[arg(long, default_value = ".", value_name = "DIR")]
        dir: PathBuf,
    },
    /// Print the JSON Schema of `toolpack.json`, for editors
    Schema,
    /// The lock file
    #[command(subcommand)]
    Lock(LockCommand),
}

const INSTALL_HELP: &str = "\
Examples:
  drawgate toolpacks install ./examples/toolpacks/github-cli
  drawgate toolpacks install owner/repo            the branch `main`, pinned to its commit
  drawgate toolpacks install owner/repo@v1.0.0

For private repositories and higher rate limits, set GITHUB_TOKEN.";

const VALIDATE_HELP: &str = "\
Examples:
  drawgate toolpacks validate
  drawgate toolpacks validate github-cli
  drawgate toolpacks validate ./my-pack            a folder, before it is installed";

#[derive(Debug, clap::Subcommand)]
pub(super) enum LockCommand {
    /// Compare what is installed with `drawgate.lock`; exits 1 if something differs
    Verify,
}

/// What needs neither a configuration nor a gateway.
pub(super) fn run_alone(
    command: &ToolpacksCommand,
    out: Output,
) -> Option<anyhow::Result<ExitCode>> {
    match command {
        ToolpacksCommand::Schema => Some(schema(out)),
        ToolpacksCommand::New { name, dir } => Some(new(name, dir, out)),
        ToolpacksCommand::Validate { id: Some(folder) } => check::validate_folder(folder, out),
        _ => None,
    }
}

pub(super) async fn run(command: ToolpacksCommand, context: Context) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(&context, Start::Nothing).await?;
    // Without a running gateway, the configuration says where the packs are.
    let done = match context.whole() {
        Err(errors) if !backend.is_running() => Err(errors),
        _ => perform(command, &context, &backend).await,
    };
    backend.close().await;
    done
}

async fn perform(
    command: ToolpacksCommand,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<ExitCode> {
    match command {
        ToolpacksCommand::List => list(context, backend).await,
        ToolpacksCommand::Install { source, allow_downgrade } => {
            install::run(&source, allow_downgrade, context, backend).await
        }
        ToolpacksCommand::Enable { id } => {
            let pack: ToolpackView = backend.post(&act(&id, "enable"), &json!({})).await?;
            context.out.either(&pack, || text::enabled(&pack, backend.is_running()))?;
            let running = pack.running.as_ref();
            let well = running.is_none_or(|it| it.status.state == SourceState::Ready);
            Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        ToolpacksCommand::Disable { id } => {
            let pack: ToolpackView = backend.post(&act(&id, "disable"), &json!({})).await?;
            context.out.either(&pack, || text::disabled(&pack, backend.is_running()))?;
            Ok(ExitCode::SUCCESS)
        }
        ToolpacksCommand::Show { id } => {
            let pack: ToolpackView = backend.get(&format!("/toolpacks/{}", part(&id))).await?;
            context.out.either(&pack, || text::shown(&pack))?;
            Ok(ExitCode::SUCCESS)
        }
        ToolpacksCommand::Remove { id } => {
            backend.delete(&format!("/toolpacks/{}", part(&id))).await?;
            context.out.either(&json!({ "removed": id }), || format!("removed `{id}`"))?;
            Ok(ExitCode::SUCCESS)
        }
        ToolpacksCommand::Validate { id } => check::validate(id.as_deref(), context, backend).await,
        ToolpacksCommand::Doctor { id } => check::doctor(id.as_deref(), context, backend).await,
        ToolpacksCommand::Update { id, yes, allow_downgrade } => {
            let id = id.as_deref();
            let request = update::UpdateRequest { id, yes, downgrade: allow_downgrade };
            update::run(request, context, backend).await
        }
        ToolpacksCommand::Lock(LockCommand::Verify) => check::verify(context, backend).await,
        ToolpacksCommand::New { name, dir } => new(&name, &dir, context.out),
        ToolpacksCommand::Schema => schema(context.out),
    }
}

async fn list(context: &Context, backend: &Backend) -> anyhow::Result<ExitCode> {
    let all: ToolpackList = backend.get("/toolpacks").await?;
    let rows: Vec<_> = all.toolpacks.iter().map(text::row).collect();
    let columns = [
        whole("id"),
        spare("version"),
        state("state"),
        whole("tools"),
        spare("source"),
        cut("problem"),
    ];
    let empty = "no toolpacks are installed; `drawgate toolpacks install ./FOLDER` or \
                 `drawgate toolpacks install OWNER/REPO` installs one";
    context.out.table(&all, &columns, &rows, empty)?;
    Ok(ExitCode::SUCCESS)
}

fn new(name: &str, dir: &std::path::Path, out: Output) -> anyhow::Result<ExitCode> {
    let folder = dir.join(name);
    super::files::check_way(&folder)
        .with_context(|| format!("`{}` can't be made", folder.display()))?;
    let files = scaffold(&folder)?;
    out.either(&json!({ "folder": folder, "files": files }), || {
        let list: Vec<String> =
            files.iter().map(|file| format!("  {}", file.display())).collect();
        let folder = text::typed(&folder);
        format!(
            "written:\n{}\nnext:\n  drawgate toolpacks validate {folder}\n  drawgate toolpacks install {folder}",
            list.join("\n")
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

fn schema(out: Output) -> anyhow::Result<ExitCode> {
    let schema = drawgate_sources::toolpack::schema();
    out.raw(format!("{}\n", serde_json::to_string_pretty(&schema)?).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn act(id: &str, what: &str) -> String {
    format!("/toolpacks/{}/{what}", part(id))
}
