//! Which version of a part of the program an instance goes by.
//!
//! Contract: the first time that the run comes to a change, it is decided and written which version it goes by: the newest, or,
//! if it does there what it did in an earlier life, the oldest. From then on it is that one, in every life.

use std::{future::pending, ops::RangeInclusive, rc::Rc};

use super::{
    Mode, Replay,
    asking::{Refusal, WHAT_TO_DO, check_name},
};
use crate::workflow::Failure;

impl Replay {
    /// The run comes to a change. It waits for ever if the program does not know its version any more.
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
                    "it came to change `{change}`, which was not so before: {WHAT_TO_DO}"
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
