//! A pack's manifest, as the gate registers it. Every fault is named, so that an author sees them all
//! at once; the registry then adds its own.

use std::collections::BTreeMap;
use std::time::Duration;

use drawgate_core::json;
use drawgate_core::model::{
    Annotations, Capability, McpManifest, McpToolSpec, Offer, SourceId, ToolAnnotations, shown_name,
};
use drawgate_core::registry::{BadTool, Naming, SourceTerms, ToolTerms};
use drawgate_sdk::proto::{PackFeature, PackManifest, ToolDefinition};
use serde_json::{Map, Value};

/// Calls of a pack at once, where it does not say how many.
pub const MAX_CALLS: usize = 64;
/// Tools of one pack.
const MAX_TOOLS: usize = 2048;
/// A tool may take a day; the gateway's own limit is far shorter, unless the operator says otherwise.
const LONGEST_SECONDS: u64 = 24 * 60 * 60;
/// Characters of a version.
const MAX_VERSION: usize = 64;

/// What a pack understands beyond calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Features {
    /// That a call is withdrawn.
    pub cancel: bool,
    /// Heartbeats.
    pub heartbeat: bool,
    /// That the gateway stops.
    pub shutdown: bool,
}

impl Features {
    /// Unknown ones are for gateways to come.
    fn of(manifest: &PackManifest) -> Self {
        let mut features = Self::default();
        for feature in manifest.features() {
            match feature {
                PackFeature::Cancel => features.cancel = true,
                PackFeature::Heartbeat => features.heartbeat = true,
                PackFeature::Shutdown => features.shutdown = true,
                PackFeature::Unspecified => {}
            }
        }
        features
    }
}

/// What the operator allows a pack.
pub struct PackTerms<'a> {
    /// The gateway's own terms, for what the pack does not say.
    pub base: SourceTerms,
    /// Which names it may offer.
    pub may_offer: &'a dyn Fn(&str) -> bool,
    /// What a caller needs for each of its tools, beside what the manifest says.
    pub capabilities: &'a [Capability],
    /// Calls at once, at most.
    pub max_calls: usize,
}

/// A manifest that has been read, good or not.
#[derive(Debug)]
pub struct ReadManifest {
    /// The manifest; what could not be read in it is replaced, so that the registry can judge the rest.
    pub manifest: McpManifest,
    /// Its terms.
    pub terms: SourceTerms,
    /// What the pack understands.
    pub features: Features,
    /// What is wrong. With any, it must not be registered.
    pub faults: Vec<BadTool>,
}

/// Reads the manifest of the pack `id`.
#[must_use]
pub fn read_manifest(id: &SourceId, pack: PackManifest, terms: PackTerms<'_>) -> ReadManifest {
    let features = Features::of(&pack);
    let concurrency = match usize::try_from(pack.max_concurrent_calls) {
        Ok(0) => MAX_CALLS,
        Ok(calls) => calls,
        Err(_) => usize::MAX,
    };
    let mut reader = Reader { id, terms: &terms, faults: Vec::new(), tools: BTreeMap::new() };
    if pack.tools.len() > MAX_TOOLS {
        reader.fault("*", format!("there are {}; offer at most {MAX_TOOLS}", pack.tools.len()));
    }
    let specs = pack.tools.into_iter().take(MAX_TOOLS).map(|tool| reader.tool(tool)).collect();
    let Reader { faults, tools, .. } = reader;
    ReadManifest {
        manifest: McpManifest {
            server_id: id.clone(),
            name: id.to_string(),
            version: pack.version.chars().filter(|c| !c.is_control()).take(MAX_VERSION).collect(),
            description: None,
            tools: specs,
            offer: Offer::default(),
        },
        features,
        terms: SourceTerms {
            naming: Naming::Flat,
            capabilities: terms.capabilities.to_vec(),
            concurrency: concurrency.min(terms.max_calls).max(1),
            tools,
            ..terms.base
        },
        faults,
    }
}

struct Reader<'a> {
    id: &'a SourceId,
    terms: &'a PackTerms<'a>,
    faults: Vec<BadTool>,
    tools: BTreeMap<String, ToolTerms>,
}

impl Reader<'_> {
    fn fault(&mut self, tool: &str, reason: String) {
        self.faults.push(BadTool { source_id: self.id.clone(), tool: tool.to_owned(), reason });
    }

    fn tool(&mut self, tool: ToolDefinition) -> McpToolSpec {
        let name = tool.name;
        if !(self.terms.may_offer)(&name) {
            let reason = "its key may not offer this name; see `tools=` in the authorised keys";
            self.fault(&name, reason.to_owned());
        }
        let timeout = self.timeout(&name, tool.timeout_seconds);
        self.tools.insert(name.clone(), ToolTerms { timeout, ..ToolTerms::default() });
        let schema = self.json(&name, "input_schema_json", &tool.input_schema_json);
        let mut rest = Map::new();
        if !tool.title.is_empty() {
            rest.insert("title".to_owned(), Value::String(tool.title));
        }
        if !tool.output_schema_json.is_empty()
            && let Some(schema) = self.json(&name, "output_schema_json", &tool.output_schema_json)
        {
            rest.insert("outputSchema".to_owned(), schema);
        }
        let scopes = self.capabilities(&name, &tool.required_capabilities);
        McpToolSpec {
            description: match tool.description.trim() {
                "" => format!("Tool `{}` of pack `{}`.", shown_name(&name), self.id),
                _ => tool.description,
            },
            input_schema: schema.unwrap_or_else(any_object),
            annotations: self
                .annotations(&name, &tool.annotations_json, scopes)
                .map(Annotations::Own),
            metadata: None,
            rest,
            name,
        }
    }

    fn timeout(&mut self, name: &str, seconds: i32) -> Option<Duration> {
        match u64::try_from(seconds) {
            Ok(0) => None,
            Ok(seconds @ 1..=LONGEST_SECONDS) => Some(Duration::from_secs(seconds)),
            Ok(_) | Err(_) => {
                let reason = format!(
                    "`timeout_seconds` is {seconds}; use 1 to {LONGEST_SECONDS}, or 0 for the gateway's default"
                );
                self.fault(name, reason);
                None
            }
        }
    }

    fn json(&mut self, name: &str, field: &str, text: &str) -> Option<Value> {
        match json::parse(text.as_bytes()) {
            Ok(value) => Some(value),
            Err(error) => {
                let reason = match text {
                    "" => format!("`{field}` is missing"),
                    _ => format!("`{field}` is not JSON: {error}"),
                };
                self.fault(name, reason);
                None
            }
        }
    }

    fn capabilities(&mut self, name: &str, wanted: &[String]) -> Vec<Capability> {
        let mut good = Vec::with_capacity(wanted.len());
        for text in wanted {
            match Capability::new(text) {
                Ok(capability) => good.push(capability),
                Err(error) => self.fault(name, format!("`required_capabilities`: {error}")),
            }
        }
        good
    }

    fn annotations(
        &mut self,
        name: &str,
        text: &str,
        mut scopes: Vec<Capability>,
    ) -> Option<ToolAnnotations> {
        let mut annotations = self.own_annotations(name, text).unwrap_or_default();
        scopes.extend(annotations.required_scopes.take().into_iter().flatten());
        if !scopes.is_empty() {
            annotations.required_scopes = Some(scopes);
        }
        (annotations != ToolAnnotations::default()).then_some(annotations)
    }

    fn own_annotations(&mut self, name: &str, text: &str) -> Option<ToolAnnotations> {
        if text.is_empty() {
            return None;
        }
        let value = self.json(name, "annotations_json", text)?;
        match serde_json::from_value(value) {
            Ok(annotations) => Some(annotations),
            Err(error) => {
                self.fault(name, format!("`annotations_json`: {error}"));
                None
            }
        }
    }
}

fn any_object() -> Value {
    serde_json::json!({ "type": "object" })
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
