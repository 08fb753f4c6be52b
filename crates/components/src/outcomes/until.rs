//! How far a chain is replayed.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{OutcomesError, limits};

/// How far a chain is replayed. Its text form is `end`, a number, or a time such as `2026-02-01T12:00:00Z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Until {
    /// To its end.
    #[default]
    End,
    /// To this outcome; 0 is before the first.
    Seq(i64),
    /// To the last outcome at or before this time, in milliseconds since 1970.
    Time(i64),
}

impl Until {
    /// The last outcome and the latest time that it includes.
    pub(super) fn bounds(self) -> (i64, i64) {
        match self {
            Self::End => (i64::MAX, i64::MAX),
            Self::Seq(seq) => (seq, i64::MAX),
            Self::Time(time) => (i64::MAX, time),
        }
    }
}

impl FromStr for Until {
    type Err = OutcomesError;

    fn from_str(text: &str) -> Result<Self, OutcomesError> {
        if text == "end" {
            return Ok(Self::End);
        }
        if let Ok(seq) = text.parse() {
            return Ok(Self::Seq(seq));
        }
        match text.parse::<jiff::Timestamp>() {
            Ok(time) => Ok(Self::Time(time.as_millisecond())),
            Err(_) => Err(OutcomesError::Invalid(format!(
                "`{text}` is not a position in a chain: use `end`, the number of an outcome, or a time such as 2026-02-01T12:00:00Z"
            ))),
        }
    }
}

/// A time for people.
pub(super) fn shown(ts: i64) -> String {
    jiff::Timestamp::from_millisecond(ts.clamp(0, limits::MAX_TIME))
        .map_or_else(|_| ts.to_string(), |time| time.to_string())
}
