//! Who wants to enter a room, where they sit, and why they may not.

use serde::{Deserialize, Serialize};

use crate::{
    Limits,
    limits::{LIFETIME, MESSAGES_WINDOW, PLACE_KEPT},
};

/// The two sides of a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The screen.
    Host,
    /// A controller.
    Peer,
}

/// How a client enters.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entrance {
    pub(crate) role: Role,
    /// The digest of its secret.
    pub(crate) secret: String,
}

/// A place in a room: at most one open socket has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Seat {
    Host,
    Player(u32),
}

/// The tag of all players' sockets.
pub(super) const PLAYERS: &str = "player";

impl Seat {
    /// The tag of its own socket.
    pub(super) fn tag(self) -> String {
        match self {
            Self::Host => "host".to_owned(),
            Self::Player(number) => format!("{PLAYERS} {number}"),
        }
    }
}

/// Why the room closes a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    TooLarge,
    Full,
    WrongSecret,
    Replaced,
    TooFast,
    Ended,
}

impl Refusal {
    /// The code: 1009 of RFC 6455, or one of ours, which the README lists.
    pub(super) fn code(self) -> u16 {
        match self {
            Self::TooLarge => 1_009,
            Self::Full => 4_000,
            Self::WrongSecret => 4_001,
            Self::Replaced => 4_002,
            Self::TooFast => 4_003,
            Self::Ended => 4_004,
        }
    }

    /// What to tell people: at most 123 bytes.
    pub(super) fn reason(self, limits: &Limits) -> String {
        match self {
            Self::TooLarge => format!(
                "A message may have {} bytes; send less at a time.",
                limits.message_bytes
            ),
            Self::Full => format!(
                "All {} places are taken; one is free when its player has been away for {} minutes.",
                limits.players,
                PLACE_KEPT.as_secs() / 60
            ),
            Self::WrongSecret => {
                "This room has a screen with another secret; make your own room.".to_owned()
            }
            Self::Replaced => "Another window has taken this place.".to_owned(),
            Self::TooFast => format!(
                "A socket may send {} messages per second over {} s; send fewer.",
                limits.messages_per_second,
                MESSAGES_WINDOW.as_secs()
            ),
            Self::Ended => format!(
                "This room has ended: its screen was away for {} minutes, or it is {} hours old.",
                limits.empty_minutes,
                LIFETIME.as_secs() / 3_600
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;

    #[test]
    fn every_reason_fits_a_close_frame() {
        let largest = Limits {
            players: limits::MAX_PLAYERS,
            rooms_per_client: u32::MAX,
            messages_per_second: limits::MAX_MESSAGES_PER_SECOND,
            message_bytes: limits::MAX_MESSAGE_BYTES,
            empty_minutes: limits::MAX_EMPTY_MINUTES,
        };
        for refusal in [
            Refusal::TooLarge,
            Refusal::Full,
            Refusal::WrongSecret,
            Refusal::Replaced,
            Refusal::TooFast,
            Refusal::Ended,
        ] {
            let reason = refusal.reason(&largest);
            assert!(reason.len() <= 123, "{reason}");
        }
    }
}
