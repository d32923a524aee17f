//! Packages of npm, for all runners that share its registry.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use drawgate_core::json::parse;
use drawgate_runtime::packages::{PackageRequest, Pins};
use serde::Deserialize;
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

/// What is kept of npm's lock file, for the whole and for each package: all by which the same is installed
/// again. A package may have anything else in its `package.json`, and as much of it as it likes.
const LOCK_MEMBERS: [&str; 4] = ["name", "version", "lockfileVersion", "requires"];
const PACKAGE_MEMBERS: [&str; 20] = [
    "name",
    "version",
    "resolved",
    "integrity",
    "link",
    "dev",
    "optional",
    "devOptional",
    "peer",
    "inBundle",
    "bundleDependencies",
    "dependencies",
    "optionalDependencies",
    "peerDependencies",
    "peerDependenciesMeta",
    "bin",
    "os",
    "cpu",
    "libc",
    "extraneous",
];

/// The largest `package.json` of a package. Those that there are have a tenth of it.
const MAX_MANIFEST: usize = 1 << 20;

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
    let manifest = only(&["private", "dependencies"], manifest);
    let lock = slim(json_of(installer, LOCK)?);
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
    let name = format!("node_modules/{package}/{MANIFEST}");
    let own = own_manifest(&installer.read(&name)?).with_context(|| format!("`{name}`"))?;
    program_of(package, &own.bin)
}

/// What is read of a package's own `package.json`.
#[derive(Deserialize)]
struct OwnManifest {
    #[serde(default)]
    bin: Value,
}

/// Its author's own text, which npm reads less strictly than the gateway: its size is the bound.
fn own_manifest(text: &str) -> anyhow::Result<OwnManifest> {
    if text.len() > MAX_MANIFEST {
        bail!("it has more than {MAX_MANIFEST} bytes");
    }
    serde_json::from_str(text).context("it can't be read as JSON")
}

/// A lock file of npm without what nothing is installed by.
fn slim(lock: Value) -> Value {
    let Value::Object(mut lock) = lock else { return lock };
    let packages = lock.remove("packages").unwrap_or_default();
    let mut kept = only(&LOCK_MEMBERS, Value::Object(lock));
    if let Value::Object(packages) = packages {
        let packages = packages.into_iter().map(|(path, it)| (path, only(&PACKAGE_MEMBERS, it)));
        kept["packages"] = Value::Object(packages.collect());
    }
    kept
}

/// An object's members with these names.
fn only(names: &[&str], object: Value) -> Value {
    let Value::Object(mut members) = object else { return object };
    members.retain(|name, _| names.contains(&name.as_str()));
    Value::Object(members)
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
    parse(text.as_bytes()).with_context(|| format!("`{name}` can't be read as JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A package with a million `engines` weighs what any other does.
    #[test]
    fn a_lock_keeps_what_is_installed_by_and_nothing_else() {
        let package = json!({
            "version": "1.0.0", "integrity": "sha512-a", "dependencies": { "b": "^2" }, "bin": { "a": "a.js" },
            "engines": { "node": ">=18", "x": "y" }, "license": "MIT", "funding": { "url": "x" }, "unheard": [1],
        });
        let lock = json!({ "name": "t", "lockfileVersion": 3, "requires": true, "more": {}, "packages": {
            "": { "dependencies": { "a": "1.0.0" } }, "node_modules/a": package,
        } });
        let expected = json!({ "name": "t", "lockfileVersion": 3, "requires": true, "packages": {
            "": { "dependencies": { "a": "1.0.0" } },
            "node_modules/a": {
                "version": "1.0.0", "integrity": "sha512-a", "dependencies": { "b": "^2" }, "bin": { "a": "a.js" },
            },
        } });
        assert_eq!(slim(lock), expected);
    }

    #[test]
    fn the_manifest_of_a_package_is_bounded() {
        let manifest = |engines: usize| {
            let engines = format!("{}0", "0,".repeat(engines));
            own_manifest(&format!(
                r#"{{"bin":"a.js","name":"a","name":"a","engines":[{engines}]}}"#
            ))
        };
        assert_eq!(manifest(1).unwrap().bin, json!("a.js"));
        let refused = manifest(MAX_MANIFEST).err().unwrap().to_string();
        assert_eq!(refused, "it has more than 1048576 bytes");
    }

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
