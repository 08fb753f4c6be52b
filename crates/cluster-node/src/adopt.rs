//! Takes over what earlier owners have left, and forgets what was given away.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use abide_cluster::{Grant, Lsn, Part, SessionId, Shard, State, Tenancy};
use abide_storage::{EarlierLog, ErrorKind, Inherited, ShardClaim};
use tokio::{select, task::spawn_blocking, time::timeout};
use tracing::{error, warn};

use crate::{
    End, clock,
    limits::{ASK_EVERY, MAX_RETRY_PAUSE, RETRY_EVERY},
    member::storage_shard,
    shared::{EndOnPanic, Shared, Unserved},
};

/// Adopts what the session is granted, until the member ends.
pub(crate) async fn run(shared: Arc<Shared>) {
    let _guard = EndOnPanic(&shared);
    let (mut forgotten, mut pause) = (Duration::ZERO, RETRY_EVERY);
    while shared.ended().is_none() {
        select! {
            () = adopt_all(&shared) => {}
            _ = shared.until_ended() => return,
        }
        // An object of a shard may be open for long, and looking for it excludes checkpoints.
        if clock::now() >= forgotten + pause && !given_away(&shared).is_empty() {
            let is_well = blocking(&shared, forget).await == Some(true);
            forgotten = clock::now();
            pause = if is_well { RETRY_EVERY } else { longer(pause) };
        }
        let _ = timeout(ASK_EVERY, shared.to_adopt.notified()).await;
    }
}

/// Runs what blocks. If it panics, the member ends.
async fn blocking<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce(&Shared) -> T + Send + 'static,
) -> Option<T> {
    let shared = shared.clone();
    let done = spawn_blocking(move || {
        let _guard = EndOnPanic(&shared);
        work(&shared)
    });
    done.await.ok()
}

async fn adopt_all(shared: &Arc<Shared>) {
    let granted = granted(shared);
    if granted.is_empty() {
        return;
    }
    let logs = read(shared, &granted).await;
    blocking(shared, move |shared| claim_all(shared, &granted, &logs)).await;
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

/// Forgets the shards that were given away, except those with objects that are still open. Returns false if the disk failed.
fn forget(shared: &Shared) -> bool {
    let mut is_well = true;
    for tenancy in given_away(shared) {
        match shared.store.forget_shard(storage_shard(tenancy.shard)) {
            Ok(()) => {
                shared.held().remove(&tenancy.shard);
            }
            Err(error) if error.kind() == ErrorKind::Refused => {}
            Err(error) if error.kind() == ErrorKind::Input => {
                shared.end(End::Store(error.to_string()));
            }
            Err(error) => {
                warn!(%error, shard = tenancy.shard.0, "what is left of a shard stays");
                is_well = false;
            }
        }
    }
    is_well
}

/// What is to be adopted: the shards that are granted, and that the store does not have from an earlier tenure. Those that could not be
/// adopted have to wait.
fn granted(shared: &Shared) -> Vec<Grant> {
    let now = clock::now();
    let session = shared.session();
    if !session.is_active() {
        return Vec::new();
    }
    let held = shared.held();
    let mut unserved = shared.unserved();
    unserved.retain(|shard, of| {
        let tenure = session.tenures().get(*shard);
        tenure.is_some_and(|own| own.generation == of.tenancy.generation)
    });
    let is_due = |shard: Shard| unserved.get(&shard).is_none_or(|of| now >= of.next);
    let tenures = session.tenures().iter();
    let adopting = tenures.filter(|(shard, tenure)| {
        let is_free = !held.contains_key(shard) && is_due(*shard);
        tenure.state == State::Adopting && is_free
    });
    adopting
        .map(|(shard, tenure)| Grant {
            tenancy: Tenancy {
                shard,
                generation: tenure.generation,
            },
            since: tenure.since,
            floor: tenure.floor,
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
    /// Or why it could not be read.
    log: Result<Arc<EarlierLog>, String>,
}

impl Logs {
    fn of(&self, part: &Part) -> Result<Arc<EarlierLog>, String> {
        let pieces = self.0.get(&part.session).into_iter().flatten();
        let mut pieces =
            pieces.filter(|piece| piece.since <= part.since && piece.until >= part.until);
        let piece = pieces.next().ok_or("a part was not read")?;
        piece.log.clone()
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
async fn read(shared: &Arc<Shared>, granted: &[Grant]) -> Logs {
    let parts = granted.iter().flat_map(|grant| &grant.parts);
    let parts: Vec<Part> = parts.copied().collect();
    let mut logs = Logs::default();
    for (session, ranges) in ranges(&parts) {
        for (since, until) in ranges {
            let log = read_piece(shared, session, since, until).await;
            let piece = Piece { since, until, log };
            logs.0.entry(session).or_default().push(piece);
        }
    }
    logs
}

async fn read_piece(
    shared: &Arc<Shared>,
    session: SessionId,
    since: Lsn,
    until: Lsn,
) -> Result<Arc<EarlierLog>, String> {
    let mut groups: Vec<Arc<[u8]>> = Vec::new();
    let take = |_, _, group: &[u8]| groups.push(group.into());
    let read = shared.database.read(session, since, until, take).await;
    read.map_err(|error| error.to_string())?;
    let log = blocking(shared, |_| EarlierLog::read(groups)).await;
    let log = log.ok_or("reading it panicked")?;
    log.map(Arc::new).map_err(|error| error.to_string())
}

/// Has the store claim what is granted, and serves it. What cannot be claimed is noted, and stays for a later attempt.
fn claim_all(shared: &Shared, granted: &[Grant], logs: &Logs) {
    for grant in granted {
        let _claiming = shared.claiming();
        if shared.ended().is_some() || !shared.session().is_active() {
            return;
        }
        let tenancy = grant.tenancy;
        match claim(shared, grant, logs) {
            Ok(()) => {
                shared.unserved().remove(&tenancy.shard);
                shared.held().insert(tenancy.shard, tenancy);
                // The session has ended if not, and nothing was logged.
                shared.session().adopted(tenancy);
            }
            Err(why) => note_failure(shared, tenancy, why),
        }
    }
}

fn claim(shared: &Shared, grant: &Grant, logs: &Logs) -> Result<(), String> {
    let inherited = grant.parts.iter().map(|part| {
        Ok(Inherited {
            generation: part.generation.0,
            since: part.since.0.into(),
            until: part.until.0.into(),
            log: logs.of(part)?,
        })
    });
    let claim = ShardClaim {
        shard: storage_shard(grant.tenancy.shard),
        generation: grant.tenancy.generation.0,
        since: grant.since.0.into(),
        floor: grant.floor,
        inherited: inherited.collect::<Result<_, String>>()?,
    };
    let claimed = shared.store.claim_shard(&claim);
    claimed.map_err(|error| error.to_string())
}

fn note_failure(shared: &Shared, tenancy: Tenancy, why: String) {
    let mut unserved = shared.unserved();
    let known = unserved.get(&tenancy.shard);
    if known.is_none_or(|known| known.why != why) {
        error!(shard = tenancy.shard.0, why, "a shard is not served");
    }
    let pause = known.map_or(RETRY_EVERY, |known| longer(known.pause));
    let failure = Unserved {
        tenancy,
        why,
        pause,
        next: clock::now() + pause,
    };
    unserved.insert(tenancy.shard, failure);
}

/// The pause after one that was too short.
fn longer(pause: Duration) -> Duration {
    MAX_RETRY_PAUSE.min(pause.saturating_mul(2))
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
