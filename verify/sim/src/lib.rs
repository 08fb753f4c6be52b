//! A whole node in a deterministic simulation.
//!
//! A seed makes a [`Plan`]: clients' operations, time, and what happens to the machine. [`simulate`] does what it says to
//! the real storage engine and the real runtime, on one thread: clock, randomness, disk and network come through the same
//! seams as in a server, and nothing else is replaced. What anybody saw from outside is a [`History`](history::History),
//! and each promise has a checker that reads it. A plan has the same history whenever and wherever it is run.
//!
//! The order in which threads of a real node meet is not simulated: the log is written between two polls of the node's
//! futures, never during one.

#![forbid(unsafe_code)]

pub mod checkers;
mod classes;
mod client;
mod executor;
pub mod history;
mod life;
mod machine;
mod meanwhile;
mod network;
pub mod plan;
mod random;
mod receiver;
pub mod shrink;
mod socket;
mod world;

pub use crate::{
    checkers::Violation,
    machine::{HonestMachine, Machine},
    plan::{Focus, Plan},
    random::Random,
    world::{run, run_on},
};

/// What objects that panic on purpose say.
pub const ON_PURPOSE: &str = "on purpose: a simulated object panics";

/// What came of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The promise that was broken, if one was.
    pub violation: Option<Violation>,
    /// A number that the same plan always gives.
    pub fingerprint: u64,
}

/// Runs a plan and checks what was seen.
pub fn simulate(plan: &Plan) -> Report {
    let history = run(plan);
    Report {
        violation: checkers::check(&history.events()).err(),
        fingerprint: history.fingerprint(),
    }
}

/// Panics that simulated objects make on purpose are not reported on standard error any more; all others are.
pub fn expect_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let text = panic.payload_as_str();
            if text != Some(ON_PURPOSE) {
                report(panic);
            }
        }));
    });
}
