//! The roles of callers.

use std::{fmt, str::FromStr};

/// The permissions of a caller. Each role includes the previous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Read: lists, objects' state, metrics.
    Read,
    /// Make repeatable changes: write values, enqueue, redrive or discard messages, rerun alarms.
    Operate,
    /// Everything, including restore, fork and repair of objects.
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
            _ => Err(format!(
                "{text:?} is not a role; use read, operate or admin"
            )),
        }
    }
}
