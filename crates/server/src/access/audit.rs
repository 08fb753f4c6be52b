//! The audit log: changes made by operators.

use std::time::SystemTime;

/// One operation of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// `token ID`, `user UID` of this machine, or `anyone` on an open listener.
    pub who: String,
    /// The client's address; `local` for a process on this machine.
    pub client: String,
    /// What was done: `restore`, `fork`, `redrive`, …
    pub action: String,
    /// `Class/name` or `Class/id`.
    pub object: Option<String>,
    /// More about it, such as the moment to which an object was restored.
    pub detail: Option<String>,
}

/// A row of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditRow {
    /// Grows with each row.
    pub id: i64,
    /// When the operation began.
    pub at: SystemTime,
    /// The operation.
    pub operation: Operation,
    /// The status of its answer, or `ok` or `failed: …` of a command. `None`: it still runs, or the process ended during it.
    pub outcome: Option<String>,
}
