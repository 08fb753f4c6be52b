//! What goes wrong with requests.

use std::{fmt, time::Duration};

/// The faults of a bucket. Those in percent meet a request each by chance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "any may come with any other")]
pub struct Faults {
    /// Percent: the answer takes `delay`.
    pub slow: u8,
    /// How long a slow answer takes.
    pub delay: Duration,
    /// Percent: 503 `SlowDown`, and nothing is done.
    pub slow_down: u8,
    /// Percent: the connection is cut while the request is sent, and nothing is done.
    pub cut_before: u8,
    /// Percent: the request is carried out, and the connection cut before its response.
    pub cut_after: u8,
    /// Percent: the connection is cut, and the request carried out at some later time.
    pub late: u8,
    /// Percent: a create is refused with 409, as one that another is under way for, although there is none.
    pub conflict: u8,
    /// Every request is refused with 403: the credentials have expired.
    pub expired: bool,
    /// Every delete is refused with 403: the credentials do not permit it.
    pub undeletable: bool,
    /// Every put is refused with 507: the bucket is full.
    pub full: bool,
    /// No connection is made.
    pub unreachable: bool,
    /// Conditions of puts are ignored.
    pub without_conditions: bool,
}

/// The connection is cut before a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection was cut")
    }
}

impl std::error::Error for Cut {}
