//! Python packages: an environment of their own, by uv where it is installed, else by Python's own
//! `venv` and pip.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anyhow::{Context as _, bail};
use drawgate_runtime::packages::{PackageRequest, Pins};
use serde_json::Value;

use super::Installed;
use super::installer::Installer;

/// What was asked for, and what it came to.
const ASKED: &str = "requirements.in";
const REQUIREMENTS: &str = "requirements.txt";
const REPORT: &str = "report.json";
/// No package is built: that would run its code.
const BUILT_ONLY: &str = "--only-binary=:all:";
/// The longest first line of a script that counts.
const MAX_LINE: u64 = 512;

pub(super) async fn install(
    installer: &Installer,
    request: &PackageRequest,
    keep: Option<&Pins>,
) -> anyhow::Result<Installed> {
    let tool = match installer.find("uv") {
        Some(uv) => Tool::Uv(uv),
        None => Tool::Pip,
    };
    tool.make_environment(installer, request).await?;
    match keep {
        Some(Pins::Python { requirements }) => installer.write(REQUIREMENTS, requirements)?,
        Some(Pins::Npm { .. }) | None => {
            installer.write(ASKED, &(request.packages.join("\n") + "\n"))?;
            tool.resolve(installer, request).await?;
        }
    }
    tool.install(installer, request).await?;
    let program = request.program.as_deref().unwrap_or_default();
    check_program(installer.tree(), program)?;
    let requirements = installer.read(REQUIREMENTS)?;
    Ok(Installed { pins: Pins::Python { requirements }, program: format!("bin/{program}") })
}

/// What installs.
enum Tool {
    Uv(String),
    Pip,
}

impl Tool {
    async fn make_environment(
        &self,
        installer: &Installer,
        request: &PackageRequest,
    ) -> anyhow::Result<()> {
        let wanted = request.python.as_deref();
        match self {
            Self::Uv(uv) => {
                let mut args = vec!["venv", "--quiet", "--allow-existing"];
                args.extend(wanted.iter().flat_map(|python| ["--python", python]));
                args.push(".");
                installer.run(uv, &args).await
            }
            Self::Pip => {
                let python = match wanted {
                    Some(python) if python.contains('/') => python.to_owned(),
                    Some(version) => format!("python{version}"),
                    None => "python3".to_owned(),
                };
                let made = installer.run(&python, &["-m", "venv", "."]).await;
                made.context(
                    "Python can't make an environment; install `uv`, or Python with `venv`",
                )
            }
        }
    }

    /// Finds versions and hashes.
    async fn resolve(&self, installer: &Installer, request: &PackageRequest) -> anyhow::Result<()> {
        let options = request.options.iter().map(String::as_str);
        match self {
            Self::Uv(uv) => {
                let mut args =
                    vec!["pip", "compile", "--quiet", "--generate-hashes", "--no-header"];
                args.extend(["--no-annotate", "--python", "bin/python", BUILT_ONLY]);
                args.extend(options);
                args.extend(["--output-file", REQUIREMENTS, ASKED]);
                installer.run(uv, &args).await
            }
            Self::Pip => {
                let mut args =
                    vec!["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
                args.extend(["--dry-run", "--ignore-installed", BUILT_ONLY, "--report", REPORT]);
                args.extend(options);
                args.extend(["--requirement", ASKED]);
                installer.run(&python_of(installer), &args).await?;
                let report = serde_json::from_str(&installer.read(REPORT)?)?;
                installer.write(REQUIREMENTS, &requirements_of(&report)?)
            }
        }
    }

    /// Installs exactly these versions, from archives that have these hashes.
    async fn install(&self, installer: &Installer, request: &PackageRequest) -> anyhow::Result<()> {
        let options = request.options.iter().map(String::as_str);
        match self {
            Self::Uv(uv) => {
                let mut args = vec!["pip", "install", "--quiet", "--require-hashes", "--no-deps"];
                // Files that are shared with uv's own cache would change with it.
                args.extend(["--link-mode=copy", "--compile-bytecode", BUILT_ONLY]);
                args.extend(["--python", "bin/python"]);
                args.extend(options);
                args.extend(["--requirement", REQUIREMENTS]);
                installer.run(uv, &args).await
            }
            Self::Pip => {
                let mut args =
                    vec!["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
                args.extend(["--require-hashes", "--no-deps", BUILT_ONLY]);
                args.extend(options);
                args.extend(["--requirement", REQUIREMENTS]);
                installer.run(&python_of(installer), &args).await
            }
        }
    }
}

fn python_of(installer: &Installer) -> String {
    installer.tree().join("bin/python").to_string_lossy().into_owned()
}

/// What pip would install, as requirements with hashes.
fn requirements_of(report: &Value) -> anyhow::Result<String> {
    let mut text = String::new();
    for item in report["install"].as_array().context("pip's report can't be read")? {
        let (name, version) = (&item["metadata"]["name"], &item["metadata"]["version"]);
        let (name, version) =
            name.as_str().zip(version.as_str()).context("pip's report has no name")?;
        let hash = item["download_info"]["archive_info"]["hashes"]["sha256"].as_str();
        let hash = hash.with_context(|| format!("pip knows no hash of `{name}`"))?;
        text.extend([name, "==", version, " --hash=sha256:", hash, "\n"]);
    }
    Ok(text)
}

/// Whether the program is one that the installer made, and so runs the environment's own Python. Another
/// may name any interpreter of this machine.
fn check_program(tree: &Path, program: &str) -> anyhow::Result<()> {
    if is_made(tree, &tree.join("bin").join(program)) && !program.contains('/') {
        return Ok(());
    }
    let programs = std::fs::read_dir(tree.join("bin"))?.flatten();
    let programs = programs.filter(|entry| is_made(tree, &entry.path()));
    let mut names: Vec<String> =
        programs.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    bail!("its packages have no program `{program}`; they have `{}`", names.join("`, `"))
}

fn is_made(tree: &Path, script: &Path) -> bool {
    use std::io::Read as _;
    let Ok(file) = std::fs::File::open(script) else { return false };
    let mut line = String::new();
    let read = BufReader::new(file.take(MAX_LINE)).read_line(&mut line);
    let own = format!("#!{}", tree.join("bin/python").display());
    read.is_ok() && line.starts_with(&own)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_pip_would_install_becomes_requirements() {
        let item = |name: &str, hashes: Value| json!({ "metadata": { "name": name, "version": "1.0" }, "download_info": { "archive_info": { "hashes": hashes } } });
        let report = json!({ "install": [item("a", json!({ "sha256": "12" })), item("b", json!({ "sha256": "34" }))] });
        assert_eq!(
            requirements_of(&report).unwrap(),
            "a==1.0 --hash=sha256:12\nb==1.0 --hash=sha256:34\n"
        );
        assert!(requirements_of(&json!({ "install": [item("a", json!({}))] })).is_err());
        assert!(requirements_of(&json!({})).is_err());
    }

    #[test]
    fn a_program_must_run_the_environment_s_own_python() {
        let tree = tempfile::tempdir().unwrap();
        let bin = tree.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::write(bin.join("good"), format!("#!{}/python3\n", bin.display())).unwrap();
        std::fs::write(bin.join("foreign"), "#!/home/ada/bin/python\n").unwrap();
        assert!(check_program(tree.path(), "good").is_ok());
        for program in ["foreign", "none", "../bin/good"] {
            let refused = check_program(tree.path(), program).unwrap_err().to_string();
            assert!(refused.ends_with("they have `good`"), "{refused}");
        }
    }
}
