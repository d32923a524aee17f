//! Ids that the operator has given to somebody: no source that comes by itself gets one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use tokio::time::timeout;

use super::super::{RegistrationError, skeleton};
use super::{SourceSupervisor, Supervision};
use crate::model::SourceId;

/// How long a source may take to leave before it is ended from here.
const LEAVE_TIME: Duration = Duration::from_secs(5);

/// Who has an id that is kept for it. Prints as what follows "is".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// The gateway itself, or a configured server.
    Server,
    /// A plugin that an operator has added.
    Plugin,
    /// An installed toolpack.
    Toolpack,
    /// An agent that the gateway runs itself.
    Agent,
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Server => "a server of the gateway",
            Self::Plugin => "a plugin of the gateway",
            Self::Toolpack => "an installed toolpack",
            Self::Agent => "an agent of the gateway",
        })
    }
}

/// An id that is kept for another holder, or looks like one that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdTaken {
    /// The id that was asked for.
    pub asked: SourceId,
    /// The id that is kept.
    pub held: SourceId,
    /// Whom it is kept for.
    pub holder: Holder,
}

impl fmt::Display for IdTaken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, held, holder } = self;
        if asked == held {
            return write!(formatter, "`{asked}` is {holder}");
        }
        write!(formatter, "`{asked}` looks like `{held}`, which is {holder}")
    }
}

/// The ids, by whom they are kept for.
#[derive(Default)]
pub(super) struct Reserved {
    wanted: BTreeMap<Holder, BTreeSet<SourceId>>,
    /// What nobody wants any more and what has not ended yet.
    given_up: BTreeMap<SourceId, Holder>,
}

impl Reserved {
    /// The holder of an id, other than `own`, for whom it or one that looks like it is kept.
    fn taken(&self, id: &SourceId, own: Option<Holder>) -> Option<IdTaken> {
        let asked = skeleton(id.as_str());
        let wanted =
            self.wanted.iter().flat_map(|(holder, ids)| ids.iter().map(|id| (id, *holder)));
        let given_up = self.given_up.iter().map(|(id, holder)| (id, *holder));
        let (held, holder) = wanted
            .chain(given_up)
            .find(|(held, holder)| Some(*holder) != own && skeleton(held.as_str()) == asked)?;
        Some(IdTaken { asked: id.clone(), held: held.clone(), holder })
    }

    /// Replaces the ids of one holder. Those of before that `is_there` tells are free when they end.
    fn set(
        &mut self,
        holder: Holder,
        ids: BTreeSet<SourceId>,
        is_there: impl Fn(&SourceId) -> bool,
    ) {
        let before = self.wanted.insert(holder, ids).unwrap_or_default();
        for id in before {
            if self.taken(&id, None).is_none() && is_there(&id) {
                self.given_up.insert(id, holder);
            }
        }
    }

    /// A source has ended.
    pub(super) fn ended(&mut self, id: &SourceId) {
        self.given_up.remove(id);
    }
}

impl SourceSupervisor {
    /// Keeps ids for what the operator has set up, instead of those that were kept for the same
    /// holder before. A source that came by itself and has one of them is gone when this returns; an
    /// id that is given up is free when its source has been [removed](Self::remove).
    pub async fn reserve(&self, holder: Holder, ids: BTreeSet<SourceId>) {
        let leaving: Vec<_> = {
            let sources = self.sources.lock();
            let guests = ids.iter().filter_map(|id| sources.get(id)?.ask_to_leave()).collect();
            let unusable = self.unusable.lock();
            let is_there = |id: &SourceId| {
                sources.get(id).is_some_and(Supervision::is_configured) || unusable.contains_key(id)
            };
            self.reserved.lock().set(holder, ids, is_there);
            guests
        };
        for (source, gone) in leaving {
            if timeout(LEAVE_TIME, gone.cancelled()).await.is_err() {
                self.remove_admitted(&source).await;
            }
        }
    }

    /// Whether an id, or one that looks like it, is kept for another holder than this one.
    #[must_use]
    pub fn taken(&self, own: Holder, id: &SourceId) -> Option<IdTaken> {
        self.reserved.lock().taken(id, Some(own))
    }

    /// Refuses an id that is not for sources that come by themselves.
    pub(super) fn check_free(
        &self,
        sources: &BTreeMap<SourceId, Supervision>,
        id: &SourceId,
    ) -> Result<(), RegistrationError> {
        if let Some(taken) = self.reserved.lock().taken(id, None) {
            return Err(RegistrationError::Reserved(taken));
        }
        if sources.get(id).is_some_and(Supervision::is_configured) {
            return Err(RegistrationError::SourceTaken(id.clone()));
        }
        Ok(())
    }
}
