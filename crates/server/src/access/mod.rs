//! Access control: who may call the admin listener and an operator's API, and the record of what they changed.
//!
//! Contract: a request reaches a protected route only with a [`Caller`] whose [`Role`] and object prefix allow it. The
//! caller is a process on this machine that may open the node's Unix socket, the holder of a token, or anyone if the
//! listener is open. What an operator changes is in the audit log on disk before it is done; if it cannot be written there,
//! the change is refused.
//!
//! Tokens and the audit log are tables of `access.db` in the data directory, see [`AccessStore`]. Only the SHA-256 of a
//! token's secret is stored.

mod audit;
mod caller;
mod guard;
mod lease;
mod role;
mod store;
mod throttle;
mod token;

pub use audit::{AuditRow, Operation};
pub use caller::Caller;
pub use guard::{Access, AccessPolicy, Need, Route};
pub use role::Role;
pub use store::{AccessError, AccessStore};
pub use token::{CreatedToken, NewToken, Token};

pub(crate) use caller::LocalUser;
pub(crate) use guard::{Authorize, object_not_allowed, protect};
pub(crate) use lease::Lease;
