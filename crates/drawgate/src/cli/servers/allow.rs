//! `drawgate servers allow`: gives a server what its sandbox does not, by a line in the configuration; and
//! what each refusal comes to as such a command.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use drawgate_host::egress::HostRule;
use drawgate_runtime::operations::{Refusal, ServerReport};
use toml_edit::DocumentMut;

use super::super::Context;
use super::super::backend::Backend;
use super::super::edit::ConfigFile;
use super::super::output::Consent;
use super::change::{Changed, absolute, settled};
use super::needs;
use super::table::{self, NewServer};

/// How often a server is tried again for the sake of one more answer.
const MAX_ROUNDS: usize = 8;

#[derive(Debug, clap::Args)]
pub(in super::super) struct AllowArgs {
    /// The server
    name: String,
    /// A file or folder that it may read; may be repeated
    #[arg(long, value_name = "PATH")]
    read: Vec<PathBuf>,
    /// A folder that it may write; may be repeated
    #[arg(long, value_name = "DIR")]
    write: Vec<PathBuf>,
    /// A host that it may reach, such as `api.example.com`, or `'*'` for every host; may be repeated
    #[arg(long, value_name = "HOST")]
    host: Vec<HostRule>,
    /// A variable of the gateway's environment that it gets; may be repeated
    #[arg(long, value_name = "NAME", value_parser = variable)]
    env: Vec<String>,
}

pub(super) async fn run(args: &AllowArgs, context: Context) -> anyhow::Result<ExitCode> {
    let given = args.refusals()?;
    if !given.is_empty() {
        let changed = allow(&context, &args.name, &given).await?;
        return changed.report_server(&context).await;
    }
    let file = ConfigFile::find(&context).await?;
    let Some(running) = file.running() else {
        bail!(
            "say what is to be allowed: `--read`, `--write`, `--host` or `--env`; a running gateway would know what the server asked for"
        )
    };
    let server = settled(&Backend::Running(running.clone()), &args.name).await?;
    if server.refusals().is_empty() {
        bail!(
            "`{}` was refused nothing so far; say what is to be allowed: `--read`, `--write`, `--host` or `--env`",
            args.name
        );
    }
    ask(&context, &args.name).await
}

impl AllowArgs {
    fn refusals(&self) -> anyhow::Result<Vec<Refusal>> {
        let path = |path: &PathBuf| absolute(path).map(PathBuf::from);
        let mut all = Vec::new();
        for read in &self.read {
            all.push(Refusal::Read(path(read)?));
        }
        for write in &self.write {
            all.push(Refusal::Write(path(write)?));
        }
        all.extend(self.host.iter().map(|host| Refusal::Host(host.to_string())));
        all.extend(self.env.iter().cloned().map(Refusal::Variable));
        Ok(all)
    }
}

/// Offers at the terminal what a server was refused, until it is refused nothing new, and says how it
/// is then.
pub(in super::super) async fn ask(context: &Context, name: &str) -> anyhow::Result<ExitCode> {
    let consent = asking(context)?;
    let file = ConfigFile::find(context).await?;
    let Some(running) = file.running() else {
        bail!("no gateway is running; `drawgate serve` starts one")
    };
    let backend = Backend::Running(running.clone());
    let mut declined: Vec<Refusal> = Vec::new();
    let mut server = settled(&backend, name).await?;
    for _ in 0..MAX_ROUNDS {
        let mut wanted = Vec::new();
        let is_open = |it: &Refusal| !declined.contains(it) && option(it).is_some();
        for refusal in server.refusals().into_iter().filter(is_open).collect::<Vec<_>>() {
            if consent.to(&format!("`{name}` was refused {refusal}. Allow it?")).await? {
                wanted.push(refusal);
            } else {
                declined.push(refusal);
            }
        }
        if wanted.is_empty() {
            break;
        }
        allow(context, name, &wanted).await?;
        server = settled(&backend, name).await?;
    }
    super::change::report(&server, context)
}

/// Asks whether a new server may write the folders that its command line names, which it may read anyway.
pub(in super::super) async fn folders_to_write(
    context: &Context,
    server: &NewServer,
) -> anyhow::Result<Vec<String>> {
    let consent = asking(context)?;
    let mut wanted = Vec::new();
    for folder in needs::folders(server) {
        let question = format!(
            "`{}` may read `{folder}`, which its command line names. May it write there, too?",
            server.name
        );
        if consent.to(&question).await? {
            wanted.push(folder);
        }
    }
    Ok(wanted)
}

fn asking(context: &Context) -> anyhow::Result<Consent> {
    match Consent::new(false, context.out) {
        Consent::Asked => Ok(Consent::Asked),
        Consent::Given | Consent::Impossible => {
            bail!(
                "there is no terminal to ask at; `drawgate servers allow` takes what to allow as options"
            )
        }
    }
}

async fn allow(context: &Context, name: &str, all: &[Refusal]) -> anyhow::Result<Changed> {
    let change = |document: &mut DocumentMut| table::allow(document, name, all);
    Changed::make(context, name, "changed", change).await
}

/// What a server was refused, each with the command that allows it; of several, also the command for all.
pub(in super::super) fn lines(server: &ServerReport) -> Vec<String> {
    let id = server.source.status.id.as_str();
    let all = server.refusals();
    let mut lines: Vec<String> = all.iter().map(|refusal| line(id, refusal)).collect();
    let options: Vec<String> = all.iter().filter_map(option).collect();
    if options.len() > 1 {
        let command = format!("drawgate servers allow {id} {}", options.join(" "));
        lines.push(format!("to allow all of it: `{command}`"));
    }
    let hosts = all.iter().filter(|it| matches!(it, Refusal::Host(_))).count();
    if hosts > 1 {
        lines.push(format!("to allow every host: `drawgate servers allow {id} --host '*'`"));
    }
    lines
}

/// One of them.
pub(super) fn line(name: &str, refusal: &Refusal) -> String {
    let Some(option) = option(refusal) else {
        return format!(
            "refused: {refusal}; packages stay as they were fetched: name it another place, by the variable or argument that it has for that, in `[servers.{name}]`"
        );
    };
    format!("refused: {refusal}; to allow it: `drawgate servers allow {name} {option}`")
}

/// The option of `servers allow` that gives it, if one does.
fn option(refusal: &Refusal) -> Option<String> {
    match refusal {
        Refusal::Host(host) => Some(format!("--host {}", quoted(host))),
        Refusal::Read(path) => Some(format!("--read {}", quoted(&path.to_string_lossy()))),
        Refusal::Write(path) => Some(format!("--write {}", quoted(&path.to_string_lossy()))),
        Refusal::Variable(name) => Some(format!("--env {name}")),
        Refusal::OwnPackage(_) => None,
    }
}

/// A word as a shell takes it.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@+=,".contains(c);
    if word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn variable(text: &str) -> Result<String, String> {
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("write a variable's name, such as `API_KEY`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_is_a_command_that_can_be_pasted() {
        for (refusal, expected) in [
            (Refusal::Host("api.example.com".to_owned()), "--host api.example.com"),
            (Refusal::Host("[::1]:8080".to_owned()), "--host '[::1]:8080'"),
            (Refusal::Read("/a/b.txt".into()), "--read /a/b.txt"),
            (Refusal::Write("/it's here".into()), r"--write '/it'\''s here'"),
            (Refusal::Variable("API_KEY".to_owned()), "--env API_KEY"),
        ] {
            let command = format!("drawgate servers allow s {expected}");
            assert!(line("s", &refusal).ends_with(&format!("; to allow it: `{command}`")));
        }
        let own = line("s", &Refusal::OwnPackage("/data/packages/s/t/x.json".into()));
        assert!(own.contains("name it another place") && !own.contains("servers allow"), "{own}");
        assert!(variable("API_KEY").is_ok());
        assert!(variable("1=2").is_err());
    }
}
