//! Edits of the configuration file by commands. Comments and order stay, what would be refused is not
//! written, and a gateway that follows the file is waited for.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use drawgate_core::canonical;
use drawgate_core::model::SourceId;
use drawgate_host::user_files;
use drawgate_runtime::config::{Config, ConfigErrors, ConfigSource, Loaded, Problem};
use drawgate_runtime::packages::{PackageLock, PinnedPackage};
use tokio::time::Instant;
use toml_edit::DocumentMut;

use super::home::NO_FILE;
use super::progress::Progress;
use super::running::Running;
use super::{Context, files};

/// How long a gateway may take to look at the file and put an edit in force: servers that it ends for
/// that have some seconds each.
const APPLYING: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(50);
/// How long a file is waited for that another program is changing.
const SAVING: Duration = Duration::from_secs(15);
/// How far two looks at the file are apart that must agree where no gateway knows whether it is whole.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// The configuration file that commands edit.
pub(super) struct ConfigFile {
    path: PathBuf,
    /// The command that starts a gateway with it.
    serve: String,
    gateway: Gateway,
}

/// The gateway of the data folder, as far as the file is concerned.
enum Gateway {
    /// None runs.
    None,
    /// It follows the file.
    Follows(Running),
    /// It follows another file, or none.
    Elsewhere(Option<PathBuf>),
}

/// An edit that can be written, or was.
pub(super) struct Edit {
    /// The whole text of the file.
    text: String,
    loaded: Loaded,
    /// Whether there was no file before.
    pub(super) is_new: bool,
    /// Whether it says something else than before.
    pub(super) is_change: bool,
    /// Warnings that the configuration did not have before.
    pub(super) warnings: Vec<Problem>,
}

/// What came of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// No gateway runs: it counts from the next start on.
    Written,
    /// The gateway that runs follows another file, or none.
    Elsewhere(Option<PathBuf>),
    /// It is in force.
    InForce,
}

impl ConfigFile {
    /// The file that was named; else the one that the running gateway follows; else the user's own. It
    /// need not be there.
    pub(super) async fn find(context: &Context) -> anyhow::Result<Self> {
        let loaded = &context.loaded;
        let running = Running::find(&context.data).await;
        let followed = match &running {
            Some(running) => running.configuration().await?.watched,
            None => None,
        };
        let path = match (&loaded.source, &followed) {
            (ConfigSource::Defaults(_), _) => {
                bail!("there is no file to change with `--config {NO_FILE}`; name one")
            }
            (ConfigSource::Optional(_), Some(followed)) => followed.clone(),
            (ConfigSource::Optional(path) | ConfigSource::File(path), _) => {
                std::path::absolute(path)?
            }
        };
        let gateway = match (running, followed) {
            (None, _) => Gateway::None,
            (Some(running), Some(followed)) if same_file(&followed, &path) => {
                Gateway::Follows(running)
            }
            (Some(_), followed) => Gateway::Elsewhere(followed),
        };
        let serve = match &loaded.source {
            ConfigSource::Optional(_) => context.target.command("serve", &context.data)?,
            ConfigSource::File(_) | ConfigSource::Defaults(_) => {
                format!("drawgate serve --config {}", path.display())
            }
        };
        Ok(Self { path, serve, gateway })
    }

    /// Where it is, or will be.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The gateway that follows it, if one runs.
    pub(super) fn running(&self) -> Option<&Running> {
        match &self.gateway {
            Gateway::Follows(running) => Some(running),
            Gateway::None | Gateway::Elsewhere(_) => None,
        }
    }

    /// What a change comes to. Nothing is written.
    pub(super) fn prepare(
        &self,
        change: impl FnOnce(&mut DocumentMut) -> anyhow::Result<()>,
    ) -> anyhow::Result<Edit> {
        self.change(read(&self.path)?.as_deref(), change)
    }

    /// What a change of this text comes to.
    fn change(
        &self,
        before: Option<&str>,
        change: impl FnOnce(&mut DocumentMut) -> anyhow::Result<()>,
    ) -> anyhow::Result<Edit> {
        let text = before.unwrap_or_default();
        let mut document: DocumentMut =
            text.parse().with_context(|| format!("`{}` was left as it is", self.path.display()))?;
        change(&mut document)?;
        let edited = document.to_string();
        let loaded = self.check(&edited)?;
        let known = Config::parse(text, &self.path).map(|loaded| loaded.warnings);
        let known = known.unwrap_or_else(|ConfigErrors { problems }| problems);
        let is_known = |warning: &Problem| {
            known.iter().any(|it| it.key == warning.key && it.message == warning.message)
        };
        let warnings = loaded.warnings.iter().filter(|it| !is_known(it)).cloned().collect();
        let (is_new, is_change) = (before.is_none(), edited != text);
        Ok(Edit { text: edited, loaded, is_new, is_change, warnings })
    }

    fn check(&self, text: &str) -> anyhow::Result<Loaded> {
        Config::parse(text, &self.path).with_context(|| {
            format!("`{}` was left as it is: it would have mistakes", self.path.display())
        })
    }

    /// Makes a change, unless the configuration would be refused with it. Other commands that change the
    /// file wait meanwhile. A file that another program is saving is waited for: half of it would be made
    /// the whole for good.
    pub(super) async fn write(
        &self,
        change: impl FnOnce(&mut DocumentMut) -> anyhow::Result<()>,
    ) -> anyhow::Result<Edit> {
        loop {
            let saved = self.saved().await?;
            let (path, _alone) = lock_folder_of(&self.path)?;
            if read(&path)? != saved {
                continue;
            }
            let edit = self.change(saved.as_deref(), change)?;
            if edit.is_change {
                put(&path, &edit.text)?;
            }
            return Ok(edit);
        }
    }

    /// What the file says once no other program is changing it.
    async fn saved(&self) -> anyhow::Result<Option<String>> {
        let shown = self.path.display();
        let _progress = Progress::new(format!("waiting until `{shown}` is saved"));
        let Some(running) = self.running() else {
            return twice_the_same(|| read(&self.path)).await?.with_context(|| {
                format!("`{shown}` is being changed by another program; try again when it is saved")
            });
        };
        let mut known = String::new();
        let mut until = Instant::now() + SAVING;
        loop {
            let text = read(&self.path)?;
            let hash = canonical::sha256_hex(text.as_deref().unwrap_or_default().as_bytes());
            let configuration = running.status().await?.configuration;
            let is_refused = configuration.pending.is_some_and(|it| it.config_hash == hash);
            if configuration.in_force.config_hash == hash || (is_refused && text.is_some()) {
                return Ok(text);
            }
            // Other commands get on, and each is waited for.
            if known != configuration.in_force.config_hash {
                known = configuration.in_force.config_hash;
                until = Instant::now() + SAVING;
                running.look().await?;
            }
            if Instant::now() > until {
                match text {
                    Some(_) => bail!(
                        "`{shown}` does not say what the gateway has in force, as if another program were saving it; try again when `drawgate config check` says that it is in force"
                    ),
                    None => bail!(
                        "`{shown}` is gone, and the gateway goes on with what it said; put it back, or restart the gateway"
                    ),
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// What the lock file says about packages.
    pub(super) fn packages(&self) -> anyhow::Result<BTreeMap<SourceId, PinnedPackage>> {
        let lock = PackageLock::read(&PackageLock::path(&self.path));
        match lock.problem {
            None => Ok(lock.servers),
            Some(problem) => {
                bail!("{problem}; restore the lock file from a copy or from version control")
            }
        }
    }

    /// Changes what the lock file says about packages, and returns the hash of that.
    pub(super) fn edit_packages(
        &self,
        change: impl FnOnce(&mut BTreeMap<SourceId, PinnedPackage>),
    ) -> anyhow::Result<String> {
        let lock = PackageLock::path(&self.path);
        if let Some(folder) = lock.parent().filter(|folder| !folder.exists()) {
            files::make_private_folder(folder)?;
        }
        Ok(PackageLock::edit(&lock, change)?)
    }

    /// Waits until the gateway that follows the file, if one runs, uses a lock file of packages.
    pub(super) async fn packages_in_force(&self, hash: &str) -> anyhow::Result<()> {
        let Some(running) = self.running() else { return Ok(()) };
        let _progress = Progress::new("waiting for the gateway to use the packages");
        running.written(hash).await?;
        let until = Instant::now() + APPLYING;
        loop {
            let configuration = running.status().await?.configuration;
            if configuration.in_force.packages_hash == hash {
                return Ok(());
            }
            if let Some(pending) = configuration.pending {
                bail!("the gateway can't use the packages yet: {}", pending.problem);
            }
            if Instant::now() > until {
                bail!(
                    "the packages are fetched, but the gateway does not use them after {} s; `drawgate status` shows what it does, and `drawgate servers doctor` whether the server works",
                    APPLYING.as_secs()
                );
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits until the gateway that runs has put an edit in force.
    pub(super) async fn outcome(&self, edit: &Edit) -> anyhow::Result<Outcome> {
        let running = match &self.gateway {
            Gateway::None => return Ok(Outcome::Written),
            Gateway::Elsewhere(followed) => return Ok(Outcome::Elsewhere(followed.clone())),
            Gateway::Follows(running) => running,
        };
        let _progress = Progress::new("waiting for the gateway to put the change in force");
        running.written(&edit.loaded.text_hash).await?;
        let until = Instant::now() + APPLYING;
        loop {
            let configuration = running.status().await?.configuration;
            if configuration.in_force.config_hash == edit.loaded.text_hash {
                return Ok(Outcome::InForce);
            }
            let shown = self.path.display();
            match configuration.pending {
                Some(pending) if pending.config_hash == edit.loaded.text_hash => bail!(
                    "`{shown}` is written, but the gateway can't put it in force: {}",
                    pending.problem
                ),
                _ if Instant::now() > until => bail!(
                    "`{shown}` is written, but the gateway has not put it in force yet; `drawgate servers doctor` tells when it has"
                ),
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

impl Edit {
    /// What the file says with it.
    pub(super) fn into_config(self) -> Config {
        self.loaded.config
    }
}

impl Outcome {
    /// What it means for people who changed this file.
    pub(super) fn text(&self, file: &ConfigFile) -> String {
        match self {
            Self::Written => format!("no gateway is running; `{}` starts one", file.serve),
            Self::Elsewhere(Some(other)) => {
                format!(
                    "the gateway that runs follows `{}`, and does not see this",
                    other.display()
                )
            }
            Self::Elsewhere(None) => {
                "the gateway that runs reads no configuration file, and does not see this"
                    .to_owned()
            }
            Self::InForce => "it is in force".to_owned(),
        }
    }

    /// The same in one word, for programs.
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Written => "no_gateway",
            Self::Elsewhere(_) => "other_file",
            Self::InForce => "in_force",
        }
    }
}

/// What two looks find that follow one another and agree; nothing if they never do.
async fn twice_the_same<T: PartialEq>(
    look: impl Fn() -> anyhow::Result<T>,
) -> anyhow::Result<Option<T>> {
    let until = Instant::now() + SAVING;
    let mut last = look()?;
    while Instant::now() < until {
        tokio::time::sleep(BETWEEN_LOOKS).await;
        let now = look()?;
        if now == last {
            return Ok(Some(now));
        }
        last = now;
    }
    Ok(None)
}

/// Keeps other commands from changing a file. Gives the file itself where a link leads to it: people link such
/// files to where they version them.
fn lock_folder_of(path: &Path) -> anyhow::Result<(PathBuf, Option<File>)> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let shown = path.display();
    if let Some(folder) = path.parent() {
        files::make_private_folder(folder)
            .with_context(|| format!("the folder of `{shown}` can't be made"))?;
    }
    let folder = path.parent().map(File::open).transpose();
    let folder = folder.with_context(|| format!("the folder of `{shown}` can't be read"))?;
    if let Some(folder) = &folder {
        folder.lock().with_context(|| format!("the folder of `{shown}` can't be locked"))?;
    }
    Ok((path, folder))
}

fn put(path: &Path, text: &str) -> anyhow::Result<()> {
    files::put(path, text).with_context(|| format!("can't write `{}`", path.display()))
}

fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match user_files::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => Ok(Some(read.with_context(|| format!("can't read `{}`", path.display()))?)),
    }
}

/// Whether two paths mean one file, which need not be there.
fn same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_file_counts_when_two_looks_agree() {
        for (changes, expected) in [(1, Some(1)), (3, Some(3)), (u32::MAX, None)] {
            let looks = Cell::new(0);
            let look = || {
                looks.set(looks.get() + 1);
                Ok(looks.get().min(changes))
            };
            assert_eq!(twice_the_same(look).await.unwrap(), expected);
        }
    }
}
