//! Puts an entry into a client's file without losing anything else that is in it.

use anyhow::{Context as _, anyhow, bail};
use jsonc_parser::cst::CstObject;
use serde_json::Value;

use super::super::client_files::{Format, jsonc};
use super::client::Entry;

const BY_HAND: &str = "correct it, or add the entry by hand";
/// A JSON file with nothing in it.
const EMPTY: &str = "{}\n";

/// Keys that say how a server is reached. Of an entry that is there already these are replaced;
/// others, such as `timeout` or `trust`, are the user's and stay.
const REACH_KEYS: [&str; 8] =
    ["type", "command", "args", "url", "httpUrl", "serverUrl", "headers", "bearer_token_env_var"];

impl Entry {
    /// What a file with nothing else in it would hold.
    pub(super) fn snippet(&self) -> anyhow::Result<String> {
        self.merge("")
    }

    /// The whole new content of a file.
    pub(super) fn merge(&self, text: &str) -> anyhow::Result<String> {
        match self.format {
            Format::Json if text.trim().is_empty() => self.merge_json(EMPTY),
            // Comments stay above.
            Format::Json if jsonc::is_blank(text) => {
                self.merge_json(&format!("{}\n{EMPTY}", text.trim_end()))
            }
            Format::Json => self.merge_json(text),
            Format::Toml => self.merge_toml(text),
        }
    }

    fn merge_json(&self, text: &str) -> anyhow::Result<String> {
        jsonc::parse(text).map_err(|error| anyhow!("{error}; {BY_HAND}"))?;
        let document = jsonc::document(text)?;
        let root = document.object_value().ok_or_else(|| unexpected("the file", "an object"))?;
        if let Some(input) = &self.input {
            add_input(&root, input)?;
        }
        let servers = root
            .object_value_or_create(self.servers_key)
            .ok_or_else(|| unexpected(self.servers_key, "an object"))?;
        match servers.get(&self.name) {
            None => {
                let server = Value::Object(self.server.clone());
                servers.append(&self.name, jsonc::input(&server));
            }
            Some(present) => {
                let present =
                    present.object_value().ok_or_else(|| unexpected(&self.name, "an object"))?;
                self.replace(&present);
            }
        }
        Ok(document.to_string())
    }

    /// Makes a server that is there already this one.
    fn replace(&self, present: &CstObject) {
        for key in REACH_KEYS.iter().filter(|key| !self.server.contains_key(**key)) {
            if let Some(member) = present.get(key) {
                member.remove();
            }
        }
        for (at, (key, value)) in self.server.iter().enumerate() {
            match present.get(key) {
                None => {
                    present.insert(at, key, jsonc::input(value));
                }
                Some(member) if member.to_serde_value().as_ref() != Some(value) => {
                    member.set_value(jsonc::input(value));
                }
                Some(_) => {}
            }
        }
    }

    /// Appends a table. Editing one that is there could lose what the user has set in it.
    fn merge_toml(&self, text: &str) -> anyhow::Result<String> {
        let before = Format::Toml.parse(text).map_err(|error| anyhow!("{error}; {BY_HAND}"))?;
        let path = format!("{}.{}", self.servers_key, self.name);
        let servers = before.get(self.servers_key);
        if let Some(present) = servers.and_then(|servers| servers.get(&self.name)) {
            if present.as_object() != Some(&self.server) {
                bail!(
                    "the file has [{path}] already, with other content; remove it by `drawgate \
                     disconnect`, or change that table by hand"
                );
            }
            return Ok(text.to_owned());
        }
        let gap = match text {
            "" => "",
            text if text.ends_with('\n') => "\n",
            _ => "\n\n",
        };
        let content = toml::to_string(&self.server).context("the entry is not TOML")?;
        let merged = format!("{text}{gap}[{path}]\n{content}");
        // `mcp_servers = { … }` can't be extended by a table below it.
        if Format::Toml.parse(&merged).is_err() {
            return Err(unexpected(self.servers_key, "written as tables"));
        }
        Ok(merged)
    }
}

fn add_input(root: &CstObject, input: &Value) -> anyhow::Result<()> {
    let inputs =
        root.array_value_or_create("inputs").ok_or_else(|| unexpected("inputs", "an array"))?;
    let present = inputs.elements().into_iter().filter_map(|it| it.to_serde_value());
    if !present.into_iter().any(|present| present.get("id") == input.get("id")) {
        inputs.ensure_multiline();
        inputs.append(jsonc::input(input));
    }
    Ok(())
}

fn unexpected(key: &str, expected: &str) -> anyhow::Error {
    anyhow!("`{key}` is not {expected}; correct it by hand and run the command again")
}
