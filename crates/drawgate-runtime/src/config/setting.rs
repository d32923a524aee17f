//! Which values in `env`, `headers` and arguments are probably secrets.

/// Prefixes that well-known services give their keys.
const KEY_PREFIXES: [&str; 16] = [
    "sk-",
    "sk_",
    "pk_live_",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "eyJ",
    "npm_",
    "hf_",
];
/// Parts of names whose values are secrets, compared without case, `_` and `-`.
const SECRET_NAMES: [&str; 8] =
    ["token", "secret", "password", "passwd", "apikey", "accesskey", "credential", "authorization"];
/// Shorter values under a secret's name are more often switches (`TOKEN_MODE=on`) than secrets.
const SHORTEST_SECRET: usize = 8;
/// Random text of this length and up is taken for a key whatever it is called.
const RANDOM_LENGTH: usize = 32;

/// Whether a literal under this name is probably a secret.
#[must_use]
pub fn looks_like_secret(name: &str, value: &str) -> bool {
    let bare: String = name.chars().filter(|c| *c != '_' && *c != '-').collect();
    let bare = bare.to_ascii_lowercase();
    let named = SECRET_NAMES.iter().any(|part| bare.contains(part));
    (named && value.len() >= SHORTEST_SECRET) || is_key_shaped(value)
}

/// Whether a text has the form of a well-known service's key, or of random text.
#[must_use]
pub fn is_key_shaped(value: &str) -> bool {
    let known = KEY_PREFIXES.iter().any(|prefix| value.starts_with(prefix));
    (known && value.len() >= 16) || is_random(value)
}

fn is_random(value: &str) -> bool {
    let has = |test: fn(&char) -> bool| value.chars().any(|c| test(&c));
    value.len() >= RANDOM_LENGTH
        && value.chars().all(|c| c.is_ascii_alphanumeric() || "+/=_-".contains(c))
        && !value.starts_with('/')
        && has(char::is_ascii_digit)
        && has(char::is_ascii_uppercase)
        && has(char::is_ascii_lowercase)
}
