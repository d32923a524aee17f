//! Bringing a toolpack here: this process fetches and lays out, the gateway moves it in.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use drawgate_host::Host;
use tokio::task::spawn_blocking;

use super::super::machine;
use super::text;
use crate::cli::Context;
use crate::cli::backend::Backend;
use crate::cli::grants;
use crate::cli::progress::Progress;
use crate::surface::control::toolpack_advice;
use drawgate_runtime::assemble::authorities;
use drawgate_runtime::config::Loaded;
use drawgate_runtime::operations::{Commit, StateAfterUpdate, ToolpackList, ToolpackView};
use drawgate_runtime::toolpacks::{
    Downgrade, Folder, Github, GithubSource, Intent, Origin, Progress as Downloaded, Staged, Terms,
    ToolpackError,
};

pub(super) async fn run(
    source: &str,
    downgrade: bool,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<ExitCode> {
    let origin = origin(source)?;
    let all: ToolpackList = backend.get("/toolpacks").await?;
    let stage = Stage::new(&all.folder, context.whole()?)?;
    let terms = stage.terms(Intent::Install, downgrade);
    let staged = stage.stage(&origin, terms).await?;
    let before = all.toolpacks.iter().find(|pack| pack.id == staged.id.as_str());
    if let Some(same) = before.filter(|pack| is_same(pack, &staged)) {
        context.out.either(same, || {
            format!("`{}` is installed already, and nothing of it is new", same.id)
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    if before.is_none() {
        grants::note_held(staged.id.as_str(), backend).await;
    }
    let was_on = before.is_some_and(|pack| pack.state == "enabled");
    let left_out = staged.left_out.clone();
    let pack = commit(backend, staged, StateAfterUpdate::Off).await?;
    context.out.either(&pack, || {
        let mut text = text::installed(&pack, was_on);
        if !left_out.is_empty() {
            let _ = writeln!(text, "not part of it: {}", left_out.join(", "));
        }
        text
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A folder that is there is meant, whatever else the words might mean.
fn origin(source: &str) -> anyhow::Result<Origin> {
    let path = Path::new(source);
    if path.is_dir() {
        return Ok(Origin::Folder(path.to_owned()));
    }
    Ok(source.parse()?)
}

/// Whether this very pack is installed, and in order.
fn is_same(pack: &ToolpackView, staged: &Staged) -> bool {
    matches!(pack.state.as_str(), "enabled" | "disabled")
        && pack.content_hash.as_deref() == Some(&staged.entry.content_hash)
        && pack.commit == staged.entry.commit
}

/// Has the gateway move it in. Until then this process keeps what is staged.
pub(super) async fn commit(
    backend: &Backend,
    staged: Staged,
    afterwards: StateAfterUpdate,
) -> anyhow::Result<ToolpackView> {
    let commit = Commit {
        staged: staged.name.clone(),
        content_hash: staged.entry.content_hash.clone(),
        afterwards,
    };
    let pack = backend.post("/toolpacks", &commit).await;
    drop(staged);
    pack
}

/// Where packs are laid out before they are moved in.
pub(super) struct Stage {
    pub(super) folder: PathBuf,
    host: Host,
    github: (String, String),
}

impl Stage {
    pub(super) fn new(folder: &Path, loaded: &Loaded) -> anyhow::Result<Self> {
        let config = &loaded.config.toolpacks;
        let github = (config.github_api.clone(), config.github_archive.clone());
        let host = Host::new(machine::secrets(), None)?;
        host.egress.trust(authorities(loaded)?);
        Ok(Self { folder: folder.to_owned(), host, github })
    }

    pub(super) fn terms(&self, intent: Intent, downgrade: bool) -> Terms {
        let downgrade = if downgrade { Downgrade::Allow } else { Downgrade::Refuse };
        Terms { intent, downgrade, now_ms: self.host.clock.now_ms() }
    }

    /// Fetches a pack, and lays it out.
    pub(super) async fn stage(&self, origin: &Origin, terms: Terms) -> anyhow::Result<Staged> {
        match origin {
            Origin::Folder(path) => {
                let path = path.clone();
                let _progress = Progress::new(format!("copying `{}`", path.display()));
                self.on_folder(move |folder| folder.stage_folder(&path, &terms)).await
            }
            Origin::Github(source) => {
                let progress = Progress::new(format!("asking for {source}"));
                let pinned = self.resolve(source).await?;
                self.download(pinned, terms, &progress).await
            }
        }
    }

    /// The commit that a reference stands for now.
    pub(super) async fn resolve(
        &self,
        source: &GithubSource,
    ) -> anyhow::Result<drawgate_runtime::toolpacks::Pinned> {
        self.github()?.resolve(source).await.map_err(plain)
    }

    /// Fetches exactly this commit.
    pub(super) async fn download(
        &self,
        pinned: drawgate_runtime::toolpacks::Pinned,
        terms: Terms,
        progress: &Progress,
    ) -> anyhow::Result<Staged> {
        let (pinned, terms) = self
            .on_folder(move |folder| folder.check_pin(&pinned, &terms).map(|()| (pinned, terms)))
            .await?;
        let report = |now: Downloaded| progress.say(downloading(now));
        let download = self.github()?.download(&pinned, &report).await;
        let download = download.map_err(plain)?;
        progress.say("unpacking");
        self.on_folder(move |folder| folder.stage_archive(&download, &terms)).await
    }

    pub(super) async fn on_folder<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Folder) -> Result<T, ToolpackError> + Send + 'static,
    ) -> anyhow::Result<T> {
        let path = self.folder.clone();
        spawn_blocking(move || work(&Folder::open(&path)?)).await?.map_err(|error| advised(&error))
    }

    fn github(&self) -> anyhow::Result<Github> {
        let (api, archive) = &self.github;
        Ok(Github::new(Arc::clone(&self.host.egress), &self.host.secrets, api, archive)?)
    }
}

/// How far a download is, in words.
fn downloading(now: Downloaded) -> String {
    let kib = |bytes: u64| bytes.div_ceil(1024);
    let total = now.total.map(|total| format!(" of {}", kib(total))).unwrap_or_default();
    format!("downloading: {}{total} KiB", kib(now.bytes))
}

/// An error about a toolpack, with the command or option that helps.
fn advised(error: &ToolpackError) -> anyhow::Error {
    let advice = toolpack_advice(error).map(|advice| format!("; {advice}")).unwrap_or_default();
    anyhow::anyhow!("{error}{advice}")
}

/// An error whose text includes its causes.
fn plain(error: impl std::error::Error) -> anyhow::Error {
    anyhow::anyhow!("{error}")
}
