//! What a caller may do.

use std::{fmt, str::FromStr};

/// What a caller may do. Each role includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Read: lists, objects' state, metrics.
    Read,
    /// Change what can be changed again: write values, enqueue, redrive or discard messages, rerun alarms.
    Operate,
    /// Everything: restore, fork and repair objects too.
    Admin,
}

impl Role {
    /// The role's name, as in `--role`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "read" => Ok(Self::Read),
            "operate" => Ok(Self::Operate),
            "admin" => Ok(Self::Admin),
            _ => Err(format!("{text:?} is no role; use read, operate or admin")),
        }
    }
}
