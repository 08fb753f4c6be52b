//! Reads what sessions have logged of shards.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use abide_cluster::{Lsn, Part, SessionId, Shard};
use abide_storage::{EarlierLog, Inherited};

use crate::{member::storage_shard, shared::Shared};

/// Ranges of logs.
#[derive(Default)]
pub(crate) struct Logs(BTreeMap<SessionId, Vec<Piece>>);

/// What is read of a log at once.
struct Piece {
    since: Lsn,
    until: Lsn,
    /// Or why it could not be read.
    log: Result<Arc<EarlierLog>, String>,
}

impl Logs {
    /// Reads the ranges that have all of these parts, each once, and keeps the records of their shards.
    pub(crate) async fn read(
        shared: &Arc<Shared>,
        parts: impl Iterator<Item = (Shard, Part)>,
    ) -> Self {
        let (shards, parts): (BTreeSet<Shard>, Vec<Part>) = parts.unzip();
        let mut logs = Self::default();
        for (session, ranges) in ranges(parts) {
            for (since, until) in ranges {
                let log = read(shared, session, since, until, &shards).await;
                let piece = Piece { since, until, log };
                logs.0.entry(session).or_default().push(piece);
            }
        }
        logs
    }

    /// The records of a part, for the store.
    pub(crate) fn of(&self, part: &Part) -> Result<Inherited, String> {
        let pieces = self.0.get(&part.session).into_iter().flatten();
        let mut pieces =
            pieces.filter(|piece| piece.since <= part.since && piece.until >= part.until);
        let piece = pieces.next().ok_or("a part was not read")?;
        Ok(Inherited {
            generation: part.generation.0,
            since: part.since.0.into(),
            until: part.until.0.into(),
            log: piece.log.clone()?,
        })
    }
}

/// The ranges that have all parts, each as long as parts overlap or touch.
fn ranges(mut parts: Vec<Part>) -> BTreeMap<SessionId, Vec<(Lsn, Lsn)>> {
    parts.sort_by_key(|part| (part.session, part.since));
    let mut ranges: BTreeMap<SessionId, Vec<(Lsn, Lsn)>> = BTreeMap::new();
    for part in parts {
        let of_session = ranges.entry(part.session).or_default();
        match of_session.last_mut() {
            Some((_, until)) if part.since <= *until => *until = part.until.max(*until),
            _ => of_session.push((part.since, part.until)),
        }
    }
    ranges
}

async fn read(
    shared: &Arc<Shared>,
    session: SessionId,
    since: Lsn,
    until: Lsn,
    shards: &BTreeSet<Shard>,
) -> Result<Arc<EarlierLog>, String> {
    let mut log = EarlierLog::of(shards.iter().copied().map(storage_shard));
    let mut added = Ok(());
    // A group has some MiB, whose checksums take about a millisecond.
    let take = |_, _, group: &[u8]| {
        if added.is_ok() {
            added = log.add(group);
        }
    };
    let read = shared.database.read(session, since, until, take).await;
    read.map_err(|error| error.to_string())?;
    added.map_err(|error| error.to_string())?;
    Ok(Arc::new(log))
}

#[cfg(test)]
mod tests {
    use super::*;
    use abide_cluster::Generation;

    #[test]
    fn parts_of_a_log_that_touch_are_read_once() {
        let session = |number| SessionId { number, nonce: 7 };
        let part = |number, since, until| Part {
            generation: Generation(1),
            session: session(number),
            since: Lsn(since),
            until: Lsn(until),
        };
        let parts = [
            part(1, 50, 60),
            part(1, 0, 10),
            part(2, 5, 9),
            part(1, 5, 20),
            part(1, 20, 30),
            part(1, 6, 8),
        ];
        let expected = [
            (session(1), vec![(Lsn(0), Lsn(30)), (Lsn(50), Lsn(60))]),
            (session(2), vec![(Lsn(5), Lsn(9))]),
        ];
        assert_eq!(ranges(parts.to_vec()), expected.into());
    }
}
