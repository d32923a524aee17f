//! Which gateway a command is about: the user's own, from every folder, or one that is named by its
//! configuration or its data folder.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use drawgate_runtime::config::{ConfigSource, DEFAULT_DATA, DEFAULT_FILE, Loaded};

use super::machine::variable;

/// The name for no file at all: the defaults hold.
pub(super) const NO_FILE: &str = "none";
/// The name of the gateway's folders below the user's.
const FOLDER: &str = "drawgate";

/// Where the user's own gateway keeps its things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Home {
    /// Its configuration, which need not be there.
    pub(super) config: PathBuf,
    /// Its data folder, which need not be there.
    pub(super) data: PathBuf,
}

impl Home {
    /// By the rules of the XDG base directories. Nothing is created.
    pub(super) fn find() -> anyhow::Result<Self> {
        Self::of(variable).context(
            "the home folder is not known; set `HOME`, or name a data folder with `--data`",
        )
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let config = base(&variable, "XDG_CONFIG_HOME", ".config")?;
        let data = base(&variable, "XDG_DATA_HOME", ".local/share")?;
        Some(Self { config: config.join(FOLDER).join(DEFAULT_FILE), data: data.join(FOLDER) })
    }
}

/// Where programs of this user keep their configuration.
pub(super) fn config_folder() -> anyhow::Result<PathBuf> {
    base(&variable, "XDG_CONFIG_HOME", ".config")
        .context("the home folder is not known; set `HOME`")
}

/// A base directory: the one that a variable names, or its usual place below the home folder.
fn base(variable: &impl Fn(&str) -> Option<String>, name: &str, usual: &str) -> Option<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(name).or_else(|| absolute("HOME").map(|home| home.join(usual)))
}

/// A gateway by how it was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// Its configuration.
    pub(super) source: ConfigSource,
    /// The data folder that was named, whatever the configuration says.
    named: Option<PathBuf>,
    /// The data folder where the configuration names none.
    default: PathBuf,
    /// Whether it is the user's own.
    pub(super) is_home: bool,
}

impl Target {
    /// What `--config` and `--data` mean. Neither: the user's own gateway. Only a data folder: the one
    /// whose configuration is in that folder. Only a file: the one whose data folder is beside it.
    pub(super) fn new(
        config: Option<&Path>,
        data: Option<&Path>,
        home: impl FnOnce() -> anyhow::Result<Home>,
    ) -> anyhow::Result<Self> {
        let named = data.map(Path::to_owned);
        let is_home = config.is_none() && data.is_none();
        let (source, default) = match (config, data) {
            (None, None) => {
                let home = home()?;
                (ConfigSource::Optional(home.config), home.data)
            }
            (None, Some(data)) => {
                (ConfigSource::Optional(data.join(DEFAULT_FILE)), data.to_owned())
            }
            (Some(none), data) if none == Path::new(NO_FILE) => {
                let data =
                    data.map_or_else(|| home().map(|home| home.data), |it| Ok(it.to_owned()));
                let data = data?;
                (ConfigSource::Defaults(data.clone()), data)
            }
            (Some(file), _) => {
                (ConfigSource::File(file.to_owned()), file.with_file_name(DEFAULT_DATA))
            }
        };
        Ok(Self { source, named, default, is_home })
    }

    /// The data folder under a configuration that was read.
    pub(super) fn data(&self, loaded: &Loaded) -> PathBuf {
        let configured = || loaded.config.data.as_deref().map(|data| loaded.resolve(data));
        self.named.clone().or_else(configured).unwrap_or_else(|| self.default.clone())
    }

    /// A command about it that can be pasted in any folder.
    pub(super) fn command(&self, command: &str, data: &Path) -> anyhow::Result<String> {
        let options = self.options(data)?.into_iter();
        let words = ["drawgate".to_owned(), command.to_owned()].into_iter().chain(options);
        Ok(words.collect::<Vec<_>>().join(" "))
    }

    /// The options that name it in whichever folder a command is run; none for the user's own.
    pub(super) fn options(&self, data: &Path) -> anyhow::Result<Vec<String>> {
        let text =
            |path: &Path| anyhow::Ok(std::path::absolute(path)?.to_string_lossy().into_owned());
        let data = || anyhow::Ok(["--data".to_owned(), text(data)?]);
        let with_config = |config: String| {
            anyhow::Ok(data()?.into_iter().chain(["--config".to_owned(), config]).collect())
        };
        match &self.source {
            ConfigSource::Optional(_) if self.is_home => Ok(Vec::new()),
            ConfigSource::Optional(_) => Ok(data()?.to_vec()),
            ConfigSource::File(file) => with_config(text(file)?),
            ConfigSource::Defaults(_) => with_config(NO_FILE.to_owned()),
        }
    }

    /// A configuration in the current folder that does not count because nobody named it: it may have
    /// come with a project.
    pub(super) fn unused_file(&self) -> Option<&'static Path> {
        let file = Path::new(DEFAULT_FILE);
        let same = |own: &Path| match (own.canonicalize(), file.canonicalize()) {
            (Ok(own), Ok(other)) => own == other,
            _ => false,
        };
        let is_other = self.is_home && file.exists() && !self.source.file().is_some_and(same);
        is_other.then_some(file)
    }
}

#[cfg(test)]
#[path = "home_tests.rs"]
mod tests;
