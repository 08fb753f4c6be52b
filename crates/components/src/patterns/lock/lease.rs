//! Leases.

use serde::{Deserialize, Serialize};

use super::Token;

/// Who holds a lock, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Who holds it.
    pub holder: String,
    /// The fencing token: higher than that of every lease of this lock before.
    pub token: Token,
    /// When it ends, in milliseconds since 1970.
    pub expires_at: i64,
}
