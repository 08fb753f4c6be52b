//! The versions of parts of the program that an instance uses.
//!
//! Contract: when the run first reaches a change, its version is decided and stored: the newest, or, if the run repeats
//! an earlier activation at that point, the oldest. From then on it stays the same, in every activation.

use std::{future::pending, ops::RangeInclusive, rc::Rc};

use super::{
    Mode, Replay,
    asking::{Refusal, WHAT_TO_DO, check_name},
};
use crate::workflow::Failure;

impl Replay {
    /// The run reaches a change. It waits forever if the program no longer knows its version.
    pub(in super::super) async fn version(
        self: &Rc<Self>,
        change: &str,
        known: RangeInclusive<u32>,
    ) -> Result<u32, Failure> {
        check_name("a change", change)?;
        if known.is_empty() {
            return Err(Failure::permanent(format!(
                "change `{change}` has no versions: {known:?}"
            )));
        }
        match self.decide(change, &known) {
            Ok(version) => Ok(version),
            Err(Refusal::Failure(failure)) => Err(failure),
            Err(Refusal::Trouble(trouble)) => {
                self.stop(trouble);
                pending().await
            }
        }
    }

    fn decide(&self, change: &str, known: &RangeInclusive<u32>) -> Result<u32, Refusal> {
        let version = match self.rows.version(change)? {
            Some(version) => version,
            None if self.mode == Mode::Rehearsal => {
                return Err(Refusal::changed(format!(
                    "it reached change `{change}`, which is not in the history: {WHAT_TO_DO}"
                )));
            }
            None => {
                let history = self.history.borrow();
                let version = if history.is_replaying() {
                    0
                } else {
                    *known.end()
                };
                self.rows.set_version(change, version, history.delivered)?;
                version
            }
        };
        if known.contains(&version) {
            return Ok(version);
        }
        Err(Refusal::changed(format!(
            "it goes by version {version} of change `{change}`, and the program knows {} to {}: let it know that one, too, until \
             its instances have ended",
            known.start(),
            known.end()
        )))
    }
}
