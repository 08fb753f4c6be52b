//! Whether entries make a whole: the commits of one object, one after the other, from a snapshot or from nothing.

use super::entry::{Head, Kind};
use crate::ident::CommitNo;

/// How far the entries followed so far make a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chain {
    /// Nothing yet: the object's first commit, or a snapshot, may come.
    Nothing,
    /// The object as of this commit.
    At(Head),
    /// In the middle of this commit or snapshot.
    Within(Head),
    /// A commit is missing: only a snapshot helps.
    Broken,
}

impl Chain {
    /// The chain with one more entry.
    pub(crate) fn then(self, head: &Head) -> Self {
        let follows = match (self, head.kind, head.first) {
            // A snapshot needs nothing before it.
            (_, Kind::Snapshot, true) => true,
            (Self::Nothing, Kind::Commit, true) => head.commit == CommitNo(1),
            (Self::At(at), Kind::Commit, true) => head.commit == at.commit.next(),
            (Self::Within(at), kind, false) => kind == at.kind && head.commit == at.commit,
            _ => false,
        };
        match (follows, head.last) {
            (false, _) => Self::Broken,
            (true, true) => Self::At(*head),
            (true, false) => Self::Within(*head),
        }
    }

    /// The commit whose state is whole; `None` if there is none.
    pub(crate) fn at(&self) -> Option<&Head> {
        match self {
            Self::At(head) => Some(head),
            _ => None,
        }
    }

    /// The commit that may come next; `None` if only a snapshot may.
    pub(crate) fn next_commit(&self) -> Option<CommitNo> {
        match self {
            Self::Nothing => Some(CommitNo(1)),
            Self::At(head) => Some(head.commit.next()),
            Self::Within(head) => Some(head.commit),
            Self::Broken => None,
        }
    }
}
