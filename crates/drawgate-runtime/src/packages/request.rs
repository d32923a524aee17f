//! What the command line of a package runner asks for.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// Whose packages a runner starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ecosystem {
    /// Packages of npm, and of those that share its registry.
    Npm,
    /// Python packages.
    Python,
}

/// Packages, and the program of theirs that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PackageRequest {
    /// Whose packages.
    pub ecosystem: Ecosystem,
    /// The packages: in the words of npm, or as Python requirements.
    pub packages: Vec<String>,
    /// The program. Absent: the one that belongs to the package by npm's rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The Python that is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// Options that name a registry, each as `--name=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// A command line that is a package runner's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerCommand {
    /// The runner, such as `npx` or `pnpm dlx`.
    pub runner: String,
    /// What it is asked for, or why that can't be fetched.
    pub request: Result<PackageRequest, RequestError>,
    /// The arguments of the program.
    pub args: Vec<String>,
}

/// Why what a runner is asked for can't be fetched and pinned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It names no package.
    #[error("it names no package")]
    Nothing,
    /// An option whose meaning for a fetched package is not known.
    #[error("the option `{0}` can't be kept when its package is fetched; leave it out")]
    Option(String),
    /// An option without its value.
    #[error("the option `{0}` lacks its value")]
    Value(String),
    /// Something that no registry has.
    #[error(
        "`{0}` is not a package of a registry, so that it can't be pinned; install it, and name its program"
    )]
    NotOfRegistry(String),
    /// The runner stands behind `env`, whose variables would be lost with it.
    #[error(
        "it stands behind `env`; write its variables into `env = {{ … }}`, and `command = \"{0}\"`"
    )]
    BehindEnv(String),
}

/// A package runner's command line behind `env`, which sets variables for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvPrefix {
    /// What `env` sets. What it removes is not there in a sandbox.
    pub variables: Vec<(String, String)>,
    /// The runner.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
}

impl EnvPrefix {
    /// The command line, if it is one of `env` with variables for a package runner.
    #[must_use]
    pub fn of(command: &str, args: &[String]) -> Option<Self> {
        if Path::new(command).file_name()? != "env" {
            return None;
        }
        let (mut variables, mut words) = (Vec::new(), args.iter());
        let command = loop {
            let word = words.next()?;
            match word.as_str() {
                "-i" | "-" | "--ignore-environment" | "--" => {}
                "-u" | "--unset" => drop(words.next()?),
                unset if unset.starts_with("--unset=") => {}
                option if option.starts_with('-') => return None,
                word => match word.split_once('=') {
                    Some((name, value)) => variables.push((name.to_owned(), value.to_owned())),
                    None => break word.to_owned(),
                },
            }
        };
        let args: Vec<String> = words.cloned().collect();
        RunnerCommand::of(&command, &args).is_some().then_some(Self { variables, command, args })
    }
}

/// A command that fetches a program and runs it.
struct Runner {
    words: &'static [&'static str],
    ecosystem: Ecosystem,
}

const fn npm(words: &'static [&'static str]) -> Runner {
    Runner { words, ecosystem: Ecosystem::Npm }
}

const fn python(words: &'static [&'static str]) -> Runner {
    Runner { words, ecosystem: Ecosystem::Python }
}

const RUNNERS: [Runner; 10] = [
    npm(&["npx"]),
    npm(&["npm", "exec"]),
    npm(&["bunx"]),
    npm(&["bun", "x"]),
    npm(&["pnpx"]),
    npm(&["pnpm", "dlx"]),
    npm(&["yarn", "dlx"]),
    python(&["uvx"]),
    python(&["uv", "tool", "run"]),
    python(&["pipx", "run"]),
];

/// What an option of a runner means.
enum Meaning {
    /// The value is the package that the program comes from.
    Package,
    /// The value is a further package.
    Further,
    /// The value is a version of Python, or its path.
    Python,
    /// The value is the address of a registry.
    Registry,
    /// It has no value, and nothing to say about a package that is there already.
    Nothing,
}

impl Meaning {
    fn of(option: &str, ecosystem: Ecosystem) -> Option<Self> {
        Some(match (ecosystem, option) {
            (Ecosystem::Npm, "-p" | "--package") | (Ecosystem::Python, "--from" | "--spec") => {
                Self::Package
            }
            (Ecosystem::Python, "--with") => Self::Further,
            (Ecosystem::Python, "-p" | "--python") => Self::Python,
            (Ecosystem::Npm, "--registry")
            | (
                Ecosystem::Python,
                "-i" | "--index-url" | "--default-index" | "--index" | "--extra-index-url",
            ) => Self::Registry,
            (Ecosystem::Npm, scoped)
                if scoped.starts_with("--@") && scoped.ends_with(":registry") =>
            {
                Self::Registry
            }
            (
                Ecosystem::Npm,
                "-y" | "--yes" | "--no" | "--no-install" | "--bun" | "--prefer-offline"
                | "--prefer-online",
            )
            | (Ecosystem::Python, "--isolated" | "--refresh" | "--no-cache")
            | (_, "-q" | "--quiet" | "--silent" | "--verbose" | "-v" | "--offline") => {
                Self::Nothing
            }
            _ => return None,
        })
    }
}

impl RunnerCommand {
    /// The command line, if it is a package runner's.
    #[must_use]
    pub fn of(command: &str, args: &[String]) -> Option<Self> {
        if let Some(behind) = EnvPrefix::of(command, args) {
            let runner = Self::of(&behind.command, &behind.args)?.runner;
            let request = Err(RequestError::BehindEnv(behind.command));
            return Some(Self { runner, request, args: Vec::new() });
        }
        let program = Path::new(command).file_name()?.to_str()?;
        let rest = |runner: &Runner| {
            let (first, more) = runner.words.split_first()?;
            let (begin, rest) = args.split_at_checked(more.len())?;
            (*first == program && begin.iter().eq(more)).then_some(rest)
        };
        let (runner, args) = RUNNERS.iter().find_map(|it| Some((it, rest(it)?)))?;
        let (request, args) = match read(runner.ecosystem, args) {
            Ok((request, args)) => (Ok(request), args),
            Err(error) => (Err(error), Vec::new()),
        };
        Some(Self { runner: runner.words.join(" "), request, args })
    }
}

fn read(
    ecosystem: Ecosystem,
    args: &[String],
) -> Result<(PackageRequest, Vec<String>), RequestError> {
    let mut request = PackageRequest {
        ecosystem,
        packages: Vec::new(),
        program: None,
        python: None,
        options: Vec::new(),
    };
    let mut further = Vec::new();
    let mut words = args.iter();
    let first = loop {
        let word = words.next().ok_or(RequestError::Nothing)?;
        if word == "--" {
            break words.next().ok_or(RequestError::Nothing)?;
        }
        if !word.starts_with('-') {
            break word;
        }
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        let meaning = Meaning::of(name, ecosystem)
            .ok_or_else(|| RequestError::Option(name.escape_debug().to_string()))?;
        let mut value = || {
            let value = value.clone().or_else(|| words.next().cloned());
            value.ok_or_else(|| RequestError::Value(name.escape_debug().to_string()))
        };
        match meaning {
            Meaning::Package => request.packages.push(value()?),
            Meaning::Further => further.push(value()?),
            Meaning::Python => request.python = Some(value()?),
            Meaning::Registry => {
                let name = if name == "-i" { "--index-url" } else { name };
                request.options.push(format!("{name}={}", value()?));
            }
            Meaning::Nothing => {}
        }
    };
    // The first `--` of some runners stands between the package and its arguments.
    let rest: Vec<String> = words.cloned().collect();
    request.name_program(first);
    request.packages.append(&mut further);
    request.packages.iter().try_for_each(|package| check(ecosystem, package))?;
    Ok((request, rest))
}

impl PackageRequest {
    /// Takes the first word that is not an option: a program of the packages, or a package.
    fn name_program(&mut self, word: &str) {
        let is_package = self.packages.is_empty();
        match self.ecosystem {
            Ecosystem::Npm if is_package => self.packages.push(word.to_owned()),
            Ecosystem::Npm => self.program = Some(word.to_owned()),
            Ecosystem::Python => {
                let end = word.find(|c: char| "[=<>!~@; ".contains(c)).unwrap_or(word.len());
                let (name, version) = word.split_at_checked(end).unwrap_or((word, ""));
                self.program = Some(name.to_owned());
                if is_package {
                    self.packages.push(match version.strip_prefix('@') {
                        Some("latest") => name.to_owned(),
                        Some(version) => format!("{name}=={version}"),
                        None => word.to_owned(),
                    });
                }
            }
        }
    }
}

/// Refuses paths, addresses and repositories, and what an installer would take for an option.
fn check(ecosystem: Ecosystem, package: &str) -> Result<(), RequestError> {
    let is_scoped = ecosystem == Ecosystem::Npm && package.starts_with('@');
    let slashes = package.matches('/').count();
    let is_name = package.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && slashes == 0
        || is_scoped && slashes == 1;
    let has_scheme = match ecosystem {
        Ecosystem::Npm => package.contains(':'),
        // A marker such as `; python_version < "3.12"` may stand behind it.
        Ecosystem::Python => package.contains(" @ "),
    };
    if is_name && !has_scheme && !package.chars().any(char::is_control) {
        return Ok(());
    }
    Err(RequestError::NotOfRegistry(package.escape_debug().to_string()))
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
