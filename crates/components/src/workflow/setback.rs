//! Why a step waits for another attempt.

use serde::{Deserialize, Serialize};

use super::{Failure, FailureKind, failure};

/// What earlier attempts of a step mean for the next one. A row has it as JSON, in place of the failure alone.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Setback {
    /// Attempts that were throttled, and do not count.
    #[serde(default)]
    pub(super) throttled: u32,
    /// Since when each attempt was throttled, in milliseconds since 1970.
    #[serde(default)]
    pub(super) throttled_since: Option<i64>,
    /// True if the newest attempt was cut off: it may have ended the process.
    #[serde(default)]
    pub(super) cut_off: bool,
}

/// The stored form.
#[derive(Serialize)]
struct Stored<'a> {
    #[serde(flatten)]
    failure: Failure,
    #[serde(flatten)]
    setback: &'a Setback,
}

impl Setback {
    /// An attempt has failed.
    pub(super) fn failed(&mut self, failure: &Failure, now: i64) {
        self.cut_off = failure.kind() == FailureKind::CutOff;
        self.throttled_since = failure
            .kind()
            .is_no_attempt()
            .then(|| self.throttled_since.unwrap_or(now));
    }

    /// Parses the stored form.
    pub(super) fn from_json(text: Option<&str>) -> Self {
        let setback = text.and_then(|text| serde_json::from_str(text).ok());
        setback.unwrap_or_default()
    }

    /// The stored form, with the newest failure.
    pub(super) fn to_json(&self, failure: &Failure) -> String {
        let stored = Stored {
            failure: failure::shortened(failure),
            setback: self,
        };
        serde_json::to_string(&stored).unwrap_or_default()
    }
}
