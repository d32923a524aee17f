//! What a program sees of the machine beside the system's own folders.
//!
//! A program that lives elsewhere (a version manager, a virtual environment, a project) brings the
//! folders that it needs to run; never a whole home folder.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::access;

use super::plan::{Access, Bind};
use crate::trusted::{Misled, Survey};

/// Where programs are looked up when nobody said.
pub(crate) const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// System folders that every box has, read-only; those that are links stay links.
pub(crate) const SYSTEM: [&str; 10] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/run/current-system/sw",
];

/// Folders that hold more than one installation, so that a program in them opens itself alone.
const SHARED: [&str; 8] = ["/", "/home", "/root", "/tmp", "/var", "/opt", "/srv", "/mnt"];

/// No program brings anything of these.
const NEVER_OPENED: [&str; 6] = ["/boot", "/dev", "/etc", "/proc", "/run", "/sys"];

/// The most links and interpreters that are followed from one program.
const STEPS: usize = 16;

/// What is visible so far.
pub(crate) struct View {
    /// The home folder of the gateway's user, without links.
    home: Option<PathBuf>,
    binds: BTreeMap<PathBuf, Access>,
    links: BTreeMap<PathBuf, PathBuf>,
}

impl View {
    pub(crate) const fn new(home: Option<PathBuf>) -> Self {
        Self { home, binds: BTreeMap::new(), links: BTreeMap::new() }
    }

    /// Opens a resolved path, and the spelling in which it was given.
    pub(crate) fn open(&mut self, given: &Path, real: PathBuf, access: Access) {
        if given != real && !given.components().any(|part| part.as_os_str() == "..") {
            self.links.insert(given.to_owned(), real.clone());
        }
        let now = self.binds.entry(real).or_insert(access);
        *now = access.max(*now);
    }

    /// Whether a path can be written in the box.
    pub(crate) fn writes(&self, path: &Path) -> bool {
        let mut written = self.binds.iter().filter(|(_, access)| **access == Access::Write);
        written.any(|(bind, _)| path.starts_with(bind))
    }

    /// Whether a path can be seen in the box.
    pub(crate) fn shows(&self, path: &Path) -> bool {
        is_system(path) || self.binds.keys().any(|bind| path.starts_with(bind))
    }

    /// Opens what a program needs to run, and gives its path in the box. If a link leads out of the box that a
    /// program could have made, that is the error.
    ///
    /// What lies in `foreign` folders, or in any that programs may write, is not the operator's word: a
    /// script or a link there leads only to interpreters of the system and of the gateway's own `PATH`.
    pub(crate) fn open_program(
        &mut self,
        program: &Path,
        path: Option<&str>,
        foreign: &[PathBuf],
        survey: &Survey,
    ) -> Result<PathBuf, Misled> {
        let start = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
        let mut next = Some(start.clone());
        let mut is_trusted = true;
        for _ in 0..STEPS {
            let Some(named) = next.take() else { break };
            let (file, misled) = in_real_folder(&named, survey);
            is_trusted &= misled.is_none();
            if !is_trusted && !self.shows(&file) && !self.is_installed(&file, path, survey) {
                // An interpreter that is not there is named by the system.
                survey.resolve(&start)?;
                break;
            }
            self.open_installation(&file);
            next = match std::fs::read_link(&file) {
                Ok(target) => file.parent().map(|folder| folder.join(target)),
                Err(_) => interpreter(&file, path),
            };
            let is_foreign = || foreign.iter().any(|top| file.starts_with(top));
            is_trusted = is_trusted && next.is_some() && !is_foreign() && !survey.is_written(&file);
        }
        match in_real_folder(&start, survey) {
            (real, None) => Ok(real),
            // What is in the box follows the links there.
            (_, Some(_)) => Ok(start),
        }
    }

    /// Whether it is a program of an installation that the gateway's `PATH` names.
    fn is_installed(&self, file: &Path, path: Option<&str>, survey: &Survey) -> bool {
        let folders = std::env::split_paths(path.unwrap_or(DEFAULT_PATH));
        let folders = folders.filter(|folder| folder.is_absolute());
        let mut folders = folders.filter_map(|folder| survey.resolve(&folder).ok());
        is_executable(file)
            && folders.any(|folder| {
                file.starts_with(&folder)
                    || self.prefix(&folder).is_some_and(|prefix| file.starts_with(prefix))
            })
    }

    fn open_installation(&mut self, file: &Path) {
        if self.shows(file) || NEVER_OPENED.iter().any(|top| file.starts_with(top)) {
            return;
        }
        let Some(folder) = file.parent() else { return };
        let own = if self.is_shared(folder) { file } else { folder };
        let wanted = [Some(own), self.prefix(folder), node_modules(file)];
        let wanted: Vec<PathBuf> = wanted.into_iter().flatten().map(Path::to_owned).collect();
        for path in wanted.into_iter().filter(|path| path.to_str().is_some()) {
            self.binds.entry(path).or_insert(Access::Read);
        }
    }

    /// The parent of `bin`, where it is an installation of its own.
    fn prefix<'a>(&self, folder: &'a Path) -> Option<&'a Path> {
        let prefix = folder.parent()?;
        let has = |name: &str| prefix.join(name).exists();
        let is_bin = folder.file_name().is_some_and(|name| name == "bin" || name == "shims");
        let is_whole = has("lib") || has("libexec") || has("versions") || has("pyvenv.cfg");
        let is_personal = [".local", ".cargo"].iter().any(|name| prefix.ends_with(name));
        (is_bin && is_whole && !is_personal && !self.is_shared(prefix)).then_some(prefix)
    }

    fn is_shared(&self, folder: &Path) -> bool {
        let is_home = |home: &Path| home.starts_with(folder);
        SHARED.iter().any(|shared| folder == Path::new(shared))
            || folder.parent().is_some_and(|above| above == Path::new("/home"))
            || self.home.as_deref().is_some_and(is_home)
    }

    /// The folders, parents first, and the links to them. What lies in a hidden folder is named even
    /// where the folder around that is visible.
    pub(crate) fn into_parts(self, hidden: &[PathBuf]) -> (Vec<Bind>, Vec<(PathBuf, PathBuf)>) {
        let mut binds: Vec<Bind> = Vec::new();
        for (path, access) in self.binds {
            // Visible already, and with the same rights: a mount less.
            let above = binds.iter().rev().find(|bind| path.starts_with(&bind.path));
            let hides =
                |top: &Path| hidden.iter().any(|h| path.starts_with(h) && h.starts_with(top));
            let known = above.is_some_and(|bind| bind.access == access && !hides(&bind.path));
            if !known && (access == Access::Write || !is_system(&path)) {
                binds.push(Bind { path, access });
            }
        }
        (binds, self.links.into_iter().collect())
    }
}

pub(crate) fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|top| path.starts_with(top))
}

/// The same file, with the links of its folder resolved; a link that it is itself stays. And whether a
/// program could have put one of the links there.
fn in_real_folder(file: &Path, survey: &Survey) -> (PathBuf, Option<Misled>) {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
        return (file.to_owned(), None);
    };
    let (folder, misled) = survey.follow(folder);
    (folder.join(name), misled)
}

fn node_modules(file: &Path) -> Option<&Path> {
    file.ancestors()
        .filter(|path| path.file_name().is_some_and(|name| name == "node_modules"))
        .last()
}

fn is_executable(file: &Path) -> bool {
    file.is_file() && access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

/// The interpreter that a script names in its first line. Of `env`, only the plain forms: its other
/// options take paths.
fn interpreter(script: &Path, path: Option<&str>) -> Option<PathBuf> {
    let mut head = Vec::new();
    // A pipe that was put in its place must not keep the gateway waiting.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(script);
    opened.ok()?.take(256).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_whitespace().peekable();
    let program = PathBuf::from(words.next()?);
    if program.file_name().is_none_or(|name| name != "env") {
        return Some(program).filter(|file| file.is_absolute() && is_executable(file));
    }
    let _split = words.next_if_eq(&"-S");
    let name = words.next().filter(|word| !word.starts_with('-') && !word.contains(['=', '/']))?;
    let folders = std::env::split_paths(path.unwrap_or(DEFAULT_PATH));
    folders
        .filter(|folder| folder.is_absolute())
        .find_map(|folder| Some(folder.join(name)).filter(|file| is_executable(file)))
}
