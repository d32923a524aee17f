//! Runs the operator's own package manager in a sandbox: a home of its own, the folder that it installs into,
//! and what the operator has set about registries. Nothing of the operator's files and environment is there
//! for what a package may bring along.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use drawgate_host::Host;
use drawgate_host::egress::Reach;
use drawgate_host::process::{Running, Spawn, SpawnError};
use drawgate_host::sandbox::{ArgumentPaths, Confinement, Profile, ResourceLimits};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::process::{Resource, Signal, getrlimit};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::timeout;

use super::new_folder;
use super::settings::{Operator, Settings, SettingsFile};

/// How long one step may take.
const LONGEST: Duration = Duration::from_mins(15);
/// How much of what a program says is read at once; twice that is kept.
const MAX_OUTPUT: u64 = 64 * 1024;
/// How many of its last lines are shown when it fails.
const SHOWN_LINES: usize = 15;
/// The largest file that is read of what was installed: the lock of a very large package has 2 MiB.
const MAX_FILE: u64 = 32 << 20;
/// What npm says about a file that is in its home, and gone with that; npm 9 names it on the next line.
const GONE: &str = "A complete log of this run can be found in";
/// How package managers say that a registry can't be reached. pip and uv say afterwards that it has nothing.
const UNREACHABLE: [&str; 9] = [
    "502 Bad Gateway",
    "504 Gateway Timeout",
    "ECONNREFUSED",
    "ENOTFOUND",
    "EAI_AGAIN",
    "ETIMEDOUT",
    "ProxyError",
    "NewConnectionError",
    "error sending request",
];
/// How they say that it has no such package.
const ABSENT: [&str; 4] =
    ["code E404", "code ETARGET", "not found in the package registry", "there are no versions of"];
/// How the name of the programs' home ends.
const HOME: &str = "home";
/// What a package manager may use. The archives that it keeps count beside what it unpacks.
const LIMITS: ResourceLimits = ResourceLimits {
    memory_mb: 2048,
    processes: 512,
    cpu_percent: 400,
    file_mb: 2048,
    disk_mb: 8192,
    files: 400_000,
    open_files: 4096,
};

/// The same under the limit of this process (`ulimit -f`), which a sandbox does not exceed.
fn limits() -> ResourceLimits {
    let most = getrlimit(Resource::Fsize).current.map_or(u64::MAX, |bytes| bytes >> 20);
    ResourceLimits { file_mb: LIMITS.file_mb.min(most.max(1)), ..LIMITS }
}

/// Programs that install into a folder.
pub(super) struct Installer {
    host: Host,
    operator: Operator,
    tree: PathBuf,
    home: PathBuf,
}

/// A program, and what it is given.
pub(super) struct Step<'a> {
    pub(super) program: &'a str,
    pub(super) args: &'a [&'a str],
    /// What it is told about registries, and with that the network. Without, it has none.
    pub(super) settings: Option<&'a Settings>,
    /// Programs that it starts.
    pub(super) programs: Vec<PathBuf>,
}

/// Why a package manager failed, in plain words, where it is known.
fn reason(lines: &[&str]) -> Option<&'static str> {
    let says = |words: &[&str]| lines.iter().any(|line| words.iter().any(|it| line.contains(it)));
    if says(&UNREACHABLE) {
        return Some("the registry can't be reached");
    }
    if says(&ABSENT) {
        return Some("the registry has no such package, or not that version");
    }
    // pip says no more where an index does not answer.
    says(&["No matching distribution found"])
        .then_some("the index has no such package or version, or does not answer")
}

impl Installer {
    /// Installs into `tree`. The home of the programs is made beside it, and goes with this value.
    pub(super) fn new(host: Host, tree: &Path) -> anyhow::Result<Self> {
        let mut home = tree.as_os_str().to_owned();
        home.push(format!(".{HOME}"));
        let home = PathBuf::from(home);
        new_folder(&home)?;
        let installer = Self { host, operator: Operator::here(), tree: tree.to_owned(), home };
        new_folder(&installer.temporary())?;
        Ok(installer)
    }

    /// The folder.
    pub(super) fn tree(&self) -> &Path {
        &self.tree
    }

    /// Whose settings count.
    pub(super) const fn operator(&self) -> &Operator {
        &self.operator
    }

    /// Where a program is, if it is installed.
    pub(super) fn find(&self, program: &str) -> Option<PathBuf> {
        self.host.processes.find(program).filter(|found| found.to_str().is_some())
    }

    fn temporary(&self) -> PathBuf {
        self.home.join("tmp")
    }

    /// Runs a program to its end, in the folder. What it says is the reason if it fails.
    pub(super) async fn run(&self, step: Step<'_>) -> anyhow::Result<()> {
        let shown = Path::new(step.program).file_name().unwrap_or_default().display().to_string();
        let mut child = self.start(step).await?;
        drop(child.take_stdin());
        let (stdout, stderr) = (child.take_stdout(), child.take_stderr());
        let work = async {
            let (said, complaints) = tokio::join!(heard(stdout), heard(stderr));
            child.wait().await.map(|status| (status, said, complaints))
        };
        let done = timeout(LONGEST, work).await;
        let done =
            done.with_context(|| format!("`{shown}` took longer than {} s", LONGEST.as_secs()))?;
        let (status, said, complaints) =
            done.with_context(|| format!("`{shown}` can't be waited for"))?;
        if let Some(failure) = child.box_failure().await {
            return Err(failure).with_context(|| format!("`{shown}` failed"));
        }
        if status.success() {
            return Ok(());
        }
        if status.signal() == Some(Signal::XFSZ.as_raw()) {
            bail!("`{shown}` failed: it was to write a file of more than {} MiB", limits().file_mb);
        }
        let lines = said.lines().chain(complaints.lines()).filter(|line| !line.trim().is_empty());
        let home = self.home.to_string_lossy();
        let is_gone = |line: &&str| line.contains(GONE) || line.contains(&*home);
        let lines: Vec<&str> = lines.filter(|line| !is_gone(line)).collect();
        let last = lines.iter().skip(lines.len().saturating_sub(SHOWN_LINES));
        let last: Vec<String> = last.map(|line| format!("  {line}")).collect();
        if last.is_empty() {
            bail!("`{shown}` failed and printed nothing: {status}");
        }
        let reason = reason(&lines).map(|reason| format!("{reason}; ")).unwrap_or_default();
        bail!("{reason}`{shown}` says:\n{}", last.join("\n"))
    }

    async fn start(&self, step: Step<'_>) -> anyhow::Result<Running> {
        let parent = step.settings.map(|settings| self.operator.parent_proxy(settings));
        self.host.egress.go_through(parent.transpose()?.flatten());
        let spawn = self.spawn(step)?;
        match self.host.start(&spawn).await {
            Ok(child) => Ok(child),
            Err(error @ SpawnError::Sandbox(_)) => Err(error).context(
                "packages are fetched in a sandbox, and there is none; `servers add --no-fetch \
                 --sandbox none` adds a server that downloads its package itself, outside of any",
            ),
            Err(error) => Err(error.into()),
        }
    }

    fn spawn(&self, step: Step<'_>) -> anyhow::Result<Spawn> {
        let none = Settings::default();
        let settings = step.settings.unwrap_or(&none);
        let mut env = settings.env.clone();
        env.insert("TMPDIR".to_owned(), self.temporary().to_string_lossy().into_owned());
        for SettingsFile { name, variable, text } in &settings.files {
            let path = self.home.join(name);
            write_private(&path, text)?;
            env.insert((*variable).to_owned(), path.to_string_lossy().into_owned());
        }
        let mut read = settings.named_files();
        read.extend(Some(self.operator.managed_pythons()).filter(|folder| folder.is_dir()));
        let (profile, reach) = match step.settings {
            Some(settings) => (Profile::Network, settings.reach()),
            None => (Profile::Workspace, Reach::nobody()),
        };
        let confinement = Confinement {
            profile,
            workspace: self.home.clone(),
            read,
            write: vec![self.tree.clone()],
            arguments: ArgumentPaths::Ignored,
            reach,
            internal: None,
            unprotected: Vec::new(),
            limits: limits(),
        };
        Ok(Spawn {
            program: step.program.to_owned(),
            args: step.args.iter().map(|&arg| arg.to_owned()).collect(),
            env,
            working_dir: Some(self.tree.clone()),
            programs: step.programs,
            confinement: Some(confinement),
            ..Spawn::default()
        })
    }

    /// Forgets what programs were told about registries, before one that needs none of it.
    pub(super) fn forget_settings(&self) -> anyhow::Result<()> {
        fs::remove_dir_all(&self.home)?;
        new_folder(&self.home)?;
        new_folder(&self.temporary())
    }

    /// A file in the folder, by a path without links.
    pub(super) fn read(&self, name: &str) -> anyhow::Result<String> {
        let path = self.tree.join(name);
        self.read_plain(name).with_context(|| format!("can't read `{}`", path.display()))
    }

    fn read_plain(&self, name: &str) -> anyhow::Result<String> {
        let folder = File::open(&self.tree)?;
        // What a package put there must neither lead elsewhere nor keep this waiting.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let file = File::from(openat2(&folder, name, flags, Mode::empty(), within)?);
        if !file.metadata()?.is_file() {
            bail!("it is not a file");
        }
        let mut text = String::new();
        if file.take(MAX_FILE + 1).read_to_string(&mut text)? as u64 > MAX_FILE {
            bail!("it has more than {MAX_FILE} bytes");
        }
        Ok(text)
    }

    /// Writes a file of the folder anew.
    pub(super) fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        write_private(&self.tree.join(name), text)
    }
}

impl Drop for Installer {
    fn drop(&mut self) {
        // It has logins. What can't be removed goes with the next package that is fetched.
        let _ = fs::remove_dir_all(&self.home);
    }
}

/// Removes the homes of fetches that were broken off, which hold logins. Only for who has locked the folder.
pub(super) fn remove_homes(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|end| end == HOME) {
            // What can't be removed goes with the package that is fetched now.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Puts a file in place of what is there, through no link.
fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let made = || {
        if path.symlink_metadata().is_ok() {
            fs::remove_file(path)?;
        }
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())
    };
    made().with_context(|| format!("can't write `{}`", path.display()))
}

/// Reads a stream to its end, so that the program never waits, and keeps the end of it.
async fn heard(stream: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut stream) = stream else { return String::new() };
    let (mut before, mut kept) = (Vec::new(), Vec::new());
    loop {
        let mut next = Vec::new();
        match (&mut stream).take(MAX_OUTPUT).read_to_end(&mut next).await {
            Ok(0) | Err(_) => {
                return String::from_utf8_lossy(&[before, kept].concat()).into_owned();
            }
            Ok(_) => before = std::mem::replace(&mut kept, next),
        }
    }
}
