//! Checks of the files that a configuration names.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use drawgate_core::json;
use drawgate_core::policy::Rules;
use drawgate_host::egress::Authorities;

use crate::config::Config;
use crate::config::problem::Problem;
use crate::config::tree::child;

impl Config {
    /// Everything that is wrong with the files and folders that the configuration names.
    /// `resolve` turns a path of the configuration into one that can be opened.
    pub fn check_files(&self, resolve: impl Fn(&Path) -> PathBuf) -> Vec<Problem> {
        let mut problems = Vec::new();
        let tls = self.server.tls.iter();
        let tls =
            tls.flat_map(|tls| [("server.tls.cert", &tls.cert), ("server.tls.key", &tls.key)]);
        for (key, file) in tls {
            problems.extend(File::open(resolve(file)).err().map(|it| unreadable(key, file, &it)));
        }
        if let Some(file) = &self.egress.ca_file {
            problems.extend(check_authorities(file, &resolve(file)));
        }
        if let Some(file) = &self.policy.file {
            problems.extend(check_policy(file, &resolve(file)));
        }
        for (name, server) in self.servers.iter().filter(|(_, server)| server.enabled) {
            let folder = server.working_dir.as_deref().map(&resolve);
            if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
                let key = child(&child("servers", name.as_str()), "working_dir");
                let message = format!("there is no folder `{}`", folder.display());
                problems.push(Problem::error(key, message).hint("create it or name another"));
            }
        }
        problems
    }
}

fn check_authorities(named: &Path, file: &Path) -> Option<Problem> {
    let text = match std::fs::read(file) {
        Ok(text) => text,
        Err(error) => return Some(unreadable("egress.ca_file", named, &error)),
    };
    let message = Authorities::from_pem(&text).err()?;
    Some(Problem::error("egress.ca_file", format!("in `{}`: {message}", named.display())))
}

fn check_policy(named: &Path, file: &Path) -> Option<Problem> {
    let text = match std::fs::read(file) {
        Ok(text) => text,
        Err(error) => return Some(unreadable("policy.file", named, &error)),
    };
    let rules = json::parse(&text).map_err(|error| error.to_string());
    let rules = rules.and_then(|it| Rules::from_value(it).map_err(|error| error.to_string()));
    let message = rules.err()?;
    Some(Problem::error("policy.file", format!("in `{}`: {message}", named.display())))
}

fn unreadable(key: &str, named: &Path, error: &io::Error) -> Problem {
    Problem::error(key, format!("can't read `{}`: {error}", named.display()))
}
