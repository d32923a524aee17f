//! Word lists: words that take a telling name back, and values that are no secret.

use std::collections::HashSet;
use std::sync::LazyLock;

type Words = LazyLock<HashSet<&'static [u8]>>;

/// After `token`, `secret` and the like these make the name a fact about the secret.
static BENIGN: Words = LazyLock::new(|| {
    words(
        "address age alg algorithm allowed arn at attempt attempts audience authentication average \
    avg backend balance banner based bucket budget by change changed checker checking class \
    column config configuration consent consumption contract cost count counter counts created \
    date days decimals description dir directory disabled doc docs domain duration enabled \
    endpoint endpoints engine env envs error errors estimate estimated exists expiration expire \
    expired expires expiring expiry failed failures field fields file filename flow for form \
    format free generator group groups has header headers help helper hidden host hours id ids \
    in index indices is issuer kind kinds label labels left len length level lifetime limit \
    limits line location manager max message method methods min minute minutes mode modified ms \
    name names namespace needed no number of on only option options owner page param parameter \
    path paths pattern per placeholder plugin policies policy port position present price \
    project prompt provider providers quota rate ratio ref reference references refs regex \
    region remaining request requests required requirement requirements reset response retries \
    rotate rotated rotates rotation row rule rules schema scope scopes second seconds server \
    service set setting settings size sizes source sources span speed standard status stdin \
    storage store stores strategy stream strength supply support supported symbol throughput \
    time timestamp title total tree ttl type types updated uri uris url urls usage used user \
    username valid validation validity var vars version versions visibility visible window",
    )
});

/// Words before `token` that make it a unit of measure.
static QUANTITY: Words = LazyLock::new(|| {
    words(
        "average avg cached completion count input limit max maximum min minimum num number output \
    per prompt reasoning total used",
    )
});

/// What may follow a telling word without a boundary.
static FUSED_TAILS: Words =
    LazyLock::new(|| words("again confirm confirmation hash new old plain repeat text value"));

/// Unquoted values in text that say something about a secret, or are a type.
static NO_SECRETS: Words = LazyLock::new(|| {
    words(
        "&str any bool boolean bytes empty expired false int integer invalid missing never nil no \
    none null number object option<string> optional required revoked secret<string> secretstring \
    str string true undefined unknown unset yes",
    )
});

fn words(list: &'static str) -> HashSet<&'static [u8]> {
    list.split_ascii_whitespace().map(str::as_bytes).collect()
}

pub(super) fn is_benign(word: &[u8]) -> bool {
    BENIGN.contains(word)
}

pub(super) fn is_quantity(word: &[u8]) -> bool {
    QUANTITY.contains(word)
}

pub(super) fn is_fused_tail(word: &[u8]) -> bool {
    FUSED_TAILS.contains(word)
}

/// Whether an unquoted value in text is a known plain word, or a reference to a variable.
pub(super) fn is_no_secret(value: &str) -> bool {
    let value = value.trim_end_matches([',', ';', '.', ')', '}']);
    if value.is_empty() {
        return true;
    }
    if value.len() > LONGEST_PLAIN {
        return false;
    }
    is_type(value)
        || NO_SECRETS.contains(value.to_ascii_lowercase().as_bytes())
        || is_variable(value)
}

/// Longer values are never compared with the lists, which keeps the scan linear.
const LONGEST_PLAIN: usize = 64;

/// A type with a parameter, or a borrowed one, as in the source code of a program.
fn is_type(value: &str) -> bool {
    ["Option<", "Vec<", "Secret<", "Arc<", "Box<", "Result<", "Cow<", "Promise<", "&'", "&mut "]
        .iter()
        .any(|start| value.starts_with(start))
}

/// `$NAME`, `${NAME`, `env:NAME`: only in capitals, as shells and our own references use them.
fn is_variable(value: &str) -> bool {
    let name = value
        .strip_prefix("env:")
        .or_else(|| value.strip_prefix("${"))
        .or_else(|| value.strip_prefix('$'));
    name.is_some_and(|name| {
        name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    })
}

/// Whether a value looks generated: long enough and of more than one kind of character.
pub(super) fn looks_random(value: &str, at_least: usize) -> bool {
    let has = |test: fn(&u8) -> bool| usize::from(value.bytes().any(|b| test(&b)));
    let kinds = has(u8::is_ascii_lowercase) + has(u8::is_ascii_uppercase) + has(u8::is_ascii_digit);
    value.len() >= at_least && kinds >= 2
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
