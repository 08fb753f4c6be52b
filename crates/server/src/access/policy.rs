//! Whether a listener's protected routes need a token.

use std::str::FromStr;

/// Who may call a listener's protected routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessPolicy {
    /// Depends on who can reach the listener: see `server.access` and `admin.access` in `docs/configuration.md`.
    #[default]
    Auto,
    /// Anyone who reaches the listener.
    Open,
    /// Holders of a token.
    Token,
}

impl FromStr for AccessPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "open" => Ok(Self::Open),
            "token" => Ok(Self::Token),
            _ => Err("\"auto\", \"open\" or \"token\"".to_owned()),
        }
    }
}
