//! Checks of the files that a configuration names.

use std::io;
use std::path::{Component, Path, PathBuf};

use drawgate_core::json;
use drawgate_core::policy::{Rule, Rules};
use drawgate_host::egress::Authorities;
use drawgate_host::sandbox::Profile;
use drawgate_host::user_files;

use super::rules::KnownTools;
use crate::config::problem::Problem;
use crate::config::tree::{child, element};
use crate::config::{Config, DEFAULT_DATA, Server, Transport};
use crate::toolpacks::installed_ids;

impl Config {
    /// Everything that is wrong with the files and folders that the configuration names.
    /// `resolve` turns a path of the configuration into one that can be opened.
    pub fn check_files(&self, resolve: impl Fn(&Path) -> PathBuf) -> Vec<Problem> {
        let mut problems = Vec::new();
        let tls = self.server.tls.iter();
        let tls =
            tls.flat_map(|tls| [("server.tls.cert", &tls.cert), ("server.tls.key", &tls.key)]);
        for (key, file) in tls {
            problems.extend(
                user_files::open(&resolve(file)).err().map(|it| unreadable(key, file, &it)),
            );
        }
        if let Some(file) = &self.egress.ca_file {
            problems.extend(check_authorities(file, &resolve(file)));
        }
        let known = KnownTools::of(self, installed_ids(&resolve(&self.toolpacks.folder)));
        match (&self.policy.file, self.policy.inline().map(Rules::from_value)) {
            (Some(file), _) => match read_policy(file, &resolve(file)) {
                Ok(rules) => {
                    known.check(&rules, |_, _| "policy.file".to_owned(), &mut problems);
                    problems.extend(no_fallback(&rules, "policy.file", "defaults.fallback"));
                }
                Err(message) => problems.push(Problem::error("policy.file", message)),
            },
            (None, Some(Ok(rules))) => {
                let key =
                    |index, member: &str| format!("{}.{member}", element("policy.rules", index));
                known.check(&rules, key, &mut problems);
                let first = element("policy.rules", 0);
                problems.extend(no_fallback(&rules, &first, "policy.defaults.fallback"));
            }
            // What is no rule has been reported.
            (None, Some(Err(_)) | None) => {}
        }
        problems.extend(check_folders(self, &resolve));
        for (name, server) in self.servers.iter().filter(|(_, server)| server.enabled) {
            let folder = server.connection.working_dir.as_deref().map(&resolve);
            if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
                let key = child(&child("servers", name.as_str()), "working_dir");
                let message = format!("there is no folder `{}`", folder.display());
                problems.push(Problem::error(key, message).hint("create it or name another"));
            }
        }
        self.check_invokers(resolve, &mut problems);
        problems
    }

    fn check_invokers(&self, resolve: impl Fn(&Path) -> PathBuf, problems: &mut Vec<Problem>) {
        for (invoker, config) in self.invokers.iter() {
            let table = child("invokers", invoker.as_str());
            if config.command.is_empty() {
                let message = "no program is named";
                problems.push(Problem::error(child(&table, "command"), message));
            }
            let given = [("read", &config.read), ("write", &config.write)];
            for (key, paths) in given {
                let missing = paths.iter().enumerate();
                let missing = missing.filter(|(_, path)| !resolve(path).exists());
                problems.extend(missing.map(|(index, path)| {
                    let key = element(&child(&table, key), index);
                    let message = format!("there is no `{}`", path.display());
                    Problem::error(key, message).hint("create it or name another")
                }));
            }
        }
    }
}

fn check_authorities(named: &Path, file: &Path) -> Option<Problem> {
    let text = match user_files::read(file) {
        Ok(text) => text,
        Err(error) => return Some(unreadable("egress.ca_file", named, &error)),
    };
    let message = Authorities::from_pem(&text).err()?;
    Some(Problem::error("egress.ca_file", format!("in `{}`: {message}", named.display())))
}

fn read_policy(named: &Path, file: &Path) -> Result<Rules, String> {
    let text = user_files::read(file).map_err(|error| not_read(named, &error))?;
    let rules = json::parse(&text)
        .map_err(|error| format!("a policy file is JSON, and this is not: {error}"));
    let rules = rules.and_then(|it| Rules::from_value(it).map_err(|error| error.to_string()));
    rules.map_err(|message| format!("in `{}`: {message}", named.display()))
}

/// Rules that deny whatever they don't name, without saying so.
fn no_fallback(rules: &Rules, key: &str, setting: &str) -> Option<Problem> {
    let is_needed = !rules.rules.is_empty() && !rules.rules.iter().any(Rule::is_of_every_call);
    if rules.has_fallback || !is_needed {
        return None;
    }
    let message = format!("calls that no rule matches are denied, because `{setting}` is not set");
    Some(Problem::warning(key, message).hint("set it to `allow` or `deny`"))
}

/// A folder that holds what decides about programs and tools would put that into their hands.
fn check_folders(config: &Config, resolve: impl Fn(&Path) -> PathBuf) -> Vec<Problem> {
    let data = resolve(config.data.as_deref().unwrap_or(Path::new(DEFAULT_DATA)));
    let own = [("the data folder", data), ("the configuration", resolve(Path::new("")))];
    let own = own.map(|(what, path)| (what, real(&path)));
    let held = |folder: &Path| {
        let folder = real(&resolve(folder))?;
        let is_in =
            |path: &Option<PathBuf>| path.as_ref().is_some_and(|it| it.starts_with(&folder));
        own.iter().find(|(_, path)| is_in(path)).map(|(what, _)| *what)
    };
    let mut found = Vec::new();
    if let Some(what) = config.builtin.workspace.as_deref().and_then(held) {
        let message = format!(
            "the workspace of the built-in tools holds {what}, so that they are not offered"
        );
        let hint = "name a folder of its own: tools must not reach what decides about them";
        found.push(Problem::warning("builtin.workspace", message).hint(hint));
    }
    let is_boxed = |server: &Server| {
        let is_program = server.connection.transport() == Transport::Stdio;
        server.enabled && is_program && server.sandbox != Some(Profile::None)
    };
    for (name, server) in config.servers.iter().filter(|(_, server)| is_boxed(server)) {
        let table = child("servers", name.as_str());
        let folder = server.connection.working_dir.iter();
        let folder = folder.map(|folder| (child(&table, "working_dir"), folder));
        let write = child(&child(&table, "permissions"), "write");
        let more = server.permissions.write.iter().enumerate();
        let more = more.map(|(index, folder)| (element(&write, index), folder));
        for (key, folder) in folder.chain(more) {
            let Some(what) = held(folder) else { continue };
            let message =
                format!("`{}` holds {what}, so that `{name}` is not started", folder.display());
            let hint = "name a folder of its own: programs must not reach what decides about them";
            found.push(Problem::warning(key, message).hint(hint));
        }
    }
    found
}

/// Where a path leads, whether it is there yet or not.
fn real(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for part in std::path::absolute(path).ok()?.components() {
        if part == Component::ParentDir {
            clean.pop();
        } else {
            clean.push(part);
        }
        clean = clean.canonicalize().unwrap_or(clean);
    }
    Some(clean)
}

fn unreadable(key: &str, named: &Path, error: &io::Error) -> Problem {
    Problem::error(key, not_read(named, error))
}

fn not_read(named: &Path, error: &io::Error) -> String {
    format!("can't read `{}`: {error}", named.display())
}
