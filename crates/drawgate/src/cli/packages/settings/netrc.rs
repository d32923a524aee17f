//! Logins in `.netrc`, which pip and uv send to the hosts that they are for.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::{Operator, read};

/// The entries of these hosts.
pub(super) fn of(operator: &Operator, hosts: &BTreeSet<&str>) -> String {
    let named = operator.variable("NETRC").map(PathBuf::from);
    let text = read(&named.unwrap_or_else(|| operator.home.join(".netrc"))).unwrap_or_default();
    let mut words = text.split_whitespace().peekable();
    let mut kept = String::new();
    let mut is_wanted = false;
    while let Some(word) = words.next() {
        match word {
            "machine" => is_wanted = words.peek().is_some_and(|host| hosts.contains(host)),
            "login" | "account" | "password" => {}
            // Entries for every host, and macros.
            _ => {
                is_wanted = false;
                continue;
            }
        }
        let value = words.next().unwrap_or_default();
        if is_wanted {
            let end = if word == "password" { '\n' } else { ' ' };
            kept.extend([word, " ", value]);
            kept.push(end);
        }
    }
    kept
}
