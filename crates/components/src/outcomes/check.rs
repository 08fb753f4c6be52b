//! Checks that a chain replays to the live state.

use abide::{Error, ErrorKind, Result};
use serde_json::Value;

use super::{Machine, Until, chain::Chain, reached::Reached};

/// A chain that replays to the live state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Checked {
    /// The number of outcomes.
    pub outcomes: i64,
    /// The state that they lead to.
    pub state: &'static str,
    /// The outcome of the snapshot that was also compared, if there is a usable one.
    pub snapshot: Option<i64>,
}

impl Chain {
    /// Replays the chain from its beginning and compares it with the live state, and with the snapshot on its path.
    pub(super) fn check<M: Machine>(&self, live: &Reached<M>) -> Result<Checked> {
        let snapshot = self.snapshot::<M>()?;
        let mut reached = Reached::<M>::start(&self.schema);
        self.replay(&mut reached, Until::End, |_, reached| match &snapshot {
            Some(snapshot) if snapshot.seq == reached.seq => {
                self.compare(reached, snapshot, "the snapshot")
            }
            _ => Ok(()),
        })?;
        self.compare(&reached, live, "the live state")?;
        Ok(Checked {
            outcomes: reached.seq,
            state: reached.state,
            snapshot: snapshot.map(|snapshot| snapshot.seq),
        })
    }

    fn compare<M: Machine>(
        &self,
        replayed: &Reached<M>,
        kept: &Reached<M>,
        what: &str,
    ) -> Result<()> {
        let differ = |text: String| {
            Err(Error::with_kind(
                ErrorKind::Damaged,
                format!(
                    "the replay of the chain of the {} differs from {what} at outcome {}: {text}",
                    self.schema.declaration().name,
                    kept.seq
                ),
            ))
        };
        let place = |reached: &Reached<M>| (reached.seq, reached.ts, reached.state);
        if place(replayed) != place(kept) {
            return differ(format!("{:?} and {:?}", place(replayed), place(kept)));
        }
        let value =
            |reached: &Reached<M>| serde_json::to_value(&reached.machine).map_err(Error::from_std);
        match difference(&value(replayed)?, &value(kept)?, "") {
            Some(text) => differ(text),
            None => Ok(()),
        }
    }
}

/// The first difference of two values, with its path.
fn difference(one: &Value, other: &Value, path: &str) -> Option<String> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let keys = one
                .keys()
                .chain(other.keys().filter(|key| !one.contains_key(*key)));
            let at = |map: &serde_json::Map<String, Value>, key: &str| {
                map.get(key).cloned().unwrap_or_default()
            };
            keys.into_iter().find_map(|key| {
                difference(&at(one, key), &at(other, key), &format!("{path}/{key}"))
            })
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let pairs = one.iter().zip(other).enumerate();
            pairs
                .into_iter()
                .find_map(|(i, (one, other))| difference(one, other, &format!("{path}/{i}")))
        }
        _ if one == other => None,
        _ => Some(format!("`{path}` is {one} and {other}")),
    }
}
