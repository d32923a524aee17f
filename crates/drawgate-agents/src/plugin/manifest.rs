//! `drawgate-plugin.json`: what a plugin is, and what it asks the operator for.
//!
//! Read strictly, with every problem at once. The descriptions here are those of the published schema.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Component, Path};
use std::sync::LazyLock;

use drawgate_core::json as strict;
use drawgate_core::model::{SourceId, shown_name};
use drawgate_host::egress::HostRule;
use drawgate_sources::schema::{Tidy, tidy};
use drawgate_sources::shape::{self, Elements, Spot, Voice};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Hook;
use super::problems::{Found, Problem, Problems};

/// The name of the manifest's file.
pub const FILE: &str = "drawgate-plugin.json";
/// The largest manifest.
const MAX_BYTES: u64 = 64 * 1024;
/// The longest version.
const MAX_VERSION: usize = 64;

/// A plugin: a program that offers tools and hooks to a gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PluginManifest {
    /// Where the schema of this file is, for editors.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// The plugin's name, which its tools begin with: 1 to 64 of `a-z A-Z 0-9 _ -`.
    #[schemars(regex(pattern = "^[a-zA-Z0-9_][a-zA-Z0-9_-]{0,63}$"))]
    pub name: String,
    /// The plugin's version, such as `1.0.0`.
    #[schemars(length(min = 1, max = 64))]
    pub version: String,
    /// The file that is run, inside the plugin's folder.
    #[schemars(length(min = 1))]
    pub main: String,
    /// What runs it.
    pub runtime: Runtime,
    /// What it needs beyond its own folder. The operator sees it before the plugin is enabled, and the
    /// plugin is held to it.
    #[serde(default, skip_serializing_if = "PluginPermissions::is_empty")]
    pub permissions: PluginPermissions,
}

/// What runs a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    /// Node: JavaScript, or TypeScript with Node 22.18 or later.
    Node,
    /// Python 3.9 or later.
    Python,
    /// The file is a program that speaks the plugin protocol itself.
    Exec,
}

impl Runtime {
    /// The word in manifests.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Python => "python",
            Self::Exec => "exec",
        }
    }

    /// How names of its files end; any way for programs.
    const fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Node => &[".ts", ".mts", ".cts", ".js", ".mjs", ".cjs"],
            Self::Python => &[".py"],
            Self::Exec => &[],
        }
    }
}

/// What a plugin needs. Without permissions it reads its own folder, and has tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PluginPermissions {
    /// Further files and folders that it reads: absolute, or in the home folder as `~/…`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Folders that it writes: absolute, or in the home folder as `~/…`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// Hosts that it reaches, such as `api.example.com`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Whether it has models work, and delegates tasks: `ctx.invoker.invoke`, `ctx.tasks.delegate`.
    #[serde(skip_serializing_if = "is_false")]
    pub invoke: bool,
    /// Whether it changes arguments and results of calls: `rewriteCall`, and patches in `afterCall`.
    #[serde(skip_serializing_if = "is_false")]
    pub rewrite: bool,
    /// The hooks that it has.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub hooks: BTreeSet<Hook>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_false(value: &bool) -> bool {
    !value
}

impl PluginPermissions {
    /// Whether it needs nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// In words, one line for each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.read.iter().map(|path| format!("reads {}", shown_name(path))).collect();
        lines
            .extend(self.write.iter().map(|path| format!("reads and writes {}", shown_name(path))));
        lines.extend(self.hosts.iter().map(|host| format!("reaches {}", shown_name(host))));
        if self.invoke {
            lines.push("has models work and delegates tasks".to_owned());
        }
        if self.rewrite {
            lines.push("changes arguments and results of calls".to_owned());
        }
        lines.extend(self.hooks.iter().map(|hook| format!("has the hook {hook}")));
        lines
    }
}

impl PluginManifest {
    /// Reads the manifest of a plugin's folder, and checks it together with the file that it names.
    pub fn read(folder: &Path) -> Result<Self, Problems> {
        let shown = folder.display().to_string();
        let bytes = load(folder).map_err(|error| {
            whole(&shown, format!("it can't be read: {error}"), "write one; see docs/plugins.md")
        })?;
        Self::validate(&bytes, Some(folder), &shown)
    }

    /// Reads a manifest's text. The file that it names is not looked at.
    pub fn parse(bytes: &[u8]) -> Result<Self, Problems> {
        Self::validate(bytes, None, FILE)
    }

    fn validate(bytes: &[u8], folder: Option<&Path>, shown: &str) -> Result<Self, Problems> {
        if bytes.len() as u64 > MAX_BYTES {
            let message = format!("it is larger than {MAX_BYTES} bytes");
            return Err(whole(shown, message, "keep it small"));
        }
        let mut value = strict::parse(bytes).map_err(|error| {
            let hint = "check it with an editor that knows JSON";
            whole(shown, format!("not usable JSON: {error}"), hint)
        })?;
        if !value.is_object() {
            return Err(whole(shown, "it must be an object".to_owned(), "begin it with `{`"));
        }
        let name = value.get("name").and_then(Value::as_str).unwrap_or(shown).to_owned();
        let mut found = Found::default();
        for shape::Found { path, message, hint, .. } in
            shape::check(&SCHEMA, &ManifestVoice, &mut value, "")
        {
            found.push(Problem { tool: None, field: path, message, hint });
        }
        check(&value, folder, &mut found);
        found.finish(&name)?;
        serde_json::from_value(value)
            .map_err(|error| whole(&name, error.to_string(), "see docs/plugins.md"))
    }

    /// The plugin's name as the id of the source of its tools.
    #[must_use]
    pub fn id(&self) -> Option<SourceId> {
        SourceId::new(&self.name).ok()
    }
}

fn load(folder: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    drawgate_host::user_files::open(&folder.join(FILE))?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn whole(plugin: &str, message: String, hint: &str) -> Problems {
    let hint = Some(hint.to_owned());
    let problem = Problem { tool: None, field: FILE.to_owned(), message, hint };
    Problems { plugin: plugin.to_owned(), problems: vec![problem] }
}

/// What the schema can't say. Fields of the wrong form are gone from the value.
fn check(value: &Value, folder: Option<&Path>, found: &mut Found) {
    let text = |field: &str| value.get(field).and_then(Value::as_str);
    if let Some(Err(error)) = text("name").map(SourceId::new) {
        found.add("name", error.to_string(), "");
    }
    let legal = |version: &str| {
        (1..=MAX_VERSION).contains(&version.len()) && version.chars().all(|c| c.is_ascii_graphic())
    };
    if text("version").is_some_and(|version| !legal(version)) {
        let message = "it must be 1 to 64 visible ASCII characters";
        found.add("version", message, "write one such as `1.0.0`");
    }
    if let Some(main) = text("main") {
        check_main(main, text("runtime"), folder, found);
    }
    let permissions = value.get("permissions");
    let list = |field: &str| {
        let items = permissions.and_then(|all| all.get(field)).and_then(Value::as_array);
        items.into_iter().flatten().filter_map(Value::as_str).enumerate()
    };
    for field in ["read", "write"] {
        for (index, path) in list(field) {
            check_path(&format!("permissions.{field}[{index}]"), path, found);
        }
    }
    for (index, host) in list("hosts") {
        if let Err(error) = host.parse::<HostRule>() {
            found.add(&format!("permissions.hosts[{index}]"), error.to_string(), "");
        }
    }
    let rewrites = list("hooks").any(|(_, hook)| hook == "rewriteCall");
    let may = permissions.and_then(|all| all.get("rewrite")).and_then(Value::as_bool);
    if rewrites && may != Some(true) && !found.knows("permissions.rewrite") {
        let message = "the hook `rewriteCall` changes arguments";
        found.add("permissions.rewrite", message, "set it to true, or remove the hook");
    }
}

fn check_main(main: &str, runtime: Option<&str>, folder: Option<&Path>, found: &mut Found) {
    let path = Path::new(main);
    let inside =
        path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if main.is_empty() || main.contains('\0') || !inside {
        found.add("main", "it must be a path inside the plugin's folder", "such as `main.ts`");
        return;
    }
    let all = [Runtime::Node, Runtime::Python, Runtime::Exec];
    let runtime = all.into_iter().find(|known| runtime == Some(known.as_str()));
    let endings = runtime.map_or(&[][..], Runtime::endings);
    if !endings.is_empty() && !endings.iter().any(|ending| main.ends_with(ending)) {
        let message = format!("a file of this runtime ends with {}", shape::list(endings, "or"));
        found.add("main", message, "name another file, or change `runtime`");
        return;
    }
    let Some(folder) = folder else { return };
    let file = folder.join(path);
    let real = file.canonicalize().ok().zip(folder.canonicalize().ok());
    if !file.is_file() {
        let message = format!("there is no file `{}` in the folder", shown_name(main));
        found.add("main", message, "add it, or name another");
    } else if !real.is_some_and(|(file, folder)| file.starts_with(folder)) {
        found.add("main", "it leads out of the plugin's folder", "put the file into the folder");
    } else if runtime == Some(Runtime::Exec) && !is_executable(&file) {
        let hint = format!("run `chmod +x {}` in the folder", shown_name(main));
        found.add("main", "it is not executable", &hint);
    }
}

fn is_executable(file: &Path) -> bool {
    rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

fn check_path(field: &str, path: &str, found: &mut Found) {
    let rest = path.strip_prefix("~/").or_else(|| path.strip_prefix('/'));
    let plain = |rest: &str| {
        !rest.is_empty()
            && !rest.contains('\0')
            && Path::new(rest).components().all(|part| matches!(part, Component::Normal(_)))
    };
    if !rest.is_some_and(plain) {
        let message = format!("`{}` is not a path of this machine", shown_name(path));
        found.add(field, message, "write an absolute path, or one that begins with `~/`");
    }
}

static SCHEMA: LazyLock<Value> = LazyLock::new(generate);

/// The JSON Schema (draft 2020-12) of a manifest, for editors.
#[must_use]
pub fn schema() -> Value {
    SCHEMA.clone()
}

fn generate() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<PluginManifest>().to_value();
    tidy(&mut schema, Tidy { is_idle: |_| true, put_only: put_members });
    if let Value::Object(map) = &mut schema {
        map.insert("title".to_owned(), json!(FILE));
    }
    schema
}

fn put_members(map: &mut Map<String, Value>, only: Value) {
    if let Value::Object(only) = only {
        map.extend(only);
    }
}

struct ManifestVoice;

impl Voice for ManifestVoice {
    const OBJECT: &'static str = "an object";
    const MEMBERS: &'static str = "fields";
    const NULL: (&'static str, Option<&'static str>) =
        ("null", Some("leave it out if there is nothing to say"));
    const ELEMENTS: Elements = Elements::Leave;

    fn member(&self, path: &str, key: &str) -> String {
        let key = shown_name(key);
        if path.is_empty() { key } else { format!("{path}.{key}") }
    }

    fn element(&self, path: &str, index: usize) -> String {
        format!("{path}[{index}]")
    }

    fn shown(&self, word: &str) -> String {
        shown_name(word)
    }

    fn unknown(&self, _parent: &str, key: &str, _value: &Value) -> (String, Option<String>) {
        (format!("unknown field `{}`", shown_name(key)), None)
    }

    fn missing(&self, parent: &str, key: &str, what: Option<&str>) -> shape::Found {
        let hint = what.map(|text| format!("add it: {}", text.trim_end_matches('.')));
        let message = format!("`{key}` is missing");
        shape::Found { path: self.member(parent, key), spot: Spot::Key, message, hint }
    }
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
