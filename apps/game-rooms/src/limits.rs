//! Every bound of the program, in one place, with the source of its number.

use std::time::Duration;

use clap::value_parser;

/// The limits that an operator can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
#[group(skip)]
pub struct Limits {
    /// Players in one room
    #[arg(long, value_name = "COUNT", default_value_t = PLAYERS,
          value_parser = value_parser!(u32).range(1..=i64::from(MAX_PLAYERS)))]
    pub players: u32,

    /// Rooms that one client may have at a time
    #[arg(long, value_name = "COUNT", default_value_t = ROOMS_PER_CLIENT,
          value_parser = value_parser!(u32).range(1..))]
    pub rooms_per_client: u32,

    /// Messages per second that one socket may send, averaged over 10 seconds
    #[arg(long, value_name = "COUNT", default_value_t = MESSAGES_PER_SECOND,
          value_parser = value_parser!(u32).range(1..=i64::from(MAX_MESSAGES_PER_SECOND)))]
    pub messages_per_second: u32,

    /// Bytes in one message
    #[arg(long, value_name = "BYTES", default_value_t = MESSAGE_BYTES,
          value_parser = value_parser!(u32).range(64..=i64::from(MAX_MESSAGE_BYTES)))]
    pub message_bytes: u32,

    /// Minutes until a room whose screen is away ends
    #[arg(long, value_name = "MINUTES", default_value_t = EMPTY_MINUTES,
          value_parser = value_parser!(u32).range(1..=i64::from(MAX_EMPTY_MINUTES)))]
    pub empty_minutes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            players: PLAYERS,
            rooms_per_client: ROOMS_PER_CLIENT,
            messages_per_second: MESSAGES_PER_SECOND,
            message_bytes: MESSAGE_BYTES,
            empty_minutes: EMPTY_MINUTES,
        }
    }
}

impl Limits {
    /// How long a room is kept while its screen is away.
    pub fn empty_life(self) -> Duration {
        Duration::from_secs(60 * u64::from(self.empty_minutes))
    }
}

/// Players of a room, unless the operator says otherwise: as many as fit in front of one screen.
pub const PLAYERS: u32 = 8;

/// The most players that can be set: a join tells everyone in the room, so joins cost the square of it.
pub const MAX_PLAYERS: u32 = 64;

/// Rooms of one client at a time, unless the operator says otherwise. A household shares an address, and a page that is
/// opened anew leaves a room behind for [`EMPTY_MINUTES`].
pub const ROOMS_PER_CLIENT: u32 = 20;

/// Messages per second of one socket, unless the operator says otherwise: twice the readings of a phone.
pub const MESSAGES_PER_SECOND: u32 = 120;

/// The most messages per second that can be set: more would keep a core busy.
pub const MAX_MESSAGES_PER_SECOND: u32 = 10_000;

/// The time over which messages are averaged: what a phone had sent while the network was down arrives all at once.
pub const MESSAGES_WINDOW: Duration = Duration::from_secs(10);

/// Bytes of a message, unless the operator says otherwise: a reading has less than a hundred.
pub const MESSAGE_BYTES: u32 = 4 << 10;

/// The most bytes of a message that can be set.
pub const MAX_MESSAGE_BYTES: u32 = 32 << 10;

/// Bytes at which the gateway stops to read a message, before it is in memory as a whole. Between this and
/// [`Limits::message_bytes`] the room closes the socket with a reason that names the limit.
pub const GATEWAY_MESSAGE_BYTES: u32 = 64 << 10;

// A message with its player's number in front still passes the gateway.
const _: () = assert!(MAX_MESSAGE_BYTES + 64 <= GATEWAY_MESSAGE_BYTES);

/// Minutes until a room whose screen is away ends, unless the operator says otherwise: enough to restart a computer.
pub const EMPTY_MINUTES: u32 = 10;

/// The most minutes that can be set: a room ends after [`LIFETIME`] anyway.
pub const MAX_EMPTY_MINUTES: u32 = 24 * 60;

/// An alarm that is late by more than this was delayed by a server that was down: screens get their time to come back.
pub const LATE: Duration = Duration::from_mins(1);

/// How long a player who is away keeps the place. After that a newcomer may take it if the room is full.
pub const PLACE_KEPT: Duration = Duration::from_mins(5);

/// How often the hub draws a code before it gives up.
pub const ATTEMPTS: usize = 5;

/// How long a room and its code last.
pub const LIFETIME: Duration = Duration::from_hours(24);

/// How long a code is reserved for a room that is about to open.
pub const RESERVED: Duration = Duration::from_mins(1);

/// Expired codes that making a room deletes, at most.
pub const SWEPT: u32 = 100;
