//! Redaction for the audit log, logs, errors and artifacts: by the name a value stands under, by
//! the shape of the value, and by known values in many disguises. It looks into strings that hold
//! JSON, YAML, forms, addresses, command lines and base64. Everything runs in linear time; what is
//! too deep to look into is hidden.

mod args;
mod blobs;
mod describe;
mod extent;
mod keys;
mod known;
mod pairs;
mod pem;
mod shapes;
mod spans;
mod spoken;
mod text;
mod urls;
mod value;
mod vocabulary;
mod words;

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};

pub use describe::{describe_masks, has_masks};
use keys::ExtraKeys;
pub(crate) use keys::MAX_EXTRA_KEYS;
use known::Known;
use text::Scan;

/// What stands in place of a secret. Its length is fixed and it has no key, so that neither the
/// text nor a hash over it says anything about the secret.
pub const MASK: &str = "[REDACTED]";

/// Removes secrets. Built once when the known secrets change, then shared.
pub struct Redactor {
    known: Known,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("knows_any", &self.knows_any()).finish()
    }
}

impl Redactor {
    /// Takes the resolved secret values. From eight characters on a value is masked wherever it stands
    /// and however it is encoded; from four on where it stands alone, without a letter or digit beside
    /// it; a shorter one is not masked, because that would blank ordinary text. See [`Self::is_too_short`].
    #[must_use]
    pub fn new<'a>(known: impl IntoIterator<Item = &'a str>) -> Self {
        Self { known: Known::new(known) }
    }

    /// For everything that is persisted. `extra_keys` only adds to the names that are redacted.
    #[must_use]
    pub fn redact<'a>(&self, value: &'a Value, extra_keys: &[String]) -> Cow<'a, Value> {
        let extra = ExtraKeys::new(extra_keys);
        Scan::new(&self.known, &extra).value(value, 0).map_or(Cow::Borrowed(value), Cow::Owned)
    }

    /// The same for an object, such as the arguments of a tool.
    #[must_use]
    pub fn redact_map<'a>(
        &self,
        map: &'a Map<String, Value>,
        extra_keys: &[String],
    ) -> Cow<'a, Map<String, Value>> {
        let extra = ExtraKeys::new(extra_keys);
        Scan::new(&self.known, &extra).map(map, 0).map_or(Cow::Borrowed(map), Cow::Owned)
    }

    /// For free text: log lines, error messages, artifacts.
    #[must_use]
    pub fn redact_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        Scan::new(&self.known, &ExtraKeys::none()).text(text)
    }

    /// The same, with further names as in [`Self::redact`].
    #[must_use]
    pub fn redact_text_with<'a>(&self, text: &'a str, extra_keys: &[String]) -> Cow<'a, str> {
        let extra = ExtraKeys::new(extra_keys);
        Scan::new(&self.known, &extra).text(text)
    }

    /// Masks only known values, in text that goes back to a caller.
    #[must_use]
    pub fn mask_known<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.known.mask(text)
    }

    /// Masks known values in every string and name of `value`; says whether anything changed.
    pub fn mask_known_in(&self, value: &mut Value) -> bool {
        !self.known.is_nothing() && value::mask_known_in(&self.known, value, 0)
    }

    /// Whether a value is too short to be masked, wherever it stands.
    #[must_use]
    pub fn is_too_short(value: &str) -> bool {
        known::is_too_short(value)
    }

    /// Whether any secret value is known.
    #[must_use]
    pub const fn knows_any(&self) -> bool {
        !self.known.is_nothing()
    }
}

#[cfg(test)]
#[path = "blinding_tests.rs"]
mod blinding_tests;
#[cfg(test)]
#[path = "catalogue_tests.rs"]
mod catalogue_tests;
#[cfg(test)]
#[path = "property_tests.rs"]
mod property_tests;
#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
