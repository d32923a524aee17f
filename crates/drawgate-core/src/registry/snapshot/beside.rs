//! What sources offer beside tools: operations, resources, prompts, and the URIs by which callers know
//! them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::super::{Entry, Item, ItemMatch, UI_RESOURCES};
use super::{Resolution, Snapshot};
use crate::model::{Operation, SourceId, ToolId};

impl Snapshot {
    /// A tool or an operation beside tools, by its id.
    pub(crate) fn entry(&self, id: &ToolId) -> Option<&Arc<Entry>> {
        self.get(id).or_else(|| {
            let offered = self.offered().get(id.source())?;
            offered.operations.values().find(|entry| entry.id == *id)
        })
    }

    /// What stands for an operation beside tools.
    pub(crate) fn operation(&self, source: &str, operation: Operation) -> Resolution {
        let offered = self.offered().get(source);
        match offered.and_then(|offered| offered.operations.get(&operation)) {
            Some(entry) => Resolution::Found(Arc::clone(entry)),
            None => Resolution::Unknown,
        }
    }

    /// Whether a source can be asked to do this.
    #[must_use]
    pub fn can(&self, source: &SourceId, operation: Operation) -> bool {
        let offered = self.offered().get(source).filter(|_| self.contents.is_up(source));
        offered.is_some_and(|offered| offered.operations.contains_key(&operation))
    }

    /// The sources that are there and whose entry for the operation `visible` admits.
    pub(crate) fn open_sources(
        &self,
        operation: Operation,
        visible: impl Fn(&Entry) -> bool,
    ) -> BTreeSet<SourceId> {
        let open = self.offered().iter().filter(|(id, offered)| {
            let entry = offered.operations.get(&operation);
            self.contents.is_up(id) && entry.is_some_and(|entry| visible(entry))
        });
        open.map(|(id, _)| id.clone()).collect()
    }

    /// What sources that are there tell models about their use.
    pub fn instructions(&self) -> impl Iterator<Item = (&SourceId, &str)> {
        let there = self.offered().iter().filter(|(id, _)| self.contents.is_up(id));
        there.filter_map(|(id, offered)| Some((id, offered.offer.instructions.as_deref()?)))
    }

    /// Resources of all sources, ordered by source.
    #[must_use]
    pub fn resources(&self) -> &[Item] {
        &self.catalog.resources
    }

    /// Families of resources.
    #[must_use]
    pub fn templates(&self) -> &[Item] {
        &self.catalog.templates
    }

    /// Prompts.
    #[must_use]
    pub fn prompts(&self) -> &[Item] {
        &self.catalog.prompts
    }

    /// Finds a resource by its URI, among those of the sources that are open to the caller.
    #[must_use]
    pub fn find_resource(&self, uri: &str, open: &BTreeSet<SourceId>) -> ItemMatch {
        self.catalog.resource(uri, &self.able(open, Operation::ReadResource))
    }

    /// Finds a prompt by its name.
    #[must_use]
    pub fn find_prompt(&self, name: &str, open: &BTreeSet<SourceId>) -> ItemMatch {
        self.catalog.prompt(name, open)
    }

    /// Finds a family of resources by its template.
    #[must_use]
    pub fn find_template(&self, template: &str, open: &BTreeSet<SourceId>) -> ItemMatch {
        self.catalog.template(template, &self.able(open, Operation::Complete))
    }

    fn able(&self, open: &BTreeSet<SourceId>, operation: Operation) -> BTreeSet<SourceId> {
        open.iter().filter(|id| self.can(id, operation)).cloned().collect()
    }

    /// How a source's own URI is called towards callers.
    #[must_use]
    pub fn shown_uri(&self, source: &SourceId, own: &str) -> String {
        self.catalog.shown_uri(source, own).unwrap_or_else(|| own.to_owned())
    }

    /// Brings the URIs that a tool's definition refers to in line with how they are listed.
    pub(crate) fn show_uris(&self, source: &SourceId, listing: &mut Value) {
        if !self.catalog.has_twins() {
            return;
        }
        for place in UI_RESOURCES {
            if let Some(uri) = listing.pointer_mut(place) {
                self.show(source, uri);
            }
        }
    }

    /// The same for links in a tool's output.
    pub(crate) fn show_links(&self, source: &SourceId, content: &mut [Value]) {
        if !self.catalog.has_twins() {
            return;
        }
        for block in content {
            let place = match block["type"].as_str() {
                Some("resource_link") => "/uri",
                Some("resource") => "/resource/uri",
                _ => continue,
            };
            if let Some(uri) = block.pointer_mut(place) {
                self.show(source, uri);
            }
        }
    }

    fn show(&self, source: &SourceId, uri: &mut Value) {
        if let Value::String(uri) = uri
            && let Some(shown) = self.catalog.shown_uri(source, uri)
        {
            *uri = shown;
        }
    }
}
