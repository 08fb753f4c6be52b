//! The node dies, also in the middle of a call, and another one begins on its disk.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::{LOOK, World, node};
use crate::ledger::life::{Call, Death};

/// After this many looks at a disk that does not change, the call waits for it.
const STILL_LOOKS: u32 = 60;

impl World {
    /// The node dies in a call. The caller looks whether it was done, and repeats what may be repeated.
    pub(super) async fn dies_in(
        &mut self,
        call: Call,
        syncs: u64,
        death: Death,
    ) -> Result<(), String> {
        let before = self.outcomes(0).await?.len();
        self.disk.hold_syncs();
        self.disk.allow_syncs(syncs);
        let answer = tokio::select! {
            answer = self.calls(call) => Some(answer?),
            () = self.stands_still() => None,
        };
        self.dies(death);
        self.is_asked().await?;
        let taken = match (answer, call) {
            (Some(taken), _) => taken,
            (
                None,
                Call::Void(_)
                | Call::GiveUp(_)
                | Call::Pay(_)
                | Call::Reduce(..)
                | Call::Refund(..),
            ) => self.calls(call).await?,
            (None, _) => {
                let wanted = match call {
                    Call::Pause => ("pause", "paused"),
                    Call::Resume => ("resume", "resumed"),
                    Call::Change(..) => ("change", "changed"),
                    Call::CancelNow => ("cancel", "canceled"),
                    Call::CancelAtEnd => ("cancel", "scheduled"),
                    _ => ("cancel", "unscheduled"),
                };
                let after = self.outcomes(before).await?;
                let is_wanted = |(action, outcome): &(String, String)| {
                    action == wanted.0 && (outcome == wanted.1 || outcome == "owing")
                };
                self.model.looked_at(self.now());
                let is_done = after.iter().any(is_wanted) && !self.model.phase.is_over();
                if !is_done {
                    return Ok(());
                }
                Some(true)
            }
        };
        self.has_called(call, taken)
    }

    /// What the chain has after this many outcomes.
    pub(super) async fn outcomes(&self, after: usize) -> Result<Vec<(String, String)>, String> {
        let mut all = Vec::new();
        let mut seq = 0;
        loop {
            let page = self.subscription().get_history(seq, 500).await;
            let page = page.map_err(|error| error.to_string())?;
            let Some(last) = page.last() else {
                return Ok(all.split_off(after.min(all.len())));
            };
            seq = last.entry.seq;
            all.extend(
                page.into_iter()
                    .map(|event| (event.entry.action, event.entry.outcome)),
            );
        }
    }

    /// Returns when the disk stands still. A node whose disk holds its syncs cannot be asked whether it is idle.
    async fn stands_still(&self) {
        let (mut still, mut before) = (0, self.disk.changes());
        while still < STILL_LOOKS {
            tokio::time::sleep(LOOK).await;
            let changes = self.disk.changes();
            still = if changes == before { still + 1 } else { 0 };
            before = changes;
        }
    }

    /// Another node, on what this one leaves.
    pub(super) fn dies(&mut self, death: Death) {
        self.is_alive.store(false, Ordering::SeqCst);
        let disk = match death {
            Death::Kill => self.disk.after_kill(),
            Death::Power(seed) => self.disk.crash(seed),
        };
        self.disk.release_syncs();
        self.is_alive = Arc::new(AtomicBool::new(true));
        self.node = node(&disk, &self.clock, &self.bank, &self.is_alive);
        self.disk = disk;
    }
}
