//! Whom a tool is for, whatever callers hold.

use std::sync::Arc;

use crate::model::Lineage;

/// Whom a tool is for. To all others it is unknown. Wire names are unique among the tools that one
/// caller can be shown, so that tools of different profiles may share one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Audience {
    /// Every caller.
    #[default]
    Everyone,
    /// Agents that the gateway runs itself.
    Runs,
    /// Runs of the profile of this name.
    Profile(Arc<str>),
}

impl Audience {
    /// Whether a caller belongs to it: `lineage` is the run that calls.
    pub(crate) fn includes(&self, lineage: Option<&Lineage>) -> bool {
        match self {
            Self::Everyone => true,
            Self::Runs => lineage.is_some(),
            Self::Profile(name) => lineage.is_some_and(|run| run.profile == *name),
        }
    }

    /// Whether a caller may belong to both.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Profile(one), Self::Profile(other)) => one == other,
            (Self::Everyone | Self::Runs, Self::Everyone | Self::Runs | Self::Profile(_))
            | (Self::Profile(_), Self::Everyone | Self::Runs) => true,
        }
    }
}
