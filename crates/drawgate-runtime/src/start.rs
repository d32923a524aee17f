//! Whether a gateway starts its sources.

/// Whether the sources of tools are started. Commands that only look at the data folder do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// All that is configured.
    Sources,
    /// None.
    Nothing,
}
