//! For tests of programs: a clock that stands still, a disk in memory, and the world outside as the test wants it.
//!
//! A test starts the program with [`Host::open_in_memory`](crate::Host::open_in_memory), and works on it from outside:
//!
//! | it | with |
//! |---|---|
//! | moves the time | [`TestClock`] |
//! | waits until all that is due has run | [`Node::settle`](crate::Node::settle) |
//! | looks into a live object | [`Node::run_in`](crate::Node::run_in) |
//! | lets an object leave memory | [`Node::evict`](crate::Node::evict) |
//! | restarts the program on the same data | [`SimDisk`] |
//! | sees what the program sends to other servers, and answers | [`Servers`] |
//! | sees what an outbox delivers, and fails | `Inbox` (feature `outbox`) |
//! | has a token | [`Access::create_token`](crate::server::access::Access::create_token) |

#[cfg(feature = "outbox")]
mod inbox;
mod servers;

#[cfg(feature = "outbox")]
pub use inbox::{Attempt, Inbox};
pub use servers::{Received, Servers};

pub use crate::{clock::TestClock, storage::SimDisk};
