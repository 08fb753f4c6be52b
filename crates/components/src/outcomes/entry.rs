//! One outcome of a chain.

use abide::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::{Machine, Reached, Schema};

/// One outcome of a chain, upcast to the current version of the data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number in the chain, counted from 1.
    pub seq: i64,
    /// The action.
    pub action: String,
    /// The outcome.
    pub outcome: String,
    /// The version of the data when it was written.
    pub version: u32,
    /// When it was written, in milliseconds since 1970. It never decreases along a chain.
    pub ts: i64,
    /// The data as JSON text; serialized it is JSON itself.
    #[serde(with = "json")]
    data: String,
}

impl Entry {
    pub(super) fn new(
        (seq, action, outcome, version, data, ts): (i64, String, String, u32, String, i64),
    ) -> Self {
        Self {
            seq,
            action,
            outcome,
            version,
            ts,
            data,
        }
    }

    /// The data, deserialized.
    ///
    /// # Errors
    /// [`ErrorKind::Decode`] if it does not fit.
    pub fn data<'a, T: Deserialize<'a>>(&'a self) -> Result<T> {
        serde_json::from_str(&self.data).map_err(|error| {
            Error::with_kind(
                ErrorKind::Decode,
                format!(
                    "the data of `{}` is not a {}: {error}",
                    self.outcome,
                    std::any::type_name::<T>()
                ),
            )
        })
    }

    /// The data as JSON text.
    pub fn json(&self) -> &str {
        &self.data
    }
}

/// The state of a chain that does not belong to an object, with its outcomes as they were written: for a test that old
/// chains, kept as fixtures, still replay.
///
/// # Errors
/// [`ErrorKind::Damaged`] with the outcome at which the chain does not replay.
pub fn replay<M: Machine>(chain: impl IntoIterator<Item = Entry>) -> Result<Reached<M>> {
    let schema = Schema::of::<M>()?;
    let mut reached = Reached::start(&schema);
    for entry in chain {
        let Entry {
            seq,
            action,
            outcome,
            version,
            ts,
            data,
        } = entry;
        reached.step(&schema, (seq, action, outcome, version, data, ts))?;
    }
    Ok(reached)
}

/// JSON text that is serialized as the value it represents, in whatever format.
mod json {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
    use serde_json::Value;

    pub(super) fn serialize<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
        let value: Value = serde_json::from_str(text).map_err(ser::Error::custom)?;
        value.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
        let value = Value::deserialize(from)?;
        serde_json::to_string(&value).map_err(de::Error::custom)
    }
}
