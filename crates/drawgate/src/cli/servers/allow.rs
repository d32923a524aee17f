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
use super::super::secret::{self, is_variable};
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
    /// A variable of the gateway's environment that it gets, or one with a value, which is not a secret; may be
    /// repeated
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = variable)]
    env: Vec<Variable>,
}

/// A variable that a server gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) name: String,
    /// As it is written into the configuration.
    pub(super) value: String,
}

pub(super) async fn run(args: &AllowArgs, context: Context) -> anyhow::Result<ExitCode> {
    let given = args.refusals()?;
    if !given.is_empty() || !args.env.is_empty() {
        let changed = allow(&context, &args.name, &given, &args.env).await?;
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
        let is_open = |it: &Refusal| !declined.contains(it) && it.option().is_some();
        for refusal in server.refusals().into_iter().filter(is_open).collect::<Vec<_>>() {
            if consent.to(&question(name, &refusal)).await? {
                wanted.push(refusal);
            } else {
                declined.push(refusal);
            }
        }
        if wanted.is_empty() {
            break;
        }
        allow(context, name, &wanted, &[]).await?;
        server = settled(&backend, name).await?;
    }
    super::change::report(&server, context)
}

fn question(name: &str, refusal: &Refusal) -> String {
    match refusal {
        Refusal::OwnFile { variable, place, .. } => format!(
            "`{name}` was refused {refusal}. Set its variable `{variable}` to `{}`, in its own folder?",
            place.display()
        ),
        _ => format!("`{name}` was refused {refusal}. Allow it?"),
    }
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
            "the command line of `{}` names `{folder}`, or a file in it. May it write there?",
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

async fn allow(
    context: &Context,
    name: &str,
    all: &[Refusal],
    variables: &[Variable],
) -> anyhow::Result<Changed> {
    let change = |document: &mut DocumentMut| {
        table::set_variables(document, name, variables)?;
        table::allow(document, name, all)
    };
    let folders = format!("servers.{name}.permissions.write[");
    let edit = ConfigFile::find(context).await?.prepare(change)?;
    if let Some(refused) = edit.warnings.iter().find(|it| it.key.starts_with(&folders)) {
        bail!("{refused}");
    }
    Changed::make(context, name, "changed", change).await
}

/// What a server was refused, each with the command that allows it; of several, also the command for all.
pub(in super::super) fn lines(server: &ServerReport) -> Vec<String> {
    let id = server.source.status.id.as_str();
    let all = server.refusals();
    let mut lines: Vec<String> = all.iter().map(|refusal| line(id, refusal)).collect();
    let options: Vec<String> = all.iter().filter_map(Refusal::option).collect();
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
    let Some(option) = refusal.option() else {
        return format!(
            "refused: {refusal}; packages stay as they were fetched: name it another place, by the variable or argument that it has for that, in `[servers.{name}]`"
        );
    };
    let does = match refusal {
        Refusal::OwnFile { .. } => {
            "packages stay as they were fetched; to have it keep its file in a folder of its own"
        }
        _ => "to allow it",
    };
    format!("refused: {refusal}; {does}: `drawgate servers allow {name} {option}`")
}

fn variable(text: &str) -> Result<Variable, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, value.to_owned()),
        None => (text, format!("env:{text}")),
    };
    if !is_variable(name) {
        return Err("write a variable's name, such as `API_KEY`".to_owned());
    }
    secret::check("env", name, &value)?;
    Ok(Variable { name: name.to_owned(), value })
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
        let kept = Refusal::OwnFile {
            folder: "/data/packages/s/t/dist".into(),
            variable: "NOTES_FILE".to_owned(),
            place: "/data/servers/s/notes.db".into(),
        };
        let command = "`drawgate servers allow s --env NOTES_FILE=/data/servers/s/notes.db`";
        assert!(line("s", &kept).ends_with(command), "{}", line("s", &kept));
        let read = |text| variable(text).map(|it| (it.name, it.value));
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(read("API_KEY"), pair("API_KEY", "env:API_KEY"));
        assert_eq!(read("NOTES_FILE=/a=b"), pair("NOTES_FILE", "/a=b"));
        assert_eq!(read("API_KEY=env:OTHER"), pair("API_KEY", "env:OTHER"));
        assert!(read("1=2").is_err());
        let refused = read("API_KEY=hunter2hunter2").unwrap_err();
        assert!(!refused.contains("hunter2") && refused.contains("secrets set"), "{refused}");
    }
}
