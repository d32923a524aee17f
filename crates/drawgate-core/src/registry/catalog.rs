//! Resources and prompts of all sources: what they are called towards callers, and the way back.
//!
//! A resource keeps its own URI, and a prompt of a source with flat names its own name, unless another
//! source has the same or is shown under it: then it is shown with its source in front. Of two prompts
//! that this makes alike, the one of the first source stays. The same names come out whoever looks, so
//! that they mean the same to every caller.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::entry::Naming;
use super::names::visible_text;
use super::visible::show_all;
use crate::model::shape::{self, Form};
use crate::model::{Offer, SourceId};

/// What stands in front of a URI that two sources have, before the source's id.
const PREFIX: &str = "drawgate://servers/";
/// The same for the interactive views of tools, which hosts know by their scheme.
const VIEWS: &str = "ui://drawgate/servers/";
/// How the URI of a view begins.
const VIEW: &str = "ui://";
/// Longest URI and name that are shown.
const MAX_URI: usize = 4096;
const MAX_NAME: usize = 256;

/// One resource, family of resources or prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Who offers it.
    pub source: SourceId,
    /// What callers call it.
    pub shown: String,
    /// What its source calls it.
    pub own: String,
    /// The definition, as callers list it.
    pub listing: Value,
}

impl Item {
    /// Gives a resource another URI towards callers.
    fn show_as(&mut self, shown: String) {
        if let Value::Object(listing) = &mut self.listing {
            listing.insert("uri".to_owned(), shown.as_str().into());
        }
        self.shown = shown;
    }
}

/// The item that a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemMatch {
    /// One source, and its own name for it.
    One(SourceId, String),
    /// Several; these are the names that tell them apart.
    Several(Vec<String>),
    /// None that the caller may use.
    Missing,
}

/// Everything beside tools.
#[derive(Debug, Default)]
pub(super) struct SourceCatalog {
    pub(super) resources: Vec<Item>,
    pub(super) templates: Vec<Item>,
    pub(super) prompts: Vec<Item>,
    /// What prompts are called, those of sources that are gone for now too.
    names: BTreeSet<String>,
    /// Own URIs that are shown with their source, which is rare.
    twins: BTreeSet<String>,
    /// URIs that tools refer to; their servers need not list them.
    referred: BTreeMap<String, BTreeSet<SourceId>>,
}

impl SourceCatalog {
    pub(super) fn of<'a>(
        offers: impl Iterator<Item = (&'a SourceId, &'a Offer, Naming)> + Clone,
    ) -> Self {
        let uris = shared(offers.clone().map(|(_, offer, _)| texts(&offer.resources, "uri")));
        let templates =
            shared(offers.clone().map(|(_, offer, _)| texts(&offer.templates, "uriTemplate")));
        let names = claimed(offers.clone());
        let mut catalog = Self::default();
        for (source, offer, naming) in offers {
            let uri = |twins: &BTreeSet<String>, own: &str| {
                let clash =
                    twins.contains(own) || own.starts_with("drawgate:") || own.starts_with(VIEWS);
                if clash { qualified_uri(source, own) } else { own.to_owned() }
            };
            catalog
                .resources
                .extend(items(source, &offer.resources, RESOURCES, |own| uri(&uris, own)));
            catalog
                .templates
                .extend(items(source, &offer.templates, TEMPLATES, |own| uri(&templates, own)));
            catalog.prompts.extend(items(source, &offer.prompts, PROMPTS, |own| match naming {
                Naming::Flat if !names.contains(own) => own.to_owned(),
                Naming::Flat | Naming::Qualified => qualified_name(source, own),
            }));
        }
        let names = &mut catalog.names;
        catalog.prompts.retain(|prompt| names.insert(prompt.shown.clone()));
        catalog.twins = uris;
        catalog
    }

    /// Leaves out what sources that are gone offer, without renaming anything.
    pub(super) fn hide(&mut self, is_gone: impl Fn(&SourceId) -> bool) {
        for items in [&mut self.resources, &mut self.templates, &mut self.prompts] {
            items.retain(|item| !is_gone(&item.source));
        }
    }

    /// Notes a URI that a tool of a source refers to.
    pub(super) fn refer(&mut self, source: &SourceId, uri: &str) {
        if uri.len() > MAX_URI {
            return;
        }
        let sources = self.referred.entry(uri.to_owned()).or_default();
        sources.insert(source.clone());
        let listed = self.resources.iter().filter(|item| item.own == uri).map(|item| &item.source);
        let all: BTreeSet<&SourceId> = sources.iter().chain(listed).collect();
        if all.len() > 1 && self.twins.insert(uri.to_owned()) {
            for item in self.resources.iter_mut().filter(|item| item.own == uri) {
                item.show_as(qualified_uri(&item.source, uri));
            }
        }
    }

    /// How a source's own URI is shown, if that differs.
    pub(super) fn shown_uri(&self, source: &SourceId, own: &str) -> Option<String> {
        self.twins.contains(own).then(|| qualified_uri(source, own))
    }

    /// Whether any URI is shown with its source.
    pub(super) fn has_twins(&self) -> bool {
        !self.twins.is_empty()
    }

    /// Finds a resource: as listed, by a family that it belongs to, or by the one source that could
    /// know it. `open` are the sources that may be asked at all.
    pub(super) fn resource(&self, uri: &str, open: &BTreeSet<SourceId>) -> ItemMatch {
        if let Some((source, own)) = unqualified(uri) {
            return if open.contains(&source) {
                ItemMatch::One(source, own)
            } else {
                ItemMatch::Missing
            };
        }
        let listed = self.resources.iter().filter(|item| item.own == uri).map(|item| &item.source);
        let referred = self.referred.get(uri).into_iter().flatten();
        let found = place(listed.chain(referred), open, uri);
        if found != ItemMatch::Missing {
            return found;
        }
        let families = self.templates.iter().filter(|item| belongs(uri, &item.own));
        let found = place(families.map(|item| &item.source), open, uri);
        if found != ItemMatch::Missing {
            return found;
        }
        let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
        let same_scheme = self.resources.iter().chain(&self.templates).filter(|item| {
            item.own.split_once(':').is_some_and(|(own, _)| own.eq_ignore_ascii_case(scheme))
        });
        match place(same_scheme.map(|item| &item.source), open, uri) {
            ItemMatch::Missing => match open.iter().collect::<Vec<_>>().as_slice() {
                [only] => ItemMatch::One((*only).clone(), uri.to_owned()),
                _ => ItemMatch::Missing,
            },
            found => found,
        }
    }

    /// Finds a prompt: as listed, or by its own name where only one source has it.
    pub(super) fn prompt(&self, name: &str, open: &BTreeSet<SourceId>) -> ItemMatch {
        let usable = |item: &&Item| open.contains(&item.source);
        // A listed name means the same to everybody, so that it leads nowhere else for whom it is shut.
        if self.names.contains(name) {
            let mut listed = self.prompts.iter().filter(usable);
            return listed.find(|item| item.shown == name).map_or(ItemMatch::Missing, |item| {
                ItemMatch::One(item.source.clone(), item.own.clone())
            });
        }
        let own: Vec<&Item> =
            self.prompts.iter().filter(usable).filter(|item| item.own == name).collect();
        match own.as_slice() {
            [] => ItemMatch::Missing,
            [item] => ItemMatch::One(item.source.clone(), item.own.clone()),
            several => ItemMatch::Several(several.iter().map(|item| item.shown.clone()).collect()),
        }
    }

    /// Finds a family by its template, for completion.
    pub(super) fn template(&self, template: &str, open: &BTreeSet<SourceId>) -> ItemMatch {
        let known =
            self.templates.iter().filter(|item| item.shown == template || item.own == template);
        match place(known.map(|item| &item.source), open, template) {
            ItemMatch::One(source, _) => {
                let own = unqualified(template).map(|(_, own)| own);
                ItemMatch::One(source, own.unwrap_or_else(|| template.to_owned()))
            }
            // Clients complete plain URIs too.
            _ => self.resource(template, open),
        }
    }
}

/// The one source among these that is open, if it is one.
fn place<'a>(
    sources: impl Iterator<Item = &'a SourceId>,
    open: &BTreeSet<SourceId>,
    uri: &str,
) -> ItemMatch {
    let sources: BTreeSet<&SourceId> = sources.filter(|source| open.contains(*source)).collect();
    let mut sources = sources.into_iter();
    match (sources.next(), sources.next()) {
        (None, _) => ItemMatch::Missing,
        (Some(only), None) => ItemMatch::One(only.clone(), uri.to_owned()),
        (Some(first), Some(second)) => {
            let all = [first, second].into_iter().chain(sources);
            ItemMatch::Several(all.map(|source| qualified_uri(source, uri)).collect())
        }
    }
}

fn qualified_uri(source: &SourceId, own: &str) -> String {
    match own.strip_prefix(VIEW) {
        Some(rest) => format!("{VIEWS}{source}/{rest}"),
        None => format!("{PREFIX}{source}/{own}"),
    }
}

/// The way back from `qualified_uri`.
fn unqualified(uri: &str) -> Option<(SourceId, String)> {
    let (rest, scheme) = match uri.strip_prefix(VIEWS) {
        Some(rest) => (rest, VIEW),
        None => (uri.strip_prefix(PREFIX)?, ""),
    };
    let (source, own) = rest.split_once('/')?;
    Some((SourceId::new(source).ok()?, format!("{scheme}{own}")))
}

fn qualified_name(source: &SourceId, own: &str) -> String {
    format!("{source}__{own}")
}

/// Names of prompts that more than one prompt could be shown under, own names and qualified ones alike.
fn claimed<'a>(
    offers: impl Iterator<Item = (&'a SourceId, &'a Offer, Naming)>,
) -> BTreeSet<String> {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for (source, offer, naming) in offers {
        for own in texts(&offer.prompts, "name") {
            *count.entry(qualified_name(source, own)).or_default() += 1;
            if naming == Naming::Flat {
                *count.entry(own.to_owned()).or_default() += 1;
            }
        }
    }
    count.into_iter().filter(|(_, n)| *n > 1).map(|(name, _)| name).collect()
}

fn texts<'a>(definitions: &'a [Value], key: &str) -> BTreeSet<&'a str> {
    definitions.iter().filter_map(|definition| definition.get(key)?.as_str()).collect()
}

/// Texts that more than one source has.
fn shared<'a>(each: impl Iterator<Item = BTreeSet<&'a str>>) -> BTreeSet<String> {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for text in each.flatten() {
        *count.entry(text).or_default() += 1;
    }
    count.into_iter().filter(|(_, n)| *n > 1).map(|(text, _)| text.to_owned()).collect()
}

/// How definitions of one kind look: the member that is their name, how long that may be, and all members.
type Definitions = (&'static str, usize, Form);
const RESOURCES: Definitions = ("uri", MAX_URI, shape::RESOURCE);
const TEMPLATES: Definitions = ("uriTemplate", MAX_URI, shape::TEMPLATE);
const PROMPTS: Definitions = ("name", MAX_NAME, shape::PROMPT);

fn items(
    source: &SourceId,
    definitions: &[Value],
    (key, longest, form): Definitions,
    shown: impl Fn(&str) -> String,
) -> Vec<Item> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::with_capacity(definitions.len());
    for definition in definitions {
        let Some(own) = definition.get(key).and_then(Value::as_str) else { continue };
        let fit = !own.is_empty() && own.len() <= longest && visible_text(own) == own;
        if !fit || !seen.insert(own) {
            continue;
        }
        let name = shown(own);
        let mut listing = definition.clone();
        if let Value::Object(listing) = &mut listing {
            listing.insert(key.to_owned(), name.as_str().into());
        }
        if shape::fit(form, &mut listing).is_err() {
            continue;
        }
        if let Value::Object(listing) = &mut listing {
            listing.entry("name").or_insert_with(|| own.into());
        }
        if show_all(&mut listing).is_err() {
            continue;
        }
        all.push(Item { source: source.clone(), shown: name, own: own.to_owned(), listing });
    }
    all
}

/// Whether a URI may have come from a template: its fixed parts occur in order. Needs no more than
/// one pass, whatever a server writes into its template.
fn belongs(uri: &str, template: &str) -> bool {
    let mut parts = template.split('{');
    let Some(mut rest) = parts.next().and_then(|first| uri.strip_prefix(first)) else {
        return false;
    };
    let mut open_end = false;
    for part in parts {
        let fixed = part.split_once('}').map_or("", |(_, fixed)| fixed);
        open_end = fixed.is_empty();
        if let Some((_, after)) = rest.split_once(fixed).filter(|_| !open_end) {
            rest = after;
        } else if !open_end {
            return false;
        }
    }
    open_end || rest.is_empty()
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
