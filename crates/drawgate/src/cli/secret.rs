//! Which values of servers' settings are kept out of the configuration file: the same for a client's file that
//! is imported and for a command line.

use drawgate_runtime::config::{Setting, looks_like_secret};

/// Parts of names whose values are taken for secrets, beside those that the configuration warns of.
const PRIVATE_NAMES: [&str; 8] =
    ["key", "auth", "pass", "pwd", "cookie", "dsn", "private", "session"];

/// Whether a literal is kept out of the configuration.
pub(super) fn is_private(name: &str, value: &str) -> bool {
    let bare = name.to_ascii_lowercase();
    let is_named = !value.is_empty() && PRIVATE_NAMES.iter().any(|part| bare.contains(part));
    let has_password = value.split_once("://").is_some_and(|(_, rest)| rest.contains('@'));
    is_named || has_password || looks_like_secret(name, value) || value.starts_with("env:")
}

/// Whether a text is the name of a variable.
pub(super) fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Refuses a value on a command line that may be a secret; the value is not repeated.
pub(super) fn check(option: &str, name: &str, value: &str) -> Result<(), String> {
    // A reference that names no variable is the configuration's to refuse.
    let is_reference = value == "env:" || Setting::new(value).variable().is_some();
    if is_reference || !is_private(name, value) || is_harmless(value) {
        return Ok(());
    }
    let variable = if is_variable(name) { name } else { "VARIABLE" };
    Err(format!(
        "the value of `{name}` looks like a secret, and other users can read command lines; `drawgate secrets set {variable}` stores it, then write `--{option} {name}=env:{variable}`; replace the secret if it is one"
    ))
}

/// Paths, numbers and switches are no secrets, whatever they are called.
fn is_harmless(value: &str) -> bool {
    let is_number = value.len() < 8 && value.chars().all(|c| c.is_ascii_digit());
    value.starts_with(['/', '~']) || is_number || matches!(value, "true" | "false" | "yes" | "no")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_refused_and_not_repeated() {
        for (name, value) in [
            ("KEY", "hunter2"),
            ("DB_PASS", "hunter2"),
            ("URL", "postgres://me:hunter2@db/x"),
            ("SESSION_COOKIE", "abcdef"),
        ] {
            let said = check("env", name, value).unwrap_err();
            let advice = format!(
                "`drawgate secrets set {name}` stores it, then write `--env {name}=env:{name}`"
            );
            assert!(said.contains(&advice) && !said.contains(value), "{said}");
        }
        for (name, value) in [
            ("KEY", "env:KEY"),
            ("MODE", "fast"),
            ("KEY_FILE", "/home/me/key.pem"),
            ("USE_AUTH", "true"),
            ("PASSES", "3"),
        ] {
            assert_eq!(check("env", name, value), Ok(()), "{name}");
        }
        let header = check("header", "X-Api-Key", "hunter2hunter2").unwrap_err();
        assert!(header.contains("`--header X-Api-Key=env:VARIABLE`"), "{header}");
    }
}
