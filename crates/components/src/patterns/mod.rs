//! Patterns that many programs need, ready-made: separate objects, and components of your objects.
//!
//! | module | for | is |
//! |---|---|---|
//! | [`limiter`] | requests per user or address and time | an object |
//! | [`lock`] | mutual exclusion between processes, machines and objects | an object, and a [`Fence`](lock::Fence) in yours |
//! | [`sessions`] | who is logged in, and until when | a component of your object |
//! | [`sharding`] | more work than one object can do | a handle, a component of the shards, and an object that adds up |
//! | [`leaderboard`] | who has the highest score | an object |
//! | [`presence`] | who is here, over WebSockets and heartbeats | a component of your object |
//! | [`retry`] | a call that met overload or a reset | a helper of callers |
//! | [`cleanup`] | deleting unused objects | a component of your object |
//!
//! The guide says which pattern fits which need.

pub mod cleanup;
pub mod leaderboard;
pub mod limiter;
pub(crate) mod limits;
pub mod lock;
pub mod presence;
pub mod retry;
pub mod sessions;
pub mod sharding;

use abide::Ctx;

/// Milliseconds since 1970.
fn now(ctx: &Ctx) -> i64 {
    ctx.now().unix_millis()
}

/// Why a text of bounded length is refused, if it is.
fn wrong_length(what: &str, text: &str, max: usize) -> Option<String> {
    let bytes = text.len();
    (!(1..=max).contains(&bytes)).then(|| format!("{what} has {bytes} bytes: give it 1 to {max}"))
}
