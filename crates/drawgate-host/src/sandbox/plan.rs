//! The description of one box, made by the gateway and carried out by init.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::SandboxError;
use super::init::etc::is_kept;
use super::protected::SECRETS;
use super::view::{self, View};
use super::{ArgumentPaths, Confinement, Profile, ResourceLimits, arguments};
use crate::trusted::{Survey, Trusted};

/// Where the proxy listens, in the box's own network.
pub(crate) const PROXY_PORT: u16 = 3128;
/// The user's name in the box.
pub(crate) const USER: &str = "sandbox";

/// Folders that can't be given away: the box has its own, or they are the machine itself.
const RESERVED: [&str; 13] = [
    "/", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys",
    "/tmp", "/usr",
];
/// Nothing below these may be written either.
const NEVER_WRITTEN: [&str; 6] = ["/boot", "/dev", "/etc", "/proc", "/run", "/sys"];

/// What init is told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) home: PathBuf,
    pub(crate) working_dir: PathBuf,
    /// What is visible beside the system, parents before children.
    pub(crate) binds: Vec<Bind>,
    /// Other spellings of visible folders: symbolic links to them.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    /// What is hidden even there.
    pub(crate) hidden: Vec<PathBuf>,
    /// Protected names that are new if they are there at the end, by writable folder.
    pub(crate) absent: BTreeMap<PathBuf, Vec<String>>,
    /// Protected names that it may write all the same.
    pub(crate) unprotected: Vec<String>,
    pub(crate) limits: ResourceLimits,
    /// Control groups that earlier boxes had, and that this one must have, too.
    pub(crate) cgroups: Vec<String>,
    pub(crate) proxy: bool,
}

/// A file or folder that is visible in the box, at its own path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bind {
    pub(crate) path: PathBuf,
    pub(crate) access: Access,
}

/// What may be done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Access {
    Read,
    Write,
}

impl Plan {
    /// The folders that the program may write.
    pub(crate) fn writable(&self) -> impl Iterator<Item = &Path> {
        self.binds
            .iter()
            .filter(|bind| bind.access == Access::Write)
            .map(|bind| bind.path.as_path())
    }
}

/// What a plan is made of.
pub(crate) struct Request<'a> {
    pub(crate) program: &'a Path,
    pub(crate) args: &'a [String],
    pub(crate) given: &'a BTreeMap<String, String>,
    pub(crate) inherited: &'a BTreeMap<String, OsString>,
    /// Variables that name files and folders of certificate authorities.
    pub(crate) authorities: &'a BTreeMap<String, PathBuf>,
    pub(crate) working_dir: Option<&'a Path>,
    /// Further programs that it starts.
    pub(crate) programs: &'a [PathBuf],
    pub(crate) trusted: &'a Trusted,
    /// Whether it has a proxy, which need not lead anywhere.
    pub(crate) has_proxy: bool,
    pub(crate) confinement: &'a Confinement,
}

impl Request<'_> {
    /// The plan, with every path resolved.
    pub(crate) fn plan(&self) -> Result<Plan, SandboxError> {
        let survey = self.trusted.survey_with(self.writable().cloned().collect());
        let home = self.home();
        let mut view = View::new(home.clone());
        let workspace = folder(&self.confinement.workspace, &survey)?;
        view.open(&self.confinement.workspace, workspace.clone(), Access::Write);
        if self.confinement.profile != Profile::Strict {
            self.open_more(&mut view, &survey)?;
        }
        let args = self.open_arguments(home.as_deref(), &mut view, &survey)?;
        let authorities = self.open_authorities(&mut view, &survey);
        // Only the gateway's own `PATH` opens anything: another may be the program's author's.
        let own = self.inherited.get("PATH").map(|text| text.to_string_lossy().into_owned());
        let foreign = self.foreign(&survey);
        for further in self.programs {
            if let Err(misled) = view.open_program(further, own.as_deref(), &foreign, &survey) {
                tracing::debug!(program = ?further, %misled, "a further program is not opened");
            }
        }
        let program = view.open_program(self.program, own.as_deref(), &foreign, &survey);
        let program = program.map_err(|misled| refused(self.program, misled.to_string()))?;
        let path = self.given.get("PATH").cloned().or(own);
        let working_dir = self.working_dir.and_then(|dir| survey.resolve(dir).ok());
        let working_dir =
            working_dir.filter(|dir| view.shows(dir)).unwrap_or_else(|| workspace.clone());
        let mut env = self.environment(&view, &workspace, path.as_deref());
        for (name, value) in authorities {
            env.entry(name).or_insert(value);
        }
        let secrets = secrets(home.as_deref());
        let (binds, links) = view.into_parts(&[survey.secrets(), secrets.clone()].concat());
        binds.iter().try_for_each(|bind| self.check(bind, &survey))?;
        let mut hidden = survey.secrets_in(binds.iter().map(|bind| bind.path.as_path()));
        // Those in a visible folder, unless they were opened by name.
        let is_shown = |path: &PathBuf| {
            binds.iter().any(|bind| path.starts_with(&bind.path))
                && !binds.iter().any(|bind| bind.path.starts_with(path))
        };
        hidden.extend(secrets.into_iter().filter(is_shown));
        Ok(Plan {
            program,
            args,
            env,
            home: workspace,
            working_dir,
            binds,
            links,
            hidden,
            absent: BTreeMap::new(),
            unprotected: self.confinement.unprotected.clone(),
            limits: self.confinement.limits,
            cgroups: Vec::new(),
            proxy: self.has_proxy,
        })
    }

    /// The folders that the program may write, as they were given.
    fn writable(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.confinement.workspace).chain(&self.confinement.write)
    }

    /// Whether something may be given away. What may be written is remembered first.
    fn check(&self, Bind { path, access }: &Bind, survey: &Survey) -> Result<(), SandboxError> {
        let refused = |reason: String| refused(path, reason);
        match access {
            Access::Read => {
                survey.check_readable(path).map_err(|conflict| refused(conflict.to_string()))
            }
            Access::Write => {
                let checked = survey.check_writable(path);
                checked.map_err(|conflict| refused(conflict.to_string()))?;
                let added = self.trusted.add_writable(path);
                added.map_err(|error| refused(format!("it can't be written down: {error}")))
            }
        }
    }

    /// Folders whose content is not the operator's word, whether they are opened or not.
    fn foreign(&self, survey: &Survey) -> Vec<PathBuf> {
        let all = self.writable().chain(&self.confinement.read);
        all.map(|path| survey.follow(path).0).collect()
    }

    /// The home folder of the gateway's user, without links: it is compared with paths that have none.
    fn home(&self) -> Option<PathBuf> {
        let home = self.inherited.get("HOME").map(PathBuf::from)?;
        Some(home.canonicalize().unwrap_or(home)).filter(|home| home.is_absolute())
    }

    fn open_more(&self, view: &mut View, survey: &Survey) -> Result<(), SandboxError> {
        for given in &self.confinement.write {
            view.open(given, folder(given, survey)?, Access::Write);
        }
        for given in &self.confinement.read {
            view.open(given, readable(given, survey)?, Access::Read);
        }
        Ok(())
    }

    /// Opens what the arguments name, if that is wanted, and gives them as the program sees them.
    fn open_arguments(
        &self,
        home: Option<&Path>,
        view: &mut View,
        survey: &Survey,
    ) -> Result<Vec<String>, SandboxError> {
        let confinement = self.confinement;
        if confinement.arguments == ArgumentPaths::Ignored || confinement.profile == Profile::Strict
        {
            return Ok(self.args.to_vec());
        }
        let mut seen = Vec::new();
        for argument in self.args {
            seen.push(arguments::open(argument, home, view, survey)?);
        }
        Ok(seen)
    }

    /// Opens the files of certificate authorities that the operator's environment names, and gives the
    /// variables whose files the program can read. They are public; what is not, is left out.
    fn open_authorities(&self, view: &mut View, survey: &Survey) -> Vec<(String, String)> {
        let mut named = Vec::new();
        for (name, path) in self.authorities {
            let is_there = view.shows(path) || is_kept(path);
            let may_open = self.confinement.profile != Profile::Strict;
            let real =
                || readable(path, survey).ok().filter(|real| survey.check_readable(real).is_ok());
            match (is_there, may_open.then(real).flatten()) {
                (true, _) => {}
                (false, Some(real)) => view.open(path, real, Access::Read),
                (false, None) => continue,
            }
            named.push((name.clone(), path.to_string_lossy().into_owned()));
        }
        named
    }

    /// Exactly what was given, and the few that programs can't do without.
    fn environment(
        &self,
        view: &View,
        home: &Path,
        path: Option<&str>,
    ) -> BTreeMap<String, String> {
        let mut env = BTreeMap::from([
            ("HOME".to_owned(), home.to_string_lossy().into_owned()),
            ("TMPDIR".to_owned(), "/tmp".to_owned()),
            ("USER".to_owned(), USER.to_owned()),
        ]);
        let lang = self.inherited.get("LANG").map(|lang| lang.to_string_lossy().into_owned());
        env.extend(lang.map(|lang| ("LANG".to_owned(), lang)));
        if self.has_proxy {
            env.extend(proxy_environment());
        }
        if self.confinement.profile != Profile::Network && self.has_proxy {
            // The proxy leads nowhere, and what the program serves to itself is reached without it.
            let own = |name: &str| (name.to_owned(), "localhost,127.0.0.1,::1".to_owned());
            env.extend([own("NO_PROXY"), own("no_proxy")]);
        }
        env.extend(self.given.iter().map(|(name, value)| (name.clone(), value.clone())));
        let folders = std::env::split_paths(path.unwrap_or(view::DEFAULT_PATH));
        let seen =
            folders.filter(|dir| view.shows(dir)).map(|dir| dir.to_string_lossy().into_owned());
        let mut path = seen.collect::<Vec<_>>().join(":");
        if path.is_empty() {
            view::DEFAULT_PATH.clone_into(&mut path);
        }
        env.insert("PATH".to_owned(), path);
        env
    }
}

/// Secrets in the home folder of the gateway's user.
fn secrets(home: Option<&Path>) -> Vec<PathBuf> {
    let secrets = home.into_iter().flat_map(|home| SECRETS.iter().map(|name| home.join(name)));
    secrets.filter(|path| path.exists()).collect()
}

fn proxy_environment() -> impl Iterator<Item = (String, String)> {
    let names =
        ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
    let address = format!("http://127.0.0.1:{PROXY_PORT}");
    let each = names.into_iter().map(move |name| (name.to_owned(), address.clone()));
    each.chain([("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned())])
}

/// A folder that may be written.
fn folder(given: &Path, survey: &Survey) -> Result<PathBuf, SandboxError> {
    let real = readable(given, survey)?;
    if !real.is_dir() {
        return Err(refused(given, "it is not a folder"));
    }
    if NEVER_WRITTEN.iter().any(|top| real.starts_with(top)) {
        let reason = "programs in the sandbox never write there; use a folder of your own";
        return Err(refused(given, reason));
    }
    Ok(real)
}

/// A file or folder that may be read.
fn readable(given: &Path, survey: &Survey) -> Result<PathBuf, SandboxError> {
    if !given.is_absolute() {
        return Err(refused(given, "it is not absolute"));
    }
    let real = survey.resolve(given).map_err(|misled| refused(given, misled))?;
    real.symlink_metadata().map_err(|error| refused(given, error))?;
    if real.to_str().is_none() {
        return Err(refused(given, "its name is not UTF-8"));
    }
    if RESERVED.iter().any(|top| real == Path::new(top)) {
        return Err(refused(given, "it is a folder of the system; use a folder of your own"));
    }
    Ok(real)
}

#[expect(clippy::needless_pass_by_value, reason = "errors and texts are handed over as they are")]
pub(super) fn refused(path: &Path, reason: impl ToString) -> SandboxError {
    SandboxError::Folder { path: path.display().to_string(), reason: reason.to_string() }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
