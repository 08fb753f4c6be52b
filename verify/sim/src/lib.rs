//! A whole node in a deterministic simulation.
//!
//! A seed determines a [`Plan`]: clients' operations, time, and events of the machine. [`simulate`] executes it with
//! the real storage engine and the real runtime, on one thread: clock, randomness, disk and network use the same
//! interfaces as in a server, and nothing else is replaced. The observations from outside are a
//! [`History`](history::History), and each guarantee has a checker that reads it. A plan always has the same history.
//!
//! The interleaving of a real node's threads is not simulated: the log is written between two polls of the node's
//! futures, never during one.

#![forbid(unsafe_code)]

mod bucket;
pub mod checkers;
mod classes;
mod client;
mod copies;
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
    bucket::Weather,
    checkers::Violation,
    machine::{HonestMachine, Machine},
    plan::{Focus, Plan},
    random::Random,
    world::{run, run_on},
};

/// The message of intentional panics of objects.
pub const ON_PURPOSE: &str = "on purpose: a simulated object panics";

/// The result of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The violated guarantee, if any.
    pub violation: Option<Violation>,
    /// A hash of the history, which is the same for the same plan.
    pub fingerprint: u64,
}

/// Runs a plan and checks its history.
pub fn simulate(plan: &Plan) -> Report {
    let history = run(plan);
    Report {
        violation: checkers::check(&history.events()).err(),
        fingerprint: history.fingerprint(),
    }
}

/// Suppresses intentional panics of simulated objects on standard error; all others are still reported.
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
