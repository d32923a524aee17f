//! `drawgate service`: the gateway as a service of the user, started with the session and again when it
//! fails.
#![expect(
    clippy::disallowed_methods,
    reason = "the service manager is the operator's own program, run at their word and outside of any gateway"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};
use serde_json::json;

use super::home::config_folder;
use super::machine::secrets;
use super::{Context, files};

/// The unit of systemd.
const UNIT: &str = "drawgate.service";
/// The name under which launchd knows the gateway.
const LABEL: &str = "drawgate";

#[derive(Debug, clap::Subcommand)]
pub(super) enum ServiceCommand {
    /// Install the gateway as a service of this user, and start it
    ///
    /// Variables that the configuration refers to by `env:NAME` are read from `secrets.env` in the data
    /// folder, since a service does not see those of your shell.
    Install(ServiceArgs),
    /// Stop the service and remove it; configuration and data stay
    Remove(ServiceArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct ServiceArgs {
    /// Only write or remove the file, and leave the service manager alone
    #[arg(long)]
    file_only: bool,
    /// The service manager [default: that of this system]
    #[arg(long, value_enum)]
    manager: Option<Manager>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Manager {
    Systemd,
    Launchd,
}

impl Manager {
    fn of_this_system() -> Self {
        if cfg!(target_os = "macos") { Self::Launchd } else { Self::Systemd }
    }

    fn file(self) -> anyhow::Result<PathBuf> {
        match self {
            Self::Systemd => Ok(config_folder()?.join("systemd/user").join(UNIT)),
            Self::Launchd => {
                let home = secrets().home().context("the home folder is not known; set `HOME`")?;
                Ok(home.join(format!("Library/LaunchAgents/{LABEL}.plist")))
            }
        }
    }

    fn text(self, command: &[String]) -> String {
        match self {
            Self::Systemd => systemd_unit(command),
            Self::Launchd => launchd_list(command),
        }
    }

    /// The commands that start it, and those that stop it.
    fn commands(self, file: &Path) -> [Vec<Vec<String>>; 2] {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let file = file.to_string_lossy();
        match self {
            Self::Systemd => [
                vec![
                    words(&["systemctl", "--user", "daemon-reload"]),
                    words(&["systemctl", "--user", "enable", "--now", UNIT]),
                    words(&["systemctl", "--user", "try-restart", UNIT]),
                ],
                vec![words(&["systemctl", "--user", "disable", "--now", UNIT])],
            ],
            Self::Launchd => [
                vec![words(&["launchctl", "load", "-w", &file])],
                vec![words(&["launchctl", "unload", "-w", &file])],
            ],
        }
    }
}

pub(super) fn run(command: &ServiceCommand, context: &Context) -> anyhow::Result<ExitCode> {
    match command {
        ServiceCommand::Install(args) => install(args, context)?,
        ServiceCommand::Remove(args) => remove(args, context)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn install(args: &ServiceArgs, context: &Context) -> anyhow::Result<()> {
    // A service that can't start would be tried again and again.
    context.whole()?;
    let manager = args.manager.unwrap_or_else(Manager::of_this_system);
    let file = manager.file()?;
    let program = std::env::current_exe().context("this program's own path is not known")?;
    let mut command = vec![program.to_string_lossy().into_owned(), "serve".to_owned()];
    command.extend(context.target.options(&context.data)?);
    if let Some(folder) = file.parent() {
        files::make_folder(folder)
            .with_context(|| format!("`{}` can't be made", folder.display()))?;
    }
    files::put(&file, manager.text(&command))
        .with_context(|| format!("can't write `{}`", file.display()))?;
    let [start, _] = manager.commands(&file);
    if !args.file_only {
        run_all(&start).with_context(|| {
            let by_hand = typed(&start);
            format!("`{}` is written, but not started; by hand: {by_hand}", file.display())
        })?;
    }
    let value = json!({ "file": file, "started": !args.file_only });
    context.out.either(&value, || {
        let what = if args.file_only {
            format!("`{}` starts it", typed(&start))
        } else {
            "it runs; `drawgate status` shows it".to_owned()
        };
        format!("installed: `{}`; {what}", file.display())
    })
}

fn remove(args: &ServiceArgs, context: &Context) -> anyhow::Result<()> {
    let manager = args.manager.unwrap_or_else(Manager::of_this_system);
    let file = manager.file()?;
    if !file.exists() {
        bail!("the service is not installed: there is no `{}`", file.display());
    }
    let [_, stop] = manager.commands(&file);
    if !args.file_only {
        let by_hand = "; with `--file-only` the file alone is removed";
        run_all(&stop).with_context(|| format!("the service is not stopped{by_hand}"))?;
    }
    std::fs::remove_file(&file).with_context(|| format!("can't remove `{}`", file.display()))?;
    context.out.either(&json!({ "removed": file }), || {
        format!("removed: `{}`; configuration and data stay", file.display())
    })
}

fn run_all(commands: &[Vec<String>]) -> anyhow::Result<()> {
    for command in commands {
        let Some((program, args)) = command.split_first() else { continue };
        let shown = command.join(" ");
        let done = Command::new(program).args(args).output();
        let done = done.with_context(|| format!("`{shown}` can't be run"))?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            bail!("`{shown}` failed: {}", said.trim());
        }
    }
    Ok(())
}

fn typed(commands: &[Vec<String>]) -> String {
    commands.iter().map(|command| command.join(" ")).collect::<Vec<_>>().join(" && ")
}

fn systemd_unit(command: &[String]) -> String {
    // By the rules of `systemd.service`: `%` and `$` are expanded even in quotes.
    let quoted = |word: &String| {
        let word = word.replace('\\', r"\\").replace('"', "\\\"");
        format!("\"{}\"", word.replace('%', "%%").replace('$', "$$"))
    };
    let command: Vec<String> = command.iter().map(quoted).collect();
    format!(
        "[Unit]\n\
         Description=Drawgate, the tool gateway for AI agents\n\
         \n\
         [Service]\n\
         ExecStart={}\n\
         Restart=on-failure\n\
         RestartSec=2\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        command.join(" ")
    )
}

fn launchd_list(command: &[String]) -> String {
    let escaped = |word: &String| {
        let word = word.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        format!("    <string>{word}</string>\n")
    };
    let command: String = command.iter().map(escaped).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <plist version=\"1.0\">\n\
         <dict>\n\
         \x20 <key>Label</key>\n\
         \x20 <string>{LABEL}</string>\n\
         \x20 <key>ProgramArguments</key>\n\
         \x20 <array>\n{command}\x20 </array>\n\
         \x20 <key>RunAtLoad</key>\n\
         \x20 <true/>\n\
         \x20 <key>KeepAlive</key>\n\
         \x20 <dict>\n\
         \x20   <key>SuccessfulExit</key>\n\
         \x20   <false/>\n\
         \x20 </dict>\n\
         </dict>\n\
         </plist>\n"
    )
}
