//! Access control: who may call the admin listener and an operator's API, and a record of their changes.
//!
//! Contract: a request reaches a protected route only with a [`Caller`] whose [`Role`] and object prefix allow it. The
//! caller is a local process that may open the node's Unix socket, the holder of a token, or anyone if the listener is
//! open. A change by an operator is in the audit log on disk before it is made; if it cannot be recorded there, the
//! change is rejected.
//!
//! Tokens and the audit log are tables of `access.db` in the data directory, see [`AccessStore`]. Only the SHA-256 of a
//! token's secret is stored.

mod audit;
mod caller;
mod guard;
mod lease;
mod need;
mod policy;
mod role;
mod route;
mod store;
mod token;

pub use audit::{AuditRow, Operation};
pub use caller::Caller;
pub use guard::Access;
pub use need::Need;
pub use policy::AccessPolicy;
pub use role::Role;
pub use route::Route;
pub use store::{AccessError, AccessStore};
pub use token::{CreatedToken, NewToken, Token};

pub(crate) use caller::LocalUser;
pub(crate) use guard::Authorize;
pub(crate) use lease::Lease;
pub(crate) use need::object_not_allowed;
pub(crate) use route::protect;
