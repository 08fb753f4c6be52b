//! A snapshot of a long chain; it avoids replaying the beginning.
//!
//! Contract: only the chain is authoritative. A snapshot may be missing, of other code, or damaged: then it is ignored.
//! It can be deleted at any time without loss.

use abide::Result;
use sha2::{Digest, Sha256};
use tracing::warn;

use super::{
    Machine, Schema, Until,
    chain::Chain,
    limits,
    reached::{Reached, damaged},
    tables,
};

impl Chain {
    /// The latest position from which a replay can start: the snapshot, if there is a usable one, or the beginning.
    pub(super) fn begin<M: Machine>(&self, until: Until) -> Result<Reached<M>> {
        let (seq, ts) = until.bounds();
        let snapshot = self.snapshot()?;
        let fits = |reached: &Reached<M>| reached.seq <= seq && reached.ts <= ts;
        Ok(snapshot
            .filter(fits)
            .unwrap_or_else(|| Reached::start(&self.schema)))
    }

    /// The snapshot, if there is a usable one.
    pub(super) fn snapshot<M: Machine>(&self) -> Result<Option<Reached<M>>> {
        if !tables::has_snapshot(self.sql.get()?)? {
            return Ok(None);
        }
        let rows = self.sql.exec(
            "SELECT seq, ts, state, machine, checksum FROM outcomes_snapshot",
            (),
        )?;
        // Anything in another format is not a snapshot of ours.
        let Ok(Some(row)) = rows.optional::<(i64, i64, String, String, Vec<u8>)>() else {
            return Ok(None);
        };
        let (seq, ts, state, text, sum) = row;
        let fits = sum == checksum::<M>(&self.schema, seq, ts, &state, &text);
        if !fits {
            return Ok(None);
        }
        let (Some(state), Ok(machine)) = (self.schema.state(&state), serde_json::from_str(&text))
        else {
            return Ok(None);
        };
        let last = self.last()?;
        if seq > last {
            // The snapshot is intact, so the chain has lost something.
            return Err(damaged(&self.schema, last + 1, "it is missing"));
        }
        Ok(Some(Reached {
            seq,
            ts,
            state,
            machine,
        }))
    }

    /// Takes a snapshot, replacing the previous one. If it would not deserialize to the same value, none is taken, and
    /// that is logged.
    pub(super) fn take_snapshot<M: Machine>(&self, reached: &Reached<M>) -> Result<()> {
        let text = match text(&reached.machine) {
            Ok(text) => text,
            Err(reason) => {
                let schema = self.schema.declaration().name;
                warn!(schema, seq = reached.seq, %reason, "no snapshot was taken");
                return Ok(());
            }
        };
        let Reached { seq, ts, state, .. } = reached;
        let sum = checksum::<M>(&self.schema, *seq, *ts, state, &text);
        tables::prepare_snapshot(self.sql.get()?)?;
        self.sql.exec(
            "INSERT OR REPLACE INTO outcomes_snapshot VALUES (1, ?1, ?2, ?3, ?4, ?5)",
            (*seq, *ts, *state, &text, sum),
        )?;
        Ok(())
    }

    pub(super) fn delete_snapshot(&self) -> Result<()> {
        if tables::has_snapshot(self.sql.get()?)? {
            self.sql.exec("DELETE FROM outcomes_snapshot", ())?;
        }
        Ok(())
    }
}

/// A serialized machine, if it deserializes to the same value.
fn text<M: Machine>(machine: &M) -> Result<String, String> {
    let text = serde_json::to_string(machine).map_err(|error| error.to_string())?;
    if text.len() > limits::MAX_SNAPSHOT_BYTES {
        return Err(format!("it has {} bytes", text.len()));
    }
    let again: M = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let again = serde_json::to_value(&again).map_err(|error| error.to_string())?;
    let first = serde_json::to_value(machine).map_err(|error| error.to_string())?;
    if again != first {
        return Err("it changes when it is serialized and deserialized".to_owned());
    }
    Ok(text)
}

/// It holds for one schema, one version of the data and one of the state.
fn checksum<M: Machine>(schema: &Schema, seq: i64, ts: i64, state: &str, text: &str) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(schema.hash());
    for version in [M::VERSION, M::STATE_VERSION] {
        hash.update(version.to_le_bytes());
    }
    for number in [seq, ts] {
        hash.update(number.to_le_bytes());
    }
    hash.update(state);
    hash.update([0]);
    hash.update(text);
    hash.finalize().to_vec()
}
