//! What the arguments of a program open: the operator wrote them, so what they name may be read.

use std::path::{Path, PathBuf};

use super::error::SandboxError;
use super::plan::{Access, refused};
use super::view::View;
use crate::trusted::Survey;

/// What the root of a project has; a script needs what lies beside it.
const MARKS: [&str; 5] =
    ["package.json", "node_modules", "pyproject.toml", "pyvenv.cfg", "Cargo.toml"];
/// How far above a script its project may begin.
const MAX_HEIGHT: usize = 6;

/// Opens what an argument names, and gives it in the form in which the program sees it: a path without
/// links, where there is nothing beside what it leads to.
pub(super) fn open(
    argument: &str,
    home: Option<&Path>,
    view: &mut View,
    survey: &Survey,
) -> Result<String, SandboxError> {
    let path = Path::new(argument);
    if !path.is_absolute() {
        return Ok(argument.to_owned());
    }
    let real = match survey.resolve(path) {
        Ok(real) => real,
        // The link is in the box, too, and leads there to what the box has.
        Err(misled) if view.shows(&misled.link) => return Ok(argument.to_owned()),
        Err(misled) => return Err(refused(path, misled)),
    };
    let Some(text) = real.to_str().filter(|_| real.symlink_metadata().is_ok()) else {
        return Ok(argument.to_owned());
    };
    // What it may write stays writable.
    if let Some(opened) = named(&real, home).filter(|opened| !view.writes(opened)) {
        view.open(&opened, opened.clone(), Access::Read);
    }
    Ok(text.to_owned())
}

/// What an argument would open now, for people.
pub(super) fn opened_by(argument: &str, home: Option<&Path>) -> Option<PathBuf> {
    let path = Some(Path::new(argument)).filter(|path| path.is_absolute())?;
    let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()));
    named(&path.canonicalize().ok()?, home.as_deref())
}

/// What a path without links opens: the folder that it is, or the file with the project around it. Never a
/// whole home folder, which is named without links as well, nor a folder at the top of the machine.
fn named(path: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let too_much = |path: &Path| {
        path.parent().is_none_or(|above| above.parent().is_none()) || Some(path) == home
    };
    if path.is_dir() {
        return Some(path).filter(|path| !too_much(path)).map(Path::to_owned);
    }
    let above = || path.ancestors().skip(1).take_while(|folder| !too_much(folder));
    // An installed package needs those that are installed with it, and nothing of the project.
    let modules = above().filter(|folder| folder.ends_with("node_modules")).last();
    let marked = |folder: &&Path| MARKS.iter().any(|mark| folder.join(mark).exists());
    let project = || above().take(MAX_HEIGHT).find(marked);
    Some(modules.or_else(project).unwrap_or(path).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_opens_its_project_and_no_more() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let project = home.join("project");
        std::fs::create_dir_all(project.join("src/deep")).unwrap();
        std::fs::write(project.join("package.json"), "{}").unwrap();
        for file in ["project/src/deep/server.js", "loose.py"] {
            std::fs::write(home.join(file), "").unwrap();
        }
        let opened = |path: &Path| named(path, Some(&home));
        assert_eq!(opened(&project.join("src/deep/server.js")), Some(project.clone()));
        assert_eq!(opened(&project.join("src")), Some(project.join("src")));
        let package = project.join("node_modules/@a/b/node_modules/c");
        std::fs::create_dir_all(&package).unwrap();
        for file in ["package.json", "index.js"] {
            std::fs::write(package.join(file), "{}").unwrap();
        }
        assert_eq!(opened(&package.join("index.js")), Some(project.join("node_modules")));
        assert_eq!(opened(&home.join("loose.py")), Some(home.join("loose.py")));
        for nothing in ["/", "/usr"].map(Path::new) {
            assert_eq!(opened(nothing), None, "{}", nothing.display());
        }
        assert_eq!(opened(&home), None);
    }
}
