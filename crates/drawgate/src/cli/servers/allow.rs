//! `drawgate servers allow`: gives a server what its sandbox does not, by a line in the configuration; and
//! what each refusal comes to as such a command.

use std::path::{Path, PathBuf};
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
use super::table;

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
    /// A host that it may reach, such as `api.example.com`; may be repeated
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
pub(super) async fn ask(context: &Context, name: &str) -> anyhow::Result<ExitCode> {
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
        for refusal in
            server.refusals().into_iter().filter(|it| !declined.contains(it)).collect::<Vec<_>>()
        {
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
pub(super) async fn folders_to_write(
    context: &Context,
    name: &str,
    args: &[String],
) -> anyhow::Result<Vec<String>> {
    let consent = asking(context)?;
    let mut wanted = Vec::new();
    for folder in args.iter().filter(|arg| Path::new(arg).is_absolute() && Path::new(arg).is_dir())
    {
        let question = format!(
            "`{name}` may read `{folder}`, which its command line names. May it write there, too?"
        );
        if consent.to(&question).await? {
            wanted.push(folder.clone());
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

/// What a server was refused, each with the command that allows it.
pub(in super::super) fn lines(server: &ServerReport) -> Vec<String> {
    let id = server.source.status.id.as_str();
    server.refusals().iter().map(|refusal| line(id, refusal)).collect()
}

/// One of them.
pub(super) fn line(name: &str, refusal: &Refusal) -> String {
    format!("refused: {refusal}; to allow it: `{}`", command(name, refusal))
}

fn command(name: &str, refusal: &Refusal) -> String {
    let option = match refusal {
        Refusal::Host(host) => format!("--host {}", quoted(host)),
        Refusal::Read(path) => format!("--read {}", quoted(&path.to_string_lossy())),
        Refusal::Write(path) => format!("--write {}", quoted(&path.to_string_lossy())),
        Refusal::Variable(name) => format!("--env {name}"),
    };
    format!("drawgate servers allow {name} {option}")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
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
            assert_eq!(command("s", &refusal), format!("drawgate servers allow s {expected}"));
        }
        assert!(variable("API_KEY").is_ok());
        assert!(variable("1=2").is_err());
    }
}
