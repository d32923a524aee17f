//! TOML, edited in place.

use anyhow::anyhow;
use toml_edit::{DocumentMut, Item, Table};

/// Reads a text.
pub(super) fn parse(text: &str) -> anyhow::Result<toml::Table> {
    text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        anyhow!("line {line}, column {column} is not valid TOML: {}", error.message())
    })
}

/// Removes members, each given by the keys that lead to it.
pub(super) fn remove(text: &str, members: &[Vec<&str>]) -> anyhow::Result<String> {
    parse(text)?;
    let mut document: DocumentMut = text.parse()?;
    for member in members {
        let Some((name, section)) = member.split_last() else { continue };
        let root = document.as_item_mut();
        let section = section.iter().try_fold(root, |item, key| item.get_mut(key));
        let removed = section.and_then(Item::as_table_like_mut).and_then(|it| it.remove(name));
        if let Some(Item::Table(removed)) = removed {
            keep_comments_above(&removed, &mut document);
        }
    }
    Ok(document.to_string())
}

/// Puts the comments above a removed table above what followed it: they may be about what came before.
fn keep_comments_above(removed: &Table, document: &mut DocumentMut) {
    let above = removed.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
    if above.trim().is_empty() {
        return;
    }
    // The blank line before the table goes with it.
    let above = above.strip_suffix("\n\n").map_or_else(|| above.to_owned(), |it| format!("{it}\n"));
    let after = |below: Option<&str>| format!("{above}{}", below.unwrap_or_default());
    let mut next = None;
    each_table(document.as_table_mut(), &mut |table| {
        let follows = table.position().filter(|it| Some(*it) > removed.position());
        next = [next, follows].into_iter().flatten().min();
    });
    if next.is_none() {
        let trailing = after(document.trailing().as_str());
        document.set_trailing(trailing);
        return;
    }
    each_table(document.as_table_mut(), &mut |table| {
        if table.position() == next {
            let prefix = after(table.decor().prefix().and_then(|prefix| prefix.as_str()));
            table.decor_mut().set_prefix(prefix);
        }
    });
}

fn each_table(table: &mut Table, act: &mut dyn FnMut(&mut Table)) {
    for (_, item) in table.iter_mut() {
        match item {
            Item::Table(table) => {
                act(table);
                each_table(table, act);
            }
            Item::ArrayOfTables(tables) => {
                for table in tables.iter_mut() {
                    act(table);
                    each_table(table, act);
                }
            }
            Item::None | Item::Value(_) => {}
        }
    }
}
