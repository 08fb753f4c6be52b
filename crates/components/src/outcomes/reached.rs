//! The state that a chain has reached, and the step to its next outcome.

use abide::{Error, ErrorKind, Result};
use serde_json::Value;

use super::{Entry, Machine, OldOutcome, Schema};

/// The state that a chain has reached at one of its outcomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached<M> {
    /// The outcome; 0 before the first.
    pub seq: i64,
    /// When it was written, in milliseconds since 1970; 0 before the first.
    pub ts: i64,
    /// The state of the schema.
    pub state: &'static str,
    /// The machine.
    pub machine: M,
}

/// An outcome as it is stored: seq, action, outcome, version, data, ts.
pub(super) type Stored = (i64, String, String, u32, String, i64);

impl<M: Machine> Reached<M> {
    /// Before the first outcome.
    pub(super) fn start(schema: &Schema) -> Self {
        Self {
            seq: 0,
            ts: 0,
            state: schema.declaration().initial,
            machine: M::default(),
        }
    }

    /// Applies the next outcome of a chain.
    pub(super) fn step(&mut self, schema: &Schema, stored: Stored) -> Result<Entry> {
        let seq = self.seq + 1;
        let wrong = |text: &str| damaged(schema, seq, text);
        if stored.0 != seq {
            return Err(wrong(&format!("it is missing; the next is {}", stored.0)));
        }
        if stored.5 < self.ts {
            return Err(wrong("its time is before that of its predecessor"));
        }
        let entry = forward::<M>(stored).map_err(|error| wrong(error.message()))?;
        let Some(to) = schema.next(self.state, &entry.action, &entry.outcome) else {
            return Err(wrong(&format!(
                "`{}` with `{}` is not allowed in the state `{}`",
                entry.action, entry.outcome, self.state
            )));
        };
        self.apply(&entry, to)
            .map_err(|error| wrong(error.message()))?;
        Ok(entry)
    }

    /// Applies an outcome that leads to this state. After an error, discard the value.
    pub(super) fn apply(&mut self, entry: &Entry, to: &'static str) -> Result<()> {
        self.machine.apply(entry)?;
        (self.seq, self.ts, self.state) = (entry.seq, entry.ts, to);
        Ok(())
    }
}

/// Upcasts a stored outcome to the current version of the data.
pub(super) fn forward<M: Machine>(stored: Stored) -> Result<Entry> {
    let version = stored.3;
    if version == M::VERSION {
        return Ok(Entry::new(stored));
    }
    if version > M::VERSION || version == 0 {
        return Err(Error::with_kind(
            ErrorKind::Damaged,
            format!(
                "its data has version {version}, but this program knows only {}: run the program that wrote it, or a newer one",
                M::VERSION
            ),
        ));
    }
    let (seq, action, outcome, _, data, ts) = stored;
    let data: Value = serde_json::from_str(&data).map_err(Error::from_std)?;
    let mut old = OldOutcome {
        action,
        outcome,
        data,
    };
    for from in version..M::VERSION {
        M::upcast(from, &mut old)?;
    }
    let data = serde_json::to_string(&old.data).map_err(Error::from_std)?;
    Ok(Entry::new((
        seq,
        old.action,
        old.outcome,
        version,
        data,
        ts,
    )))
}

pub(super) fn damaged(schema: &Schema, seq: i64, text: &str) -> Error {
    Error::with_kind(
        ErrorKind::Damaged,
        format!(
            "the chain of the {} is damaged at outcome {seq}: {text}",
            schema.declaration().name
        ),
    )
}
