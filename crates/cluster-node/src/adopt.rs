//! Takes over what earlier owners have left, and forgets what was given away.

use std::{collections::BTreeMap, sync::Arc};

use abide_cluster::{Grant, Lsn, Part, SessionId, State, Tenancy};
use abide_storage::{EarlierLog, ErrorKind, Inherited, ShardClaim};
use tokio::{
    select,
    task::spawn_blocking,
    time::{sleep, timeout},
};
use tracing::warn;

use crate::{
    limits::{ASK_EVERY, RETRY_EVERY},
    member::storage_shard,
    shared::Shared,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Adopts what the session is granted, until the member ends.
pub(crate) async fn run(shared: Arc<Shared>) {
    while shared.ended().is_none() {
        let done = select! {
            done = adopt_all(&shared) => done,
            _ = shared.until_ended() => return,
        };
        if let Err(error) = done {
            warn!(%error, "shards are not served: trying again");
            sleep(RETRY_EVERY).await;
        } else {
            let _ = timeout(ASK_EVERY, shared.to_adopt.notified()).await;
        }
    }
}

async fn adopt_all(shared: &Arc<Shared>) -> Result<(), Failure> {
    if !given_away(shared).is_empty() {
        let shared = shared.clone();
        spawn_blocking(move || forget(&shared)).await??;
    }
    let granted = granted(shared);
    if granted.is_empty() {
        return Ok(());
    }
    let logs = read(shared, &granted).await?;
    let shared = shared.clone();
    spawn_blocking(move || claim(&shared, &granted, &logs)).await?
}

/// The shards that the store has and no longer serves.
fn given_away(shared: &Shared) -> Vec<Tenancy> {
    let session = shared.session();
    let is_served = |tenancy: &Tenancy| {
        let tenure = session.tenures().get(tenancy.shard);
        tenure
            .is_some_and(|own| own.generation == tenancy.generation && own.state == State::Serving)
    };
    let held = shared.held();
    held.values()
        .filter(|tenancy| !is_served(tenancy))
        .copied()
        .collect()
}

/// Forgets the shards that were given away, except those with objects that are still open.
fn forget(shared: &Shared) -> Result<(), Failure> {
    for tenancy in given_away(shared) {
        match shared.store.forget_shard(storage_shard(tenancy.shard)) {
            Ok(()) => {
                shared.held().remove(&tenancy.shard);
            }
            Err(error) if error.kind() == ErrorKind::Refused => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// What is to be adopted: the shards that are granted, and that the store does not have from an earlier tenure.
fn granted(shared: &Shared) -> Vec<Grant> {
    let session = shared.session();
    let held = shared.held();
    let tenures = session.tenures().iter();
    let adopting = tenures
        .filter(|(shard, tenure)| tenure.state == State::Adopting && !held.contains_key(shard));
    adopting
        .map(|(shard, tenure)| Grant {
            tenancy: Tenancy {
                shard,
                generation: tenure.generation,
            },
            since: tenure.since,
            parts: tenure.parts.clone(),
        })
        .collect()
}

/// The logs of earlier owners, where they have records of shards that are to be adopted.
#[derive(Default)]
struct Logs(BTreeMap<SessionId, Vec<Piece>>);

/// What is read of a log at once.
struct Piece {
    since: Lsn,
    until: Lsn,
    log: Arc<EarlierLog>,
}

impl Logs {
    fn of(&self, part: &Part) -> Result<Arc<EarlierLog>, Failure> {
        let pieces = self.0.get(&part.session).into_iter().flatten();
        let mut pieces =
            pieces.filter(|piece| piece.since <= part.since && piece.until >= part.until);
        let piece = pieces.next().ok_or("a part was not read")?;
        Ok(piece.log.clone())
    }
}

/// The ranges that have all parts, each as long as parts overlap or touch.
fn ranges(parts: &[Part]) -> BTreeMap<SessionId, Vec<(Lsn, Lsn)>> {
    let mut sorted: Vec<_> = parts.iter().collect();
    sorted.sort_by_key(|part| (part.session, part.since));
    let mut ranges: BTreeMap<SessionId, Vec<(Lsn, Lsn)>> = BTreeMap::new();
    for part in sorted {
        let of_session = ranges.entry(part.session).or_default();
        match of_session.last_mut() {
            Some((_, until)) if part.since <= *until => *until = part.until.max(*until),
            _ => of_session.push((part.since, part.until)),
        }
    }
    ranges
}

/// Reads each log once, whichever of its shards are granted.
async fn read(shared: &Shared, granted: &[Grant]) -> Result<Logs, Failure> {
    let parts = granted.iter().flat_map(|grant| &grant.parts);
    let parts: Vec<Part> = parts.copied().collect();
    let mut logs = Logs::default();
    for (session, ranges) in ranges(&parts) {
        for (since, until) in ranges {
            let mut groups: Vec<Arc<[u8]>> = Vec::new();
            let reading = shared.database.read(session, since, until, |_, _, group| {
                groups.push(group.into())
            });
            reading.await?;
            let log = spawn_blocking(move || EarlierLog::read(groups)).await??;
            logs.0.entry(session).or_default().push(Piece {
                since,
                until,
                log: Arc::new(log),
            });
        }
    }
    Ok(logs)
}

/// Has the store claim what is granted, and serves it.
fn claim(shared: &Shared, granted: &[Grant], logs: &Logs) -> Result<(), Failure> {
    for grant in granted {
        let inherited = grant.parts.iter().map(|part| {
            Ok(Inherited {
                generation: part.generation.0,
                since: part.since.0.into(),
                until: part.until.0.into(),
                log: logs.of(part)?,
            })
        });
        let tenancy = grant.tenancy;
        let claim = ShardClaim {
            shard: storage_shard(tenancy.shard),
            generation: tenancy.generation.0,
            since: grant.since.0.into(),
            inherited: inherited.collect::<Result<_, Failure>>()?,
        };
        shared.store.claim_shard(&claim)?;
        shared.held().insert(tenancy.shard, tenancy);
        // Nothing was logged if not: the session has ended.
        shared.session().adopted(tenancy);
    }
    Ok(())
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
        assert_eq!(ranges(&parts), expected.into());
    }
}
