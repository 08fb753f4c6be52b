//! A database server with a standby.

use std::collections::VecDeque;

use crate::tables::Tables;

/// Commits of the past that a failover can return to.
const KEPT: usize = 12;

/// The tables of the primary, with those that its last commits have made. A commit is confirmed when the standby has it. A failover makes
/// the standby the primary: it has all that was confirmed, if replication is synchronous, and perhaps more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    tables: Tables,
    /// The tables before each of the last commits.
    before: VecDeque<Tables>,
    /// The number of the last commit.
    committed: u64,
    /// The standby has the commits up to this number.
    replicated: u64,
}

impl Server {
    /// A server with these tables.
    pub fn new(tables: Tables) -> Self {
        Self {
            tables,
            before: VecDeque::new(),
            committed: 0,
            replicated: 0,
        }
    }

    /// The tables as readers see them.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Executes a transaction. Returns its result and the number of its commit.
    pub fn commit<T>(&mut self, transaction: impl FnOnce(&mut Tables) -> T) -> (T, u64) {
        let before = self.tables.clone();
        let result = transaction(&mut self.tables);
        if before != self.tables {
            self.committed += 1;
            self.before.push_back(before);
            if self.before.len() > KEPT {
                self.before.pop_front();
            }
        }
        (result, self.committed)
    }

    /// Whether the standby has a commit.
    pub fn has_replicated(&self, commit: u64) -> bool {
        self.replicated >= commit
    }

    /// The standby takes all commits up to this number.
    pub fn replicate(&mut self, commit: u64) {
        self.replicated = self.replicated.max(commit.min(self.committed));
    }

    /// The commits that a failover can lose: all that are not confirmed, or all that are kept.
    pub fn losable(&self, is_synchronous: bool) -> usize {
        let unconfirmed = (self.committed - self.replicated) as usize;
        if is_synchronous {
            unconfirmed.min(self.before.len())
        } else {
            self.before.len()
        }
    }

    /// Loses the last commits.
    pub fn fail_over(&mut self, lost: usize) {
        for _ in 0..lost {
            if let Some(before) = self.before.pop_back() {
                self.tables = before;
                self.committed -= 1;
            }
        }
        self.replicated = self.committed;
    }
}
