//! Packages of npm, for all runners that share its registry.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use drawgate_runtime::packages::{PackageRequest, Pins};
use serde_json::{Value, json};

use super::installer::{Installer, Step};
use super::{Installed, settings};

const MANIFEST: &str = "package.json";
const LOCK: &str = "package-lock.json";

/// What npm must do whatever else it is configured for: run nothing of a package, install here, and write
/// down versions and hashes without the address of the registry.
const ALWAYS: [&str; 15] = [
    "--ignore-scripts=true",
    // A repository would be cloned and prepared, with settings of its own; there is no git in any version of
    // npm, and the newer ones say so better.
    "--git=/nonexistent",
    "--allow-git=none",
    "--allow-file=none",
    "--allow-directory=none",
    "--global=false",
    "--package-lock=true",
    "--save=true",
    "--save-exact=true",
    "--bin-links=true",
    "--omit-lockfile-registry-resolved=true",
    "--audit=false",
    "--fund=false",
    "--update-notifier=false",
    "--loglevel=error",
];

pub(super) async fn install(
    installer: &Installer,
    request: &PackageRequest,
    keep: Option<&Pins>,
) -> anyhow::Result<Installed> {
    let npm =
        installer.find("npm").context("there is no program `npm`; install Node.js with npm")?;
    let node = installer.find("node");
    let settings = settings::npm(installer.operator(), node.as_deref(), &request.options);
    let mut args: Vec<&str> = Vec::new();
    if let Some(Pins::Npm { manifest, lock }) = keep {
        installer.write(MANIFEST, &manifest.to_string())?;
        installer.write(LOCK, &lock.to_string())?;
        args.push("ci");
        args.extend(ALWAYS);
    } else {
        installer.write(MANIFEST, &json!({ "private": true }).to_string())?;
        args.push("install");
        args.extend(ALWAYS);
        args.push("--");
        args.extend(request.packages.iter().map(String::as_str));
    }
    let (program, settings) = (npm.to_string_lossy(), Some(&settings));
    let programs = node.into_iter().collect();
    installer.run(Step { program: &program, args: &args, settings, programs }).await?;
    let manifest = json_of(installer, MANIFEST)?;
    let lock = json_of(installer, LOCK)?;
    let program = match &request.program {
        Some(program) => program.clone(),
        None => own_program(installer, &manifest)?,
    };
    let program = format!("node_modules/.bin/{program}");
    if !installer.tree().join(&program).exists() {
        bail!("its packages have no program `{program}`");
    }
    Ok(Installed { pins: Pins::Npm { manifest, lock }, program, links: BTreeMap::new() })
}

/// The program that npx starts for a package: its only one, else the one of its name.
fn own_program(installer: &Installer, manifest: &Value) -> anyhow::Result<String> {
    let package = manifest["dependencies"].as_object().and_then(|all| all.keys().next());
    let package = package.context("npm has installed nothing")?;
    let own = json_of(installer, &format!("node_modules/{package}/{MANIFEST}"))?;
    program_of(package, &own["bin"])
}

fn program_of(package: &str, bin: &Value) -> anyhow::Result<String> {
    let name = package.rsplit('/').next().unwrap_or(package);
    let Some(programs) = bin.as_object() else {
        return match bin {
            Value::String(_) => Ok(name.to_owned()),
            _ => bail!("`{package}` has no program"),
        };
    };
    let mut targets = programs.values();
    let first = targets.next();
    let only = programs.keys().next().filter(|_| targets.all(|target| Some(target) == first));
    match only {
        Some(only) => Ok(only.clone()),
        None if programs.contains_key(name) => Ok(name.to_owned()),
        None => {
            let names: Vec<&str> = programs.keys().map(String::as_str).collect();
            bail!(
                "`{package}` has several programs; write `npx -p {package} PROGRAM`, with one of `{}`",
                names.join("`, `")
            )
        }
    }
}

fn json_of(installer: &Installer, name: &str) -> anyhow::Result<Value> {
    let text = installer.read(name)?;
    serde_json::from_str(&text).with_context(|| format!("`{name}` is not JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_the_one_that_npx_starts() {
        for (bin, expected) in [
            (json!("dist/index.js"), Some("server")),
            (json!({ "other": "a.js" }), Some("other")),
            (json!({ "one": "a.js", "two": "a.js" }), Some("one")),
            (json!({ "server": "a.js", "two": "b.js" }), Some("server")),
            (json!({ "one": "a.js", "two": "b.js" }), None),
            (json!({}), None),
            (Value::Null, None),
        ] {
            assert_eq!(program_of("@s/server", &bin).ok().as_deref(), expected, "{bin}");
        }
    }
}
