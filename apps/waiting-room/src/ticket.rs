//! Tickets: what a visitor carries, encrypted and authenticated, so that a request needs no look-up.
//!
//! Contract: a ticket that opens was sealed with the room's key, for this room. Anything else is no ticket: its bearer is a new visitor,
//! at the end of the queue.

use std::{fmt, time::Duration};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use chacha20poly1305::{
    Key, KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use serde::{Deserialize, Serialize};

use crate::logic::bucket::BucketId;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
const VERSION: u8 = 1;
/// Version, visitor, bucket, two times, people ahead.
const PLAIN_BYTES: usize = 1 + 16 + 4 * 8;
/// How long a place in the queue is kept after the last look at it.
pub const PLACE_IS_KEPT: Duration = Duration::from_mins(5);

/// What a visitor is known by. Random, and never seen by the visitor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VisitorId(pub [u8; 16]);

impl VisitorId {
    /// A new one; `None` if the system has no randomness to give.
    pub fn random() -> Option<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).ok()?;
        Some(Self(bytes))
    }
}

impl fmt::Debug for VisitorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// A visitor's ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Whose.
    pub visitor: VisitorId,
    /// The bucket: the part of the minute of the first visit, or what a draw gave.
    pub bucket_id: BucketId,
    /// In milliseconds since 1970.
    pub last_check_in_time: u64,
    /// The same; absent while the visitor waits.
    pub accepted_at: Option<u64>,
    /// The people ahead that the visitor was told last, so that the number does not rise; absent before.
    pub ahead: Option<u64>,
}

/// What a ticket is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Inside.
    Accepted(Ticket),
    /// In the queue.
    Waiting(Ticket),
    /// Nothing.
    Stranger,
}

impl Ticket {
    /// What it is worth at a moment.
    pub fn standing(self, now: u64, session: Duration) -> Standing {
        let idle = Duration::from_millis(now.saturating_sub(self.last_check_in_time));
        match self.accepted_at {
            Some(_) if idle <= session => Standing::Accepted(self),
            None if idle <= PLACE_IS_KEPT => Standing::Waiting(self),
            _ => Standing::Stranger,
        }
    }

    fn to_bytes(self) -> [u8; PLAIN_BYTES] {
        let mut bytes = [0; PLAIN_BYTES];
        bytes[0] = VERSION;
        bytes[1..17].copy_from_slice(&self.visitor.0);
        bytes[17..25].copy_from_slice(&self.bucket_id.number().to_be_bytes());
        bytes[25..33].copy_from_slice(&self.last_check_in_time.to_be_bytes());
        bytes[33..41].copy_from_slice(&self.accepted_at.unwrap_or(0).to_be_bytes());
        bytes[41..].copy_from_slice(&self.ahead.unwrap_or(u64::MAX).to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; PLAIN_BYTES] = bytes.try_into().ok()?;
        let number = |at: usize| {
            let bytes = bytes[at..at + 8].try_into().unwrap_or_default();
            u64::from_be_bytes(bytes)
        };
        if bytes[0] != VERSION {
            return None;
        }
        Some(Self {
            visitor: VisitorId(bytes[1..17].try_into().ok()?),
            bucket_id: BucketId::from_number(number(17)),
            last_check_in_time: number(25),
            accepted_at: Some(number(33)).filter(|at| *at > 0),
            ahead: Some(number(41)).filter(|ahead| *ahead < u64::MAX),
        })
    }
}

/// Seals and opens the tickets of one room, with XChaCha20-Poly1305.
#[derive(Clone)]
pub struct Sealer {
    cipher: XChaCha20Poly1305,
    room: String,
}

impl Sealer {
    /// The sealer of a room.
    pub fn new(key: &[u8; KEY_BYTES], room: &str) -> Self {
        Self {
            cipher: XChaCha20Poly1305::new(&Key::from(*key)),
            room: room.to_owned(),
        }
    }

    /// The value of a cookie; `None` if the system has no randomness to give.
    pub fn seal(&self, ticket: Ticket) -> Option<String> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).ok()?;
        let payload = Payload {
            msg: &ticket.to_bytes(),
            aad: self.room.as_bytes(),
        };
        let sealed = self.cipher.encrypt(&XNonce::from(nonce), payload).ok()?;
        let mut bytes = nonce.to_vec();
        bytes.extend(sealed);
        Some(BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }

    /// The ticket, if it is one of this room.
    pub fn open(&self, value: &str) -> Option<Ticket> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(value).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_BYTES>()?;
        let payload = Payload {
            msg: sealed,
            aad: self.room.as_bytes(),
        };
        let plain = self.cipher.decrypt(&XNonce::from(*nonce), payload).ok()?;
        Ticket::from_bytes(&plain)
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sealer").field(&self.room).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(accepted_at: Option<u64>) -> Ticket {
        Ticket {
            visitor: VisitorId([7; 16]),
            bucket_id: BucketId::from_number(1_191),
            last_check_in_time: 100_000,
            accepted_at,
            ahead: accepted_at.map(|_| 3),
        }
    }

    #[test]
    fn a_ticket_opens_only_with_its_key_and_room() {
        let sealer = Sealer::new(&[1; KEY_BYTES], "shop");
        for ticket in [ticket(None), ticket(Some(90_000))] {
            let value = sealer.seal(ticket).unwrap();
            assert_eq!(sealer.open(&value), Some(ticket));
            assert_eq!(Sealer::new(&[2; KEY_BYTES], "shop").open(&value), None);
            assert_eq!(Sealer::new(&[1; KEY_BYTES], "other").open(&value), None);
            assert_ne!(sealer.seal(ticket).unwrap(), value, "a nonce is used once");
        }
    }

    #[test]
    fn a_ticket_of_which_any_character_was_changed_is_none() {
        let sealer = Sealer::new(&[1; KEY_BYTES], "shop");
        let value = sealer.seal(ticket(None)).unwrap();
        for at in 0..value.len() {
            let mut forged = value.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(
                sealer.open(std::str::from_utf8(&forged).unwrap()),
                None,
                "{at}"
            );
        }
        for junk in [
            "",
            "x",
            "AAAA",
            &value[1..],
            &value[..40],
            "ü",
            &"A".repeat(9_000),
        ] {
            assert_eq!(sealer.open(junk), None);
        }
    }

    #[test]
    fn an_accepted_ticket_expires_after_a_session_a_place_after_5_minutes() {
        let session = Duration::from_mins(1);
        let inside = ticket(Some(1));
        assert_eq!(
            inside.standing(160_000, session),
            Standing::Accepted(inside)
        );
        assert_eq!(inside.standing(160_001, session), Standing::Stranger);
        let waiting = ticket(None);
        assert_eq!(
            waiting.standing(400_000, session),
            Standing::Waiting(waiting)
        );
        assert_eq!(waiting.standing(400_001, session), Standing::Stranger);
    }
}
