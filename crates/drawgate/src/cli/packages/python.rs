//! Python packages: an environment of their own, by uv where it is installed, else by Python's own
//! `venv` and pip.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use drawgate_core::json::parse;
use drawgate_runtime::packages::{PackageRequest, Pins, links_out};
use serde_json::Value;

use super::installer::{Installer, Step};
use super::settings::{self, Settings};
use super::{Installed, check_links};

/// What was asked for, and what it came to.
const ASKED: &str = "requirements.in";
const REQUIREMENTS: &str = "requirements.txt";
const REPORT: &str = "report.json";
/// What says which Python an environment is for.
const ENVIRONMENT: &str = "pyvenv.cfg";
/// No package is built: that would run its code.
const BUILT_ONLY: &str = "--only-binary=:all:";
/// pip of the environment.
const PIP_INSTALL: [&str; 5] = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
/// The longest first line of a script that counts.
const MAX_LINE: u64 = 512;

pub(super) async fn install(
    installer: &Installer,
    request: &PackageRequest,
    keep: Option<&Pins>,
) -> anyhow::Result<Installed> {
    let tool = Tool::here(installer, request);
    tool.make_environment().await?;
    let (links, settings) = (links_out(installer.tree())?, installer.read(ENVIRONMENT)?);
    match keep {
        Some(Pins::Python { requirements }) => installer.write(REQUIREMENTS, requirements)?,
        Some(Pins::Npm { .. }) | None => {
            installer.write(ASKED, &(request.packages.join("\n") + "\n"))?;
            tool.resolve().await?;
        }
    }
    tool.install().await?;
    // Files of a package can have any name, also those of the environment.
    check_links(installer.tree(), &links)?;
    if installer.read(ENVIRONMENT)? != settings {
        bail!("its files took the place of `{ENVIRONMENT}`");
    }
    tool.compile().await?;
    let program = request.program.as_deref().unwrap_or_default();
    check_program(installer.tree(), program)?;
    let requirements = installer.read(REQUIREMENTS)?;
    let program = format!("bin/{program}");
    Ok(Installed { pins: Pins::Python { requirements }, program, links })
}

/// What installs, and for what.
struct Tool<'a> {
    installer: &'a Installer,
    /// The Python that is asked for.
    wanted: Option<&'a str>,
    /// uv, where it is installed; else Python's own pip.
    uv: Option<PathBuf>,
    /// The Python that makes an environment where there is no uv.
    maker: Option<PathBuf>,
    settings: Settings,
    /// The Pythons that an environment may be made of.
    pythons: Vec<PathBuf>,
}

impl<'a> Tool<'a> {
    fn here(installer: &'a Installer, request: &'a PackageRequest) -> Self {
        let wanted = request.python.as_deref();
        let named = wanted.map(|python| {
            if python.contains('/') { python.to_owned() } else { format!("python{python}") }
        });
        let named = named.map(|name| installer.find(&name));
        let usual = ["python3", "python"].into_iter().filter_map(|name| installer.find(name));
        let maker = named.clone().unwrap_or_else(|| installer.find("python3"));
        let pythons = named.flatten().into_iter().chain(usual).collect();
        let uv = installer.find("uv");
        let of = if uv.is_some() { settings::uv } else { settings::pip };
        let settings = of(installer.operator(), &request.options);
        Self { installer, wanted, uv, maker, settings, pythons }
    }

    async fn make_environment(&self) -> anyhow::Result<()> {
        if let Some(uv) = &self.uv {
            let mut args = vec!["venv", "--quiet", "--allow-existing"];
            args.extend(self.wanted.iter().flat_map(|python| ["--python", python]));
            args.push(".");
            return self.run(uv, &args).await;
        }
        let advice = "there is neither uv nor Python; install `uv`, or Python with `venv` (on Debian: `apt install python3-venv`)";
        let python = self.maker.as_deref().context(advice)?;
        // Python without `venv` says by itself what to install.
        self.run(python, &["-m", "venv", "."]).await
    }

    /// Finds versions and hashes.
    async fn resolve(&self) -> anyhow::Result<()> {
        if let Some(uv) = &self.uv {
            let mut args = vec!["pip", "compile", "--quiet", "--generate-hashes", "--no-header"];
            args.extend(["--no-annotate", "--python", "bin/python", BUILT_ONLY]);
            args.extend(["--output-file", REQUIREMENTS, ASKED]);
            return self.run(uv, &args).await;
        }
        let mut args = PIP_INSTALL.to_vec();
        args.extend(["--dry-run", "--ignore-installed", BUILT_ONLY, "--report", REPORT]);
        args.extend(["--requirement", ASKED]);
        self.run(&self.own_python(), &args).await?;
        let report = parse(self.installer.read(REPORT)?.as_bytes());
        let report = report.with_context(|| format!("`{REPORT}` of pip can't be read"))?;
        self.installer.write(REQUIREMENTS, &requirements_of(&report)?)
    }

    /// Installs exactly these versions, from archives that have these hashes.
    async fn install(&self) -> anyhow::Result<()> {
        let exactly = ["--require-hashes", "--no-deps", BUILT_ONLY, "--requirement", REQUIREMENTS];
        if let Some(uv) = &self.uv {
            // Files that are shared with uv's own cache would change with it.
            let mut args = vec!["pip", "install", "--quiet", "--link-mode=copy"];
            args.extend(["--python", "bin/python"]);
            args.extend(exactly);
            return self.run(uv, &args).await;
        }
        let mut args = PIP_INSTALL.to_vec();
        args.push("--no-compile");
        args.extend(exactly);
        self.run(&self.own_python(), &args).await
    }

    /// Compiles what was installed, since its folder is read-only when it runs. Python loads nothing of it
    /// for that (`-I -S`), and has neither a network nor a login.
    async fn compile(&self) -> anyhow::Result<()> {
        self.installer.forget_settings()?;
        let python = self.own_python();
        let step = Step {
            program: &python.to_string_lossy(),
            args: &["-I", "-S", "-m", "compileall", "-q", "lib"],
            settings: None,
            programs: self.pythons.clone(),
        };
        // Packages hold files that are no programs, and those that don't compile are compiled in vain.
        let _ = self.installer.run(step).await;
        Ok(())
    }

    async fn run(&self, program: &Path, args: &[&str]) -> anyhow::Result<()> {
        let (program, settings) = (program.to_string_lossy(), Some(&self.settings));
        let programs = self.pythons.clone();
        self.installer.run(Step { program: &program, args, settings, programs }).await
    }

    fn own_python(&self) -> PathBuf {
        self.installer.tree().join("bin/python")
    }
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
    if !script.symlink_metadata().is_ok_and(|found| found.is_file()) {
        return false;
    }
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
