//! Takes servers out of a client's own file. The rest of it stays, and a copy of it is kept.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use drawgate_core::json;
use serde_json::Value;
use toml_edit::{DocumentMut, Item};

use super::super::connect::merge::{indentation, pretty};
use super::super::files::{self, Change};
use super::read::{Entry, Format, without_comments};

/// Takes servers out of a file.
pub(super) fn take_out(file: &Path, data: &Path, entries: &[&Entry]) -> anyhow::Result<Change> {
    files::change(file, data, |text| {
        let text = text.context("it is gone")?;
        match Format::of(file) {
            Format::Json => without_json(text, entries),
            Format::Toml => without_toml(text, entries),
        }
    })
}

fn without_json(text: &str, entries: &[&Entry]) -> anyhow::Result<String> {
    let mut root = json::parse(text.as_bytes()).map_err(|error| {
        match json::parse(without_comments(text).as_bytes()) {
            Ok(_) => anyhow!("its comments would be lost; take the servers out of it by hand"),
            Err(_) => anyhow!("{error}"),
        }
    })?;
    for entry in entries {
        let section = entry.section.iter().try_fold(&mut root, |value, key| value.get_mut(key));
        if let Some(section) = section.and_then(Value::as_object_mut) {
            section.shift_remove(&entry.name);
        }
    }
    Ok(pretty(&root, indentation(text)))
}

fn without_toml(text: &str, entries: &[&Entry]) -> anyhow::Result<String> {
    let mut document: DocumentMut = text.parse()?;
    for entry in entries {
        let root = document.as_item_mut();
        let section = entry.section.iter().try_fold(root, |item, key| item.get_mut(key));
        if let Some(section) = section.and_then(Item::as_table_like_mut) {
            section.remove(&entry.name);
        }
    }
    Ok(document.to_string())
}
