//! Whether the node accepts requests, and if not, why.
//!
//! Contract: a host is ready from the start of its node until it is told to stop, except while the log has failed, the
//! disk is full, the memory budget is used up, no further connection is accepted, commits are stalled or a worker is
//! stuck. Each query reads the current state of these parts, so the answer cannot be stale.

use std::sync::{Arc, Mutex, PoisonError};

use abide_runtime::Node;
use abide_storage::Store;
use serde::Serialize;

use crate::{access::Access, cluster::Membership, core::Core, gateway::Slots, history::Copier};

/// Why the node does not accept requests now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Reason {
    /// For programs.
    pub(crate) code: &'static str,
    /// For people: what happened, and what to do.
    pub(crate) message: String,
}

/// The phase of a host's life.
#[allow(clippy::large_enum_variant, reason = "a host has one")]
#[derive(Debug)]
enum Phase {
    Starting,
    Serving {
        store: Store,
        node: Node,
        access: Access,
        slots: Arc<Slots>,
        copier: Option<Copier>,
        membership: Option<Membership>,
    },
    ShuttingDown,
}

/// One host's readiness.
#[derive(Debug)]
pub(crate) struct Readiness(Mutex<Phase>);

impl Readiness {
    pub(crate) fn starting() -> Self {
        Self(Mutex::new(Phase::Starting))
    }

    /// `access` is that of the admin listener.
    pub(crate) fn serving(&self, core: &Core, access: Access, slots: Arc<Slots>) {
        self.enter(Phase::Serving {
            store: core.store.clone(),
            node: core.node.clone(),
            copier: core.copier.clone(),
            membership: core.membership.clone(),
            access,
            slots,
        });
    }

    pub(crate) fn shutting_down(&self) {
        self.enter(Phase::ShuttingDown);
    }

    fn enter(&self, phase: Phase) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    /// The store and the node, while there are any.
    pub(crate) fn parts(&self) -> Option<(Store, Node)> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Phase::Serving { store, node, .. } => Some((store.clone(), node.clone())),
            Phase::Starting | Phase::ShuttingDown => None,
        }
    }

    /// What copies the archive, if something does.
    pub(crate) fn copier(&self) -> Option<Copier> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Phase::Serving { copier, .. } => copier.clone(),
            Phase::Starting | Phase::ShuttingDown => None,
        }
    }

    /// The access control of the admin listener, once it is known.
    pub(crate) fn access(&self) -> Option<Access> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Phase::Serving { access, .. } => Some(access.clone()),
            Phase::Starting | Phase::ShuttingDown => None,
        }
    }

    /// What an operator must see to, although the node accepts requests.
    pub(crate) fn warnings(&self) -> Vec<Reason> {
        let membership = self.membership();
        let told = |code, why: Option<String>| why.map(|why| reason(code, format!("{why}.")));
        let unserved = membership.as_ref().and_then(Membership::unserved);
        let unserved = told("shards_unserved", unserved);
        let unarchived = membership.as_ref().and_then(Membership::unarchived);
        let unarchived = told("not_archived", unarchived);
        let differences = self.copier().map_or(0, |copier| copier.differences());
        let differs = (differences > 0).then(|| reason(
            "backup_differs",
            format!(
                "The copy in the store of archive.url differs from this node, in {differences} objects or files. The log names them and \
                 says what to do."
            ),
        ));
        [unserved, unarchived, differs]
            .into_iter()
            .flatten()
            .collect()
    }

    fn membership(&self) -> Option<Membership> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Phase::Serving { membership, .. } => membership.clone(),
            Phase::Starting | Phase::ShuttingDown => None,
        }
    }

    /// All reasons why the node does not accept requests; empty when ready.
    pub(crate) fn reasons(&self) -> Vec<Reason> {
        let phase = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*phase {
            Phase::Starting => vec![reason("starting", "The node is replaying its log; wait.")],
            Phase::ShuttingDown => vec![reason("shutting_down", "The process was told to stop.")],
            Phase::Serving {
                store,
                node,
                slots,
                copier,
                membership,
                ..
            } => {
                let mut reasons = Vec::new();
                if let Some(why) = membership.as_ref().and_then(Membership::end) {
                    reasons.push(reason("excluded", format!("{why}.")));
                } else if membership.as_ref().is_some_and(|of| !of.is_leased()) {
                    reasons.push(reason(
                        "no_lease",
                        "The database of the cluster does not confirm this node's lease (cluster.postgres): its objects answer nothing \
                         until it does.",
                    ));
                }
                if store.failed() {
                    reasons.push(reason(
                        "log_failed",
                        "The commit log could not be written. Repair the disk and restart the process to recover.",
                    ));
                }
                if store.stats().no_space {
                    reasons.push(reason(
                        "no_space",
                        "The disk is full: reads are served, writes are rejected. Free some space; no restart is needed.",
                    ));
                }
                let memory = store.memory();
                if memory.is_over() {
                    reasons.push(reason(
                        "no_memory",
                        format!(
                            "The memory budget is used up ({} of {} bytes): new work is rejected until some has ended. The \
                             metric abide_memory_bytes shows the uses; the setting memory.budget changes the limit.",
                            memory.used(),
                            memory.limit()
                        ),
                    ));
                }
                if let Some(stall) = node.commit_stall() {
                    reasons.push(reason(
                        "commits_stalled",
                        format!(
                            "Commits have been waiting for {} s for {}. Nothing is lost: they continue once it is available. \
                             The log shows since when.",
                            stall.lasted.as_secs(),
                            stall.cause
                        ),
                    ));
                }
                if let Some(why) = copier.as_ref().and_then(Copier::stall) {
                    reasons.push(reason(
                        "copies_stalled",
                        format!(
                            "Nothing is acknowledged before it is in the store of archive.url (archive.sync), which cannot be used: \
                             {why}. It is tried again until it succeeds."
                        ),
                    ));
                }
                if let Some(most) = slots.full() {
                    reasons.push(reason(
                        "full",
                        format!(
                            "All {most} connections (server.max_connections) are in use: the next one waits until one closes. \
                             The metrics abide_http_connections_open and abide_websockets_open show their kinds."
                        ),
                    ));
                }
                let stuck = node.stuck_workers();
                if stuck > 0 {
                    reasons.push(reason(
                        "stuck_worker",
                        format!("{stuck} worker threads are blocked by a handler that does not await; the log names its object."),
                    ));
                }
                reasons
            }
        }
    }
}

fn reason(code: &'static str, message: impl Into<String>) -> Reason {
    Reason {
        code,
        message: message.into(),
    }
}
