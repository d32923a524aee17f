//! One registered tool: the author's definition under the operator's terms.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::demands::{ServerAnnotations, ServerDemands};
use super::offered::{self, Offered};
use super::schema::{CompiledSchema, normalised};
use super::{Audience, Snapshot, Trust, names, visible};
use crate::canonical;
use crate::fair::FairSlots;
use crate::model::{
    Capability, Concurrency, IdError, Lineage, McpManifest, McpToolSpec, Operation, SourceId,
    ToolAnnotations, ToolId, ToolRegistryEntry, WireName, shape, shown_name,
};
use crate::source::ToolSource;

/// Longest description that is passed to a model.
const MAX_DESCRIPTION: usize = 16 * 1024;
const OUTPUT_SCHEMA: &str = "outputSchema";

/// How a source's tools are named towards models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// The author's own names.
    Flat,
    /// `source__tool`.
    Qualified,
}

/// Who wrote the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// An author whose manifest is accepted whole or not at all.
    Declared,
    /// A program that came by itself: whole or not at all too, but nobody here wrote it, so that what it
    /// says may tighten and never loosen.
    Admitted,
    /// A running server that was asked; its bad tools are left out and reported.
    Discovered,
}

impl Origin {
    /// What becomes of definitions that nobody has accepted, by terms and by who wrote them.
    pub(super) const fn trust_under(self, terms: &SourceTerms) -> Trust {
        match self {
            // What an author declared in the configuration, the operator has accepted with it; what comes
            // by itself has proved who it is.
            Self::Declared | Self::Admitted => Trust::Follow,
            Self::Discovered => terms.trust,
        }
    }
}

/// Who decides whether arguments fit a tool's schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Validation {
    /// The gate: what does not fit reaches no source.
    #[default]
    Gate,
    /// The source, which may take more than its schema says.
    Source,
}

/// Bounds of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The tool's time.
    pub timeout: Duration,
    /// Bytes of text that are returned; more is spooled.
    pub max_output_bytes: usize,
    /// Lines of text that are returned.
    pub max_output_lines: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // As long as most clients wait.
            timeout: Duration::from_mins(1),
            max_output_bytes: 1024 * 1024,
            max_output_lines: usize::MAX,
        }
    }
}

/// The operator's terms for one tool; what is absent comes from the source's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolTerms {
    /// Not offered at all.
    pub disabled: bool,
    /// What a caller needs, instead of the source's; `public` for nothing.
    pub capabilities: Option<Vec<Capability>>,
    /// A person must confirm.
    pub requires_confirmation: Option<bool>,
    /// The policy action.
    pub policy_action: Option<String>,
    /// May be called again without harm.
    pub idempotent: bool,
    /// Another description.
    pub description: Option<String>,
    /// Its own time.
    pub timeout: Option<Duration>,
    /// Its own byte cap.
    pub max_output_bytes: Option<usize>,
    /// Its own line cap.
    pub max_output_lines: Option<usize>,
    /// Whom it is for.
    pub audience: Option<Audience>,
    /// The operator's own definition, which holds over that of a running server.
    pub declared: Option<McpToolSpec>,
}

impl ToolTerms {
    /// The terms with what the operator's own definition demands, for a tool of a source with these terms.
    pub(super) fn in_full(&self, source: &SourceTerms) -> Self {
        let mut full = self.clone();
        let said = self.declared.as_ref().and_then(McpToolSpec::own_annotations);
        let Some(said) = said else { return full };
        let scopes = said.required_scopes.iter().flatten().filter(|scope| !scope.is_public());
        let scopes: Vec<Capability> = scopes.cloned().collect();
        if !scopes.is_empty() {
            full.capabilities.get_or_insert_with(|| source.capabilities.clone()).extend(scopes);
        }
        if said.requires_confirmation == Some(true) {
            full.requires_confirmation = Some(true);
        }
        full.policy_action = full.policy_action.or_else(|| said.policy_action.clone());
        full
    }
}

/// The operator's terms for a source.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceTerms {
    /// How tools are named.
    pub naming: Naming,
    /// What a caller needs for all of its tools; `public` for nothing. Without any, tools that are not
    /// restricted otherwise require [the use of the source](Capability::of_source).
    pub capabilities: Vec<Capability>,
    /// Bounds of its calls.
    pub limits: Limits,
    /// How many of its calls run at once.
    pub concurrency: usize,
    /// Terms of single tools, by the source's own names, and of operations beside tools, by theirs with
    /// `@` in front.
    pub tools: BTreeMap<String, ToolTerms>,
    /// Policy actions that are known.
    pub actions: BTreeSet<String>,
    /// A tool without policy action is refused.
    pub require_action: bool,
    /// What becomes of definitions that nobody has accepted.
    pub trust: Trust,
    /// Who decides whether arguments fit.
    pub validation: Validation,
    /// What becomes of the annotations that a running server sends.
    pub annotations: ServerAnnotations,
    /// What the operator configured it to be: with another one, it is another server.
    pub identity: String,
    /// Whom its tools are for.
    pub audience: Audience,
}

impl Default for SourceTerms {
    fn default() -> Self {
        Self {
            naming: Naming::Qualified,
            capabilities: Vec::new(),
            limits: Limits::default(),
            concurrency: 64,
            tools: BTreeMap::new(),
            actions: crate::policy::KNOWN_ACTIONS
                .iter()
                .map(|action| (*action).to_owned())
                .collect(),
            require_action: false,
            trust: Trust::Pin,
            validation: Validation::Gate,
            annotations: ServerAnnotations::Tighten,
            identity: String::new(),
            audience: Audience::Everyone,
        }
    }
}

/// A source and its tools, on their way into the registry.
pub struct Registration {
    /// The description.
    pub manifest: McpManifest,
    /// The operator's terms.
    pub terms: SourceTerms,
    /// Who wrote the manifest.
    pub origin: Origin,
    /// Who performs the calls.
    pub source: Arc<dyn ToolSource>,
}

/// A tool that can't be registered, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[error("tool `{}` of `{source_id}`: {reason}", crate::model::shown_name(.tool))]
pub struct BadTool {
    /// The source.
    pub source_id: SourceId,
    /// The author's name for the tool.
    pub tool: String,
    /// What is wrong.
    pub reason: String,
}

/// One registered tool.
pub struct Entry {
    /// `source:tool`.
    pub id: ToolId,
    /// What it stands for.
    pub operation: Operation,
    /// What models see.
    pub wire: WireName,
    /// The author's definition.
    pub spec: McpToolSpec,
    /// Whom it is for.
    pub audience: Audience,
    /// What a caller needs, in order, each once.
    pub requires: Vec<Capability>,
    /// The policy action.
    pub action: Option<String>,
    /// The policy action that a running program claims, which may tighten and never loosen.
    pub claimed: Option<String>,
    /// A person must confirm each call.
    pub confirm: bool,
    /// What its server's own annotations demand, which the above has if it counts.
    pub demands: Option<ServerDemands>,
    /// May be called again without harm.
    pub idempotent: bool,
    /// Bounds of a call.
    pub limits: Limits,
    /// SHA-256 of the definition.
    pub definition: String,
    /// The definition as clients list it, under its wire name.
    pub listing: Value,
    pub(crate) arguments: CompiledSchema,
    pub(crate) validation: Validation,
    pub(crate) output: Option<CompiledSchema>,
    pub(crate) source: Arc<dyn ToolSource>,
    /// Slots of the source's calls, shared by its tools, and how many there are.
    pub(crate) slots: Arc<FairSlots>,
    pub(super) concurrency: usize,
    /// The one slot of a tool whose calls must not overlap.
    pub(crate) exclusive: Option<Arc<FairSlots>>,
    pub(crate) meter: crate::pipeline::Meter,
}

impl Entry {
    /// The source's own name for it.
    #[must_use]
    pub fn own_name(&self) -> &str {
        match self.operation {
            Operation::CallTool => &self.spec.name,
            Operation::ReadResource
            | Operation::Subscribe
            | Operation::Unsubscribe
            | Operation::GetPrompt
            | Operation::Complete
            | Operation::SetLogLevel => self.id.tool(),
        }
    }

    /// Whether it is meant for a caller at all, whatever the caller holds: `lineage` is the run that
    /// calls.
    #[must_use]
    pub(crate) fn is_for(&self, lineage: Option<&Lineage>) -> bool {
        self.audience.includes(lineage) && lineage.is_none_or(|run| run.bounds.tools.admits(self))
    }

    /// Whether its definition says that it changes nothing.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        let annotations = self.listing.get("annotations");
        let says =
            |name: &str| annotations.and_then(|all| all.get(name)) == Some(&Value::Bool(true));
        says("readOnly") || says("readOnlyHint")
    }

    /// Whether its calls spend their time waiting for other runs.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.source.waits(self.own_name())
    }

    /// As a list for programs shows it.
    #[must_use]
    pub fn describe(&self) -> ToolRegistryEntry {
        ToolRegistryEntry {
            tool_id: self.id.clone(),
            server_id: self.id.source().clone(),
            wire_name: self.wire.clone(),
            requires: self.requires.clone(),
            tool: self.spec.clone(),
        }
    }

    /// Takes over the slots of an earlier registration: calls that run on it count for this one too.
    pub(super) fn inherit(&mut self, before: &Snapshot, source: &SourceId) {
        if let Some(sibling) = before.any_of(source)
            && sibling.concurrency == self.concurrency
        {
            self.slots = Arc::clone(&sibling.slots);
        }
        if let (Some(own), Some(earlier)) = (&mut self.exclusive, before.get(&self.id))
            && let Some(slot) = &earlier.exclusive
        {
            *own = Arc::clone(slot);
        }
    }

    pub(super) fn same_as(&self, other: &Self) -> bool {
        self.id == other.id
            && self.wire == other.wire
            && self.audience == other.audience
            && self.definition == other.definition
            && self.requires == other.requires
            && self.listing == other.listing
            && self.confirm == other.confirm
            && self.demands == other.demands
            && self.action == other.action
            && self.claimed == other.claimed
    }
}

/// SHA-256 over everything in a definition that a caller or a person may rely upon.
#[must_use]
pub fn definition_hash(source: &SourceId, spec: &McpToolSpec) -> String {
    let mut parts = Map::new();
    parts.insert("source".to_owned(), source.as_str().into());
    parts.insert("tool".to_owned(), serde_json::to_value(spec).unwrap_or_default());
    canonical::hash(&Value::Object(parts))
}

/// Turns a manifest into entries, and the tools that can't be ones into faults.
pub(super) fn build(registration: Registration) -> (Vec<Entry>, Offered, Vec<BadTool>) {
    let Registration { manifest, terms, origin, source } = registration;
    let slots = FairSlots::new(terms.concurrency);
    let mut specs = manifest.tools;
    specs.sort_by(|a, b| a.name.cmp(&b.name));
    let mut entries: Vec<Entry> = Vec::with_capacity(specs.len());
    let mut bad = not_offered(&manifest.server_id, &terms, &specs);
    let mut seen = BTreeMap::new();
    for mut spec in specs {
        let own = terms.tools.get(&spec.name).map(|own| own.in_full(&terms));
        let mut own = own.unwrap_or_default();
        if own.disabled {
            continue;
        }
        if let Some(declared) = own.declared.take() {
            if terms.annotations == ServerAnnotations::Ignore {
                spec.annotations = None;
            }
            spec = spec.held_to(declared);
        }
        let name = spec.name.clone();
        let part = Part {
            id: &manifest.server_id,
            terms: &terms,
            own,
            origin,
            source: &source,
            slots: &slots,
            taken: &seen,
        };
        match part.entry(spec) {
            Ok(entry) => match seen.insert(names::skeleton(entry.wire.as_str()), name.clone()) {
                None => entries.push(entry),
                Some(twin) => {
                    let reason = format!("its name clashes with `{}`", shown_name(&twin));
                    bad.push(fault(&manifest.server_id, name, reason));
                }
            },
            Err(reason) => bad.push(fault(&manifest.server_id, name, reason)),
        }
    }
    let offered =
        offered::build(&manifest.server_id, &terms, manifest.offer, origin, &source, &slots);
    (entries, offered, bad)
}

/// The operator's own definitions of tools that the source does not have. `specs` are in the order of their names.
fn not_offered(id: &SourceId, terms: &SourceTerms, specs: &[McpToolSpec]) -> Vec<BadTool> {
    let declared = terms.tools.iter().filter(|(_, own)| own.declared.is_some() && !own.disabled);
    let missing = declared.filter(|(name, _)| {
        specs.binary_search_by(|spec| spec.name.as_str().cmp(name.as_str())).is_err()
    });
    let reason = "its `manifest` has it, and the server does not offer it, or it waits for review";
    missing.map(|(name, _)| fault(id, name.clone(), reason.to_owned())).collect()
}

fn fault(source_id: &SourceId, tool: String, reason: String) -> BadTool {
    BadTool { source_id: source_id.clone(), tool, reason }
}

/// What an entry is made from, beside its definition.
pub(super) struct Part<'a> {
    pub(super) id: &'a SourceId,
    pub(super) terms: &'a SourceTerms,
    pub(super) own: ToolTerms,
    pub(super) origin: Origin,
    pub(super) source: &'a Arc<dyn ToolSource>,
    pub(super) slots: &'a Arc<FairSlots>,
    /// Skeletons of wire names that the source's other tools have.
    pub(super) taken: &'a BTreeMap<String, String>,
}

impl Part<'_> {
    pub(super) fn entry(self, spec: McpToolSpec) -> Result<Entry, String> {
        let (id, wire) = self.names(&spec.name).map_err(|error| error.to_string())?;
        self.check_declared(&spec)?;
        let arguments = CompiledSchema::for_arguments(&spec.input_schema)
            .map_err(|error| format!("`inputSchema`: {error}"))?;
        let output = self.output(&spec)?;
        let demands = ServerDemands::of(&spec, self.terms);
        let annotations = match &demands {
            Some(demands) => demands.annotations(),
            None => spec.own_annotations().cloned().unwrap_or_default(),
        };
        let (action, claimed) = self.action(annotations.policy_action.as_deref())?;
        let exclusive = annotations.concurrency == Some(Concurrency::Exclusive);
        let limits = &self.terms.limits;
        let described = self.own.description.as_deref();
        let listing = self.fitted(listing(&spec, &wire, described, output.is_some())?)?;
        Ok(Entry {
            requires: self.requires(
                annotations.required_scopes,
                action.as_deref(),
                claimed.as_deref(),
            ),
            confirm: self.own.requires_confirmation == Some(true)
                || annotations.requires_confirmation == Some(true),
            idempotent: self.own.idempotent,
            audience: self.own.audience.unwrap_or_else(|| self.terms.audience.clone()),
            limits: Limits {
                timeout: self.own.timeout.unwrap_or(limits.timeout),
                max_output_bytes: self.own.max_output_bytes.unwrap_or(limits.max_output_bytes),
                max_output_lines: self.own.max_output_lines.unwrap_or(limits.max_output_lines),
            },
            definition: definition_hash(self.id, &spec),
            listing,
            meter: crate::pipeline::Meter::new(&id),
            operation: Operation::CallTool,
            demands,
            action,
            claimed,
            id,
            wire,
            spec,
            arguments,
            validation: self.terms.validation,
            output,
            source: Arc::clone(self.source),
            slots: Arc::clone(self.slots),
            concurrency: self.terms.concurrency,
            exclusive: exclusive.then(|| FairSlots::new(1)),
        })
    }

    /// Identity and wire name. An author's names must be legal; those of a running server are made so.
    fn names(&self, name: &str) -> Result<(ToolId, WireName), IdError> {
        let id = match self.origin {
            Origin::Declared | Origin::Admitted => ToolId::new(self.id, name)?,
            Origin::Discovered => ToolId::of_any(self.id, name),
        };
        let wire = match self.terms.naming {
            Naming::Flat => names::flat(&id, name)?,
            Naming::Qualified => names::qualified(&id, name)?,
        };
        // The same name twice is one tool that is listed twice.
        let holder = self.taken.get(&names::skeleton(wire.as_str()));
        let is_taken = holder.is_some_and(|holder| holder != name);
        let wire = match self.origin {
            Origin::Discovered if is_taken => names::hashed(&id, wire.as_str())?,
            Origin::Declared | Origin::Admitted | Origin::Discovered => wire,
        };
        Ok((id, wire))
    }

    /// A definition whose members have the types that clients expect. A running server's others are left out; an
    /// author is told.
    fn fitted(&self, mut listing: Value) -> Result<Value, String> {
        let unfit = match self.origin {
            Origin::Discovered => shape::fit(shape::TOOL, &mut listing).err(),
            Origin::Declared | Origin::Admitted => match shape::misfits(shape::TOOL, &listing) {
                Ok(misfits) => misfits.into_iter().next(),
                Err(unfit) => Some(unfit),
            },
        };
        unfit.map_or(Ok(listing), |misfit| Err(misfit.to_string()))
    }

    /// The schema of its results. A running server's that can't be used is left out: the tool is worth more.
    fn output(&self, spec: &McpToolSpec) -> Result<Option<CompiledSchema>, String> {
        let Some(schema) = spec.rest.get(OUTPUT_SCHEMA) else { return Ok(None) };
        match (CompiledSchema::for_output(schema), self.origin) {
            (Ok(compiled), _) => Ok(Some(compiled)),
            (Err(error), Origin::Discovered) => {
                let (source, tool) = (self.id, spec.name.escape_debug());
                tracing::warn!(%source, %tool, %error, "an output schema can't be used and is left out");
                Ok(None)
            }
            (Err(error), Origin::Declared | Origin::Admitted) => {
                Err(format!("`{OUTPUT_SCHEMA}`: {error}"))
            }
        }
    }

    /// What a declared manifest must have; of a running server it would be too much to ask.
    fn check_declared(&self, spec: &McpToolSpec) -> Result<(), String> {
        if spec.description.len() > MAX_DESCRIPTION {
            return Err(format!("`description` is longer than {MAX_DESCRIPTION} bytes"));
        }
        if self.origin == Origin::Discovered {
            return Ok(());
        }
        if spec.description.trim().is_empty() {
            return Err("`description` is missing".to_owned());
        }
        match spec.own_annotations().and_then(ToolAnnotations::unknown) {
            Some(key) => Err(format!("annotation `{}` is not supported", key.escape_debug())),
            None => Ok(()),
        }
    }

    /// The action in force, and the one that is merely claimed: the operator's word counts, then an
    /// author's in a manifest that was declared. What is said must at least be known.
    fn action(&self, said: Option<&str>) -> Result<(Option<String>, Option<String>), String> {
        let own = self.own.policy_action.as_deref();
        let unknown =
            own.into_iter().chain(said).find(|action| !self.terms.actions.contains(*action));
        if let Some(action) = unknown {
            return Err(format!(
                "`annotations.policyAction` is `{}`, which is not known; add it to `policy.actions`",
                action.escape_debug()
            ));
        }
        if own.or(said).is_none() && self.terms.require_action {
            return Err(
                "`annotations.policyAction` is missing, and `require_policy_action` is set"
                    .to_owned(),
            );
        }
        let said = said.map(str::to_owned);
        Ok(match (own, self.origin) {
            (Some(own), _) => (Some(own.to_owned()), said),
            (None, Origin::Declared) => (said, None),
            (None, Origin::Admitted | Origin::Discovered) => (None, said),
        })
    }

    /// What a caller must hold: what the operator wrote, the author's scopes, and the actions. Where
    /// none of these restricts the tool, it requires [the use of its source](Capability::of_source),
    /// unless the operator wrote `public`. What a running server says restricts it further, but does not
    /// open it: it could name what many callers hold.
    fn requires(
        &self,
        scopes: Option<Vec<Capability>>,
        action: Option<&str>,
        claimed: Option<&str>,
    ) -> Vec<Capability> {
        let parsed = |action: &str| Capability::new(action).ok();
        let own = self.own.capabilities.as_ref().unwrap_or(&self.terms.capabilities);
        let said = scopes.into_iter().flatten().chain(claimed.and_then(parsed));
        let said: BTreeSet<Capability> = said.filter(|scope| !scope.is_public()).collect();
        let operators = own.iter().cloned().chain(action.and_then(parsed));
        let mut all: BTreeSet<Capability> = operators.collect();
        let is_restricted =
            !all.is_empty() || (self.origin != Origin::Discovered && !said.is_empty());
        if !is_restricted {
            all.insert(Capability::of_source(self.id));
        }
        all.retain(|capability| !capability.is_public());
        all.extend(said);
        all.into_iter().collect()
    }
}

fn listing(
    spec: &McpToolSpec,
    wire: &WireName,
    description: Option<&str>,
    has_output: bool,
) -> Result<Value, String> {
    let mut copy = spec.clone();
    wire.as_str().clone_into(&mut copy.name);
    description.unwrap_or(&spec.description).clone_into(&mut copy.description);
    copy.input_schema = normalised(&spec.input_schema);
    if !has_output {
        copy.rest.shift_remove(OUTPUT_SCHEMA);
    }
    let mut value = serde_json::to_value(copy).unwrap_or_default();
    if let Value::Object(map) = &mut value
        && spec.description.is_empty()
        && description.is_none()
    {
        map.remove("description");
    }
    // The gateway makes tasks itself where a server wants them; no client has to.
    if let Value::Object(map) = &mut value
        && let Some(Value::Object(execution)) = map.get_mut("execution")
        && execution.get("taskSupport").is_some_and(|support| support != "forbidden")
    {
        execution.shift_remove("taskSupport");
        if execution.is_empty() {
            map.shift_remove("execution");
        }
    }
    visible::show_all(&mut value)?;
    Ok(value)
}
