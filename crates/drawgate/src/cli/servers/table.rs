//! Tables of servers in the configuration file: made, removed, switched on and off, with everything
//! around them left as it is.

use anyhow::{Context as _, anyhow, bail};
use drawgate_host::sandbox::Profile;
use drawgate_runtime::operations::Refusal;
use drawgate_runtime::packages::EnvPrefix;
use drawgate_sources::suggest::nearest;
use toml_edit::{Array, DocumentMut, InlineTable, Item, RawString, Table, TableLike, Value, value};

use super::allow::Variable;

const SERVERS: &str = "servers";
const ENABLED: &str = "enabled";

/// A server as it is written into the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct NewServer {
    pub(in super::super) name: String,
    /// Where `command` or `url` do not say it.
    pub(in super::super) transport: Option<&'static str>,
    pub(in super::super) command: Option<String>,
    pub(in super::super) args: Vec<String>,
    pub(in super::super) env: Vec<(String, String)>,
    pub(in super::super) working_dir: Option<String>,
    pub(in super::super) url: Option<String>,
    pub(in super::super) headers: Vec<(String, String)>,
    pub(in super::super) sandbox: Option<Profile>,
    pub(in super::super) read: Vec<String>,
    pub(in super::super) write: Vec<String>,
    pub(in super::super) hosts: Vec<String>,
    pub(in super::super) is_disabled: bool,
}

impl NewServer {
    /// Adds it at the end of the file. A server of that name is not replaced.
    pub(in super::super) fn add_to(&self, document: &mut DocumentMut) -> anyhow::Result<()> {
        let name = &self.name;
        if servers(document)?.is_some_and(|servers| servers.contains_key(name)) {
            bail!("there is a server `{name}` already; choose another name, or remove it first");
        }
        let before = document.to_string();
        let all = document.entry(SERVERS).or_insert_with(|| {
            let mut all = Table::new();
            all.set_implicit(true);
            Item::Table(all)
        });
        match all {
            Item::Table(all) => {
                let mut table = self.table();
                // At the end of the file, whatever stands there.
                table.set_position(Some(isize::MAX));
                all.insert(name, Item::Table(table));
                take_trailing(document, name, &before);
            }
            other => {
                let all = other.as_table_like_mut().ok_or_else(not_a_table)?;
                all.insert(name, value(self.table().into_inline_table()));
            }
        }
        Ok(())
    }

    /// Moves the variables of `env NAME=VALUE RUNNER …` to the server's own, so that the package runner behind
    /// `env` is seen; returns those that were moved.
    pub(in super::super) fn take_env_prefix(&mut self) -> Vec<(String, String)> {
        let command = self.command.as_deref().unwrap_or_default();
        let Some(EnvPrefix { variables, command, args }) = EnvPrefix::of(command, &self.args)
        else {
            return Vec::new();
        };
        (self.command, self.args) = (Some(command), args);
        // Those of the command line are set last, and count.
        self.env.retain(|(name, _)| !variables.iter().any(|(set, _)| set == name));
        self.env.extend(variables.clone());
        variables
    }

    /// The text of the table, on its own.
    pub(in super::super) fn text(&self) -> anyhow::Result<String> {
        let mut document = DocumentMut::new();
        self.add_to(&mut document)?;
        Ok(document.to_string())
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        let texts = [
            ("transport", self.transport),
            ("command", self.command.as_deref()),
            ("url", self.url.as_deref()),
            ("working_dir", self.working_dir.as_deref()),
            ("sandbox", self.sandbox.map(Profile::as_str)),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                table.insert(key, value(text));
            }
            if key == "command" && !self.args.is_empty() {
                table.insert("args", value(Array::from_iter(&self.args)));
            }
        }
        for (key, pairs) in [("env", &self.env), ("headers", &self.headers)] {
            if !pairs.is_empty() {
                let pairs = pairs.iter().map(|(name, text)| (name.as_str(), text.as_str()));
                table.insert(key, value(pairs.collect::<InlineTable>()));
            }
        }
        let allowed = [("read", &self.read), ("write", &self.write), ("hosts", &self.hosts)];
        let allowed = allowed.into_iter().filter(|(_, all)| !all.is_empty());
        let allowed: InlineTable =
            allowed.map(|(key, all)| (key, Value::Array(Array::from_iter(all)))).collect();
        if !allowed.is_empty() {
            table.insert("permissions", value(allowed));
        }
        if self.is_disabled {
            table.insert(ENABLED, value(false));
        }
        table
    }
}

/// Removes a server with everything that is set for it, and the comment right above it.
pub(super) fn remove(document: &mut DocumentMut, name: &str) -> anyhow::Result<()> {
    find(document, name)?;
    let all = document.get_mut(SERVERS).and_then(Item::as_table_like_mut);
    let removed = all.and_then(|all| all.remove(name));
    let Some(Item::Table(table)) = removed else { return Ok(()) };
    let mut gone = Vec::new();
    collect(&table, &mut gone);
    let Some((position, prefix)) = gone.into_iter().min_by_key(|(position, _)| *position) else {
        return Ok(());
    };
    give_to_next(document, position, &kept_comments(&prefix));
    Ok(())
}

/// Switches a server on or off. `false` if it is so already.
pub(super) fn set_enabled(
    document: &mut DocumentMut,
    name: &str,
    is_enabled: bool,
) -> anyhow::Result<bool> {
    let server = find(document, name)?;
    let before = server.get(ENABLED).and_then(Item::as_bool).unwrap_or(true);
    if before == is_enabled {
        return Ok(false);
    }
    match server.get_mut(ENABLED).and_then(Item::as_value_mut) {
        Some(present) => {
            let decor = present.decor().clone();
            *present = Value::from(is_enabled);
            *present.decor_mut() = decor;
        }
        None => {
            server.insert(ENABLED, value(is_enabled));
        }
    }
    Ok(true)
}

/// Adds to what a server's sandbox gives it. What is there already stays as it is.
pub(super) fn allow(document: &mut DocumentMut, name: &str, all: &[Refusal]) -> anyhow::Result<()> {
    let server = find(document, name)?;
    let before = server.get("sandbox").and_then(Item::as_str).map(str::to_owned);
    let mut needed = None;
    for refusal in all {
        let (key, text) = match refusal {
            Refusal::Read(path) => ("read", path.to_string_lossy().into_owned()),
            Refusal::Write(path) => ("write", path.to_string_lossy().into_owned()),
            Refusal::Host(host) => ("hosts", host.clone()),
            Refusal::Variable(name) => {
                let env = table_in(server, "env")?;
                if !env.contains_key(name) {
                    env.insert(name, value(format!("env:{name}")));
                }
                continue;
            }
            Refusal::OwnFile { variable, place, .. } => {
                table_in(server, "env")?.insert(variable, value(&*place.to_string_lossy()));
                continue;
            }
            Refusal::OwnPackage(path) => bail!(
                "`{}` is in the server's own package, which stays as it was fetched",
                path.display()
            ),
        };
        let list =
            table_in(server, "permissions")?.entry(key).or_insert_with(|| value(Array::new()));
        let list = list.as_array_mut().with_context(|| {
            format!("`servers.{name}.permissions.{key}` is not a list; correct it by hand")
        })?;
        if !list.iter().any(|item| item.as_str() == Some(text.as_str())) {
            list.push(text);
        }
        let profile = if key == "hosts" { Profile::Network } else { Profile::Workspace };
        needed = needed.max(Some(profile));
    }
    let has = before.map_or(Ok(Profile::default()), |word| word.parse())?;
    if let Some(needed) = needed.filter(|needed| *needed > has) {
        server.insert("sandbox", value(needed.as_str()));
    }
    Ok(())
}

/// Sets variables of a server's environment.
pub(super) fn set_variables(
    document: &mut DocumentMut,
    name: &str,
    all: &[Variable],
) -> anyhow::Result<()> {
    let server = find(document, name)?;
    for variable in all {
        table_in(server, "env")?.insert(&variable.name, value(&variable.value));
    }
    Ok(())
}

/// A table of a server's, made if it is not there.
fn table_in<'a>(server: &'a mut dyn TableLike, key: &str) -> anyhow::Result<&'a mut dyn TableLike> {
    let found = server.entry(key).or_insert_with(|| value(InlineTable::new()));
    found.as_table_like_mut().with_context(|| format!("`{key}` is not a table; correct it by hand"))
}

fn servers(document: &DocumentMut) -> anyhow::Result<Option<&dyn TableLike>> {
    let Some(all) = document.get(SERVERS) else { return Ok(None) };
    all.as_table_like().map(Some).ok_or_else(not_a_table)
}

fn find<'a>(document: &'a mut DocumentMut, name: &str) -> anyhow::Result<&'a mut dyn TableLike> {
    let names: Vec<String> = match servers(document)? {
        Some(all) => all.iter().map(|(name, _)| name.to_owned()).collect(),
        None => Vec::new(),
    };
    let all = document.get_mut(SERVERS).and_then(Item::as_table_like_mut);
    let server = all.and_then(|all| all.get_mut(name)).and_then(Item::as_table_like_mut);
    server.with_context(|| match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => {
            format!("the configuration has no server `{name}`; did you mean `{near}`?")
        }
        None if names.is_empty() => format!("the configuration has no server `{name}`"),
        None => {
            format!("the configuration has no server `{name}`; it has `{}`", names.join("`, `"))
        }
    })
}

fn not_a_table() -> anyhow::Error {
    anyhow!("`servers` is not a table; correct it by hand")
}

/// What stood at the end of the file belongs above what is added there, with an empty line between.
fn take_trailing(document: &mut DocumentMut, name: &str, before: &str) {
    let trailing = text_of(document.trailing());
    let gap = if before.is_empty() || before.ends_with("\n\n") { "" } else { "\n" };
    document.set_trailing("");
    let table = document.get_mut(SERVERS).and_then(|all| all.get_mut(name));
    if let Some(table) = table.and_then(Item::as_table_mut) {
        table.decor_mut().set_prefix(format!("{trailing}{gap}"));
    }
}

/// The comments above a table that are not about it: all but those right above it, and what is written
/// for editors.
fn kept_comments(prefix: &str) -> String {
    let cut = prefix.rfind("\n\n").map_or(0, |at| at + 2);
    let (kept, dropped) = prefix.split_at_checked(cut).unwrap_or_default();
    let for_editors = dropped.lines().filter(|line| line.starts_with("#:"));
    let for_editors: String = for_editors.flat_map(|line| [line, "\n\n"]).collect();
    if kept.trim().is_empty() { for_editors } else { format!("{kept}{for_editors}") }
}

/// Puts comments above the table that comes after a position, or at the end of the file.
fn give_to_next(document: &mut DocumentMut, position: isize, comments: &str) {
    let mut all = Vec::new();
    collect(document.as_table(), &mut all);
    let is_first = all.iter().all(|(at, _)| *at > position)
        && document.iter().all(|(_, item)| !item.is_value());
    // A file does not begin with the empty line between two tables.
    if comments.is_empty() && !is_first {
        return;
    }
    let next = all.into_iter().map(|(at, _)| at).filter(|at| *at > position).min();
    let done = next.is_some_and(|next| prepend(document.as_table_mut(), next, comments));
    if !done {
        let trailing = text_of(document.trailing());
        document.set_trailing(format!("{comments}{trailing}"));
    }
}

/// The positions of a table and of all below it, with what stands above each.
fn collect(table: &Table, into: &mut Vec<(isize, String)>) {
    if let Some(position) = table.position().filter(|_| !table.is_implicit()) {
        into.push((position, table.decor().prefix().map(text_of).unwrap_or_default()));
    }
    for (_, item) in table {
        match item {
            Item::Table(table) => collect(table, into),
            Item::ArrayOfTables(tables) => tables.iter().for_each(|table| collect(table, into)),
            Item::None | Item::Value(_) => {}
        }
    }
}

/// Puts comments above the table at a position; `false` if it is not in here.
fn prepend(table: &mut Table, position: isize, comments: &str) -> bool {
    if table.position() == Some(position) && !table.is_implicit() {
        let prefix = table.decor().prefix().map(text_of).unwrap_or_default();
        table.decor_mut().set_prefix(format!("{comments}{}", prefix.trim_start_matches('\n')));
        return true;
    }
    table.iter_mut().any(|(_, item)| match item {
        Item::Table(table) => prepend(table, position, comments),
        Item::ArrayOfTables(tables) => {
            tables.iter_mut().any(|table| prepend(table, position, comments))
        }
        Item::None | Item::Value(_) => false,
    })
}

fn text_of(raw: &RawString) -> String {
    raw.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
