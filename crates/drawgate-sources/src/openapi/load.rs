//! From settings to tools: fetches the document, chooses operations, plans each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;
use drawgate_core::model::{McpManifest, McpToolSpec, Offer, SourceId};
use drawgate_core::source::SourceError;
use drawgate_host::Host;
use drawgate_host::egress::{Fetch, Reach};
use http::{HeaderMap, header};
use url::Url;

use super::auth::{Guards, Scheme};
use super::config::{Settings, Spec};
use super::document::{Document, DocumentError, MAX_DOCUMENT, reference};
use super::parameter::{Place, PlanError, Provided, folded};
use super::plan::{Plan, Setting};
use super::select::Operations;
use crate::failed_request::source_error;

/// How long a document may take to come.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);

/// How long planning may take; the largest public documents need a second.
const MAX_PLANNING: Duration = Duration::from_secs(30);
/// Bytes of all schemas together; Kubernetes has 5 MB.
const MAX_SCHEMAS: usize = 64 * 1024 * 1024;

/// All that calls need; the document itself is gone by then.
pub(super) struct Loaded {
    pub(super) manifest: McpManifest,
    pub(super) plans: BTreeMap<String, Plan>,
    pub(super) guards: Guards,
    /// What the connector sets by itself.
    pub(super) provided: Provided,
    pub(super) reach: Reach,
    /// Operations that can't be offered, and why.
    pub(super) left_out: Vec<(String, String)>,
}

/// The bytes of the document. Those of a file are read together with what follows, off the runtime.
pub(super) async fn fetch(host: &Host, settings: &Settings) -> Result<Option<Bytes>, SourceError> {
    let Spec::Address(url) = &settings.spec else { return Ok(None) };
    let deadline = Instant::now() + FETCH_TIMEOUT;
    let mut fetch = Fetch::get(url.clone(), settings.reach(&[]), deadline, MAX_DOCUMENT);
    fetch.headers = HeaderMap::from_iter([(
        header::ACCEPT,
        http::HeaderValue::from_static("application/json, application/yaml;q=0.9, */*;q=0.8"),
    )]);
    let answer = host.egress.fetch(fetch).await.map_err(|error| source_error(&error))?;
    if answer.status.is_success() {
        return Ok(Some(answer.body));
    }
    Err(SourceError::unreachable(format!(
        "the OpenAPI document can't be fetched: `spec_url` answered with HTTP {}",
        answer.status.as_u16()
    )))
}

/// Parses and plans. Takes up to seconds for the largest documents, so it runs on a thread of its own.
pub(super) fn load(
    id: &SourceId,
    settings: &Settings,
    host: &Host,
    fetched: Option<&[u8]>,
) -> Result<Loaded, SourceError> {
    let document = read(settings, fetched).map_err(broken)?;
    let origins = settings.origins();
    let (auth, headers) = (&settings.auth, &settings.headers);
    let guards = Guards::of(&document, auth, headers, &origins, &host.secrets).map_err(broken)?;
    let provided = provided(&document, settings);
    let setting = Setting { origins: &origins, provided: &provided };
    let planned = plan(&document, &settings.operations, &setting)?;
    let (title, version) = document.title();
    let manifest = McpManifest {
        server_id: id.clone(),
        name: title.map_or_else(|| id.to_string(), |title| title.chars().take(200).collect()),
        version: version.unwrap_or_default().chars().take(100).collect(),
        description: None,
        tools: planned.tools,
        offer: Offer::default(),
    };
    let servers: BTreeSet<&Url> = planned.plans.values().map(|plan| &plan.server).collect();
    let mut reachable: Vec<Url> = servers.into_iter().cloned().collect();
    reachable.extend(guards.token_addresses().cloned());
    let reach = settings.reach(&reachable);
    let Planned { plans, left_out, .. } = planned;
    Ok(Loaded { manifest, plans, guards, provided, reach, left_out })
}

fn read(settings: &Settings, fetched: Option<&[u8]>) -> Result<Document, DocumentError> {
    match (&settings.spec, fetched) {
        (Spec::Address(_), bytes) => Document::parse(bytes.unwrap_or_default()),
        (Spec::File(path), _) => Document::read(path),
    }
}

#[derive(Default)]
struct Planned {
    tools: Vec<McpToolSpec>,
    plans: BTreeMap<String, Plan>,
    left_out: Vec<(String, String)>,
}

const TOO_MUCH: &str =
    "the OpenAPI document describes too much for one connector; choose operations with `include`";

/// A fault in one operation of many leaves that one out; in one that was asked for by name, and
/// where it is the same for all, it is an error.
fn plan(
    document: &Document,
    operations: &Operations,
    setting: &Setting<'_>,
) -> Result<Planned, SourceError> {
    let mut planned = Planned::default();
    let mut first = None;
    let mut faults = Vec::new();
    let mut size = 0;
    let start = Instant::now();
    for (name, operation) in document.select(operations).map_err(broken)? {
        match document.plan(operation, &name, setting) {
            Ok((tool, plan)) => {
                size += tool.input_schema.to_string().len();
                if size > MAX_SCHEMAS || start.elapsed() > MAX_PLANNING {
                    return Err(broken(TOO_MUCH));
                }
                planned.tools.push(tool);
                planned.plans.insert(name, plan);
            }
            Err(error) if matches!(operations, Operations::Listed(_)) => {
                faults.push(format!("operation `{}`: {error}", operation.id));
            }
            Err(error) => {
                planned.left_out.push((operation.id.clone(), error.to_string()));
                first.get_or_insert(error);
            }
        }
    }
    if !faults.is_empty() {
        return Err(broken(faults.join("; ")));
    }
    if let Operations::Listed(listed) = operations {
        for (tool, one) in planned.tools.iter_mut().zip(listed) {
            if let Some(description) = &one.description {
                tool.description.clone_from(description);
            }
        }
    }
    match (planned.tools.is_empty(), first) {
        (true, Some(error @ PlanError::Server(_))) => Err(broken(error)),
        (true, Some(error)) => Err(broken(format!("no operation can be offered: {error}"))),
        (true | false, _) => Ok(planned),
    }
}

/// What the connector sets by itself, so that no caller can.
fn provided(document: &Document, settings: &Settings) -> Provided {
    let headers = settings.headers.keys().map(|name| (Place::Header, name.as_str().to_owned()));
    let cookies = settings.headers.get_all(header::COOKIE).iter();
    let cookies = cookies.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(';'));
    let cookies = cookies.filter_map(|pair| pair.split('=').next());
    let cookies = cookies.map(|name| (Place::Cookie, name.to_owned()));
    let schemes = settings.auth.keys().filter_map(|name| {
        let value = document.scheme_table()?.get(name)?;
        Scheme::of(reference::resolve(document.root(), value).ok()?).place()
    });
    let all = headers.chain(cookies).chain(schemes);
    all.map(|(place, name)| (place, folded(place, &name))).collect()
}

fn broken(error: impl std::fmt::Display) -> SourceError {
    SourceError::Protocol(error.to_string())
}
