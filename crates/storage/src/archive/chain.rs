//! Whether entries form a complete state: consecutive commits of one object, starting from a snapshot or from
//! nothing.

use super::entry::{Head, Kind};
use crate::ident::Life;

/// The state reached by the entries so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Chain {
    /// No entries yet.
    #[default]
    Nothing,
    /// The object as of this commit; nothing if that has ended it.
    At(Head),
    /// In the middle of this commit or snapshot.
    Within(Head),
    /// A commit is missing: only a snapshot, or the first or last commit of a life, can follow.
    Broken,
}

impl Chain {
    /// The chain with one more entry.
    pub(crate) fn then(self, head: &Head) -> Self {
        let follows = match (self, head.kind, head.first) {
            // These need nothing before them: they have every page, or leave none.
            (_, Kind::Snapshot, true) => true,
            (_, Kind::Commit, true) if head.life != Life::Continues && !head.replaces => true,
            (Self::At(at), Kind::Commit, true) => {
                // A replacement is only for its commit, which takes the pages of nothing else.
                let is_replacement = at.kind == Kind::Snapshot && at.replaces;
                at.life != Life::Ends
                    && head.commit == at.commit.next()
                    && head.replaces == is_replacement
            }
            (Self::Within(at), kind, false) => kind == at.kind && head.commit == at.commit,
            _ => false,
        };
        match (follows, head.last) {
            (false, _) => Self::Broken,
            (true, true) => Self::At(*head),
            (true, false) => Self::Within(*head),
        }
    }

    /// A chain that begins with the first part of this commit: what is before it is elsewhere.
    pub(crate) fn begun_with(head: &Head) -> Self {
        if head.last {
            Self::At(*head)
        } else {
            Self::Within(*head)
        }
    }

    /// The commit whose state is complete; `None` if there is none.
    pub(crate) fn at(&self) -> Option<&Head> {
        match self {
            Self::At(head) => Some(head),
            _ => None,
        }
    }
}
