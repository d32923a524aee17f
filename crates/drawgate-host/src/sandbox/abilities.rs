//! What this machine can enforce, found by building boxes, not by asking.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::error::{Part, SandboxError};
use super::wire::Enforced;
use super::{ArgumentPaths, Confinement, Profile, ResourceLimits};
use crate::egress::Reach;
use crate::process::Processes;

/// The interface of Landlock with everything that is used here.
const WHOLE_LANDLOCK: u32 = 6;

/// How far something is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// By the kernel, exactly.
    Yes,
    /// Less exactly, or by other means.
    Partly,
    /// Not at all.
    No,
}

/// One part of the sandbox on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ability {
    /// What it is about.
    pub part: &'static str,
    /// How far it is enforced.
    pub enforced: Enforcement,
    /// By what, or why not.
    pub how: String,
    /// What would make it better.
    pub advice: Option<&'static str>,
}

/// What this machine can enforce.
#[derive(Debug, Clone, Serialize)]
pub struct Abilities {
    /// Part by part.
    pub parts: Vec<Ability>,
    /// Whether each profile works; [`Profile::None`] is not one of them.
    #[serde(serialize_with = "profiles")]
    pub profiles: Vec<(Profile, Result<(), SandboxError>)>,
}

impl Abilities {
    /// Builds a box of each profile, once for these processes. Needs a runtime around it.
    #[must_use]
    pub fn probe(processes: &Processes) -> Arc<Self> {
        Arc::clone(processes.abilities().get_or_init(|| Arc::new(Self::look(processes))))
    }

    /// Whether a profile works here.
    pub fn allows(&self, profile: Profile) -> Result<(), SandboxError> {
        let found = self.profiles.iter().find(|(known, _)| *known == profile);
        found.map_or(Ok(()), |(_, works)| works.clone())
    }

    fn look(processes: &Processes) -> Self {
        let built: Vec<(Profile, Result<Enforced, SandboxError>)> =
            [Profile::Strict, Profile::Workspace, Profile::Network]
                .map(|profile| (profile, build(processes, profile)))
                .into();
        let parts = match built.first() {
            Some((_, Ok(enforced))) => parts(enforced),
            Some((_, Err(error))) => vec![missing(error)],
            None => Vec::new(),
        };
        let profiles = built.into_iter().map(|(profile, works)| (profile, works.map(|_| ())));
        Self { parts, profiles: profiles.collect() }
    }
}

/// Builds one box, in a folder of its own, and takes it down.
fn build(processes: &Processes, profile: Profile) -> Result<Enforced, SandboxError> {
    let workspace = Scratch::make()?;
    let confinement = Confinement {
        profile,
        workspace: workspace.0.clone(),
        read: Vec::new(),
        write: Vec::new(),
        arguments: ArgumentPaths::Ignored,
        reach: Reach::nobody(),
        internal: None,
        unprotected: Vec::new(),
        limits: ResourceLimits::default(),
    };
    processes.try_box(&confinement)
}

struct Scratch(PathBuf);

impl Scratch {
    fn make() -> Result<Self, SandboxError> {
        let folder = std::env::temp_dir();
        let folder = folder.canonicalize().unwrap_or(folder);
        let mut number = [0; 8];
        // Another name would do as well; it only has to be free.
        let _any = getrandom::fill(&mut number);
        let path = folder.join(format!("drawgate-probe-{}", hex::encode(number)));
        let made = std::fs::create_dir(&path);
        made.map_err(|error| SandboxError::Folder {
            path: path.display().to_string(),
            reason: error.to_string(),
        })?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _left = std::fs::remove_dir(Path::new(&self.0));
    }
}

fn yes(part: &'static str, how: &str) -> Ability {
    Ability { part, enforced: Enforcement::Yes, how: how.to_owned(), advice: None }
}

fn partly(part: &'static str, how: &str, advice: &'static str) -> Ability {
    Ability { part, enforced: Enforcement::Partly, how: how.to_owned(), advice: Some(advice) }
}

/// A box that was not built.
fn missing(error: &SandboxError) -> Ability {
    let part = match error {
        SandboxError::Build { part, .. } => *part,
        SandboxError::Folder { .. } => Part::Workspace,
        SandboxError::NoEgress => Part::Network,
        SandboxError::NoLauncher(_) | SandboxError::Program { .. } => Part::Program,
        SandboxError::Limit { .. }
        | SandboxError::SharedLimit { .. }
        | SandboxError::TotalMemory { .. } => Part::Limits,
    };
    Ability {
        part: part.as_str(),
        enforced: Enforcement::No,
        how: error.to_string(),
        advice: Some(part.advice()),
    }
}

/// A box that was.
fn parts(enforced: &Enforced) -> Vec<Ability> {
    let held = |controller: &str| enforced.cgroups.iter().any(|held| held == controller);
    let delegate = "give the gateway a control group of its own (systemd: `Delegate=yes`)";
    let identity = if enforced.mapped {
        "a user that owns nothing; the owner of a folder is mapped to it"
    } else {
        "the gateway's user without any right, in a user namespace"
    };
    vec![
        yes("namespaces", "user, mount, process, network, IPC, host name, control group"),
        yes("files", "a root of its own; the system read-only, the workspace writable"),
        yes("identity", identity),
        yes("capabilities", "none in any set; no new privileges"),
        yes("seccomp", "calls that change or bypass the sandbox are refused"),
        landlock(enforced.landlock),
        if held("memory") {
            yes("memory", "a control group")
        } else {
            partly("memory", "counted every 50 ms; stopped when it is too much", delegate)
        },
        if held("pids") {
            yes("processes", "a control group, and a limit of the user namespace")
        } else {
            yes("processes", "a limit of the user namespace")
        },
        if held("cpu") {
            yes("processors", "a control group")
        } else {
            partly("processors", "whole processors only", delegate)
        },
        partly(
            "disk",
            "one file by the kernel; all together counted every 50 ms and stopped when too much",
            "put workspaces on a file system of their own, with the size they may have",
        ),
        yes(
            "planting",
            "files that others would execute are read-only; new ones are moved away afterwards",
        ),
        yes("network", "a network without a way out, but by the gateway's proxy"),
    ]
}

fn landlock(version: u32) -> Ability {
    let newer = "a newer kernel, with `landlock` in its list of security modules, adds a layer";
    match version {
        0 => Ability {
            part: "landlock",
            enforced: Enforcement::No,
            how: "not in this kernel; the mounts hold alone".to_owned(),
            advice: Some(newer),
        },
        1..WHOLE_LANDLOCK => partly("landlock", &format!("interface {version}"), newer),
        WHOLE_LANDLOCK.. => yes("landlock", &format!("interface {version}")),
    }
}

/// Each profile's word, with what is wrong.
fn profiles<S: Serializer>(
    profiles: &[(Profile, Result<(), SandboxError>)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let said = |works: &Result<(), SandboxError>| match works {
        Ok(()) => serde_json::json!({ "works": true }),
        Err(error) => serde_json::json!({ "works": false, "reason": error.to_string() }),
    };
    let words: BTreeMap<&str, _> =
        profiles.iter().map(|(profile, works)| (profile.as_str(), said(works))).collect();
    words.serialize(serializer)
}
