//! Copies what the store has logged, and what it has inherited, into runs of history. Then logs need not keep it.
//!
//! The records are read from the database, where those of earlier owners are, too. A run ends at a checkpoint of the store: what follows
//! in the log can be read without what is in the run.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use abide_cluster::{Lsn, Part, Run, Session, Shard, State, Stored};
use tokio::{runtime::Runtime, select, time::sleep};
use tracing::error;

use crate::{
    limits::{ASK_EVERY, MAX_RETRY_PAUSE, MOVE_PATIENCE, RETRY_EVERY, RUN_BYTES},
    logs::Logs,
    member::storage_shard,
    runs::{Runs, Written, must_be_own_store, new_number, upload},
    shared::{Shared, blocking, until_ended},
};

/// Makes runs until the member ends. For a separate thread, so that renewals of the lease do not wait for it.
pub(crate) fn run(shared: &Arc<Shared>, runtime: &Runtime) {
    until_ended(shared, runtime, make_all(shared));
}

async fn make_all(shared: &Arc<Shared>) {
    let (mut checkpoints, mut pause) = (Checkpoints::default(), RETRY_EVERY);
    let mut last: Option<Instant> = None;
    loop {
        sleep(ASK_EVERY).await;
        checkpoints.note(Lsn(shared.store.checkpointed().get()));
        let is_due = last.is_none_or(|last| last.elapsed() >= shared.run_every);
        let planned = is_due.then(|| plan(shared, &mut checkpoints)).flatten();
        let Some((parts, run)) = planned else {
            continue;
        };
        let made = select! {
            made = make(shared, &parts) => made,
            () = has_to_give(shared) => {
                // Another attempt follows once the shard is given away.
                shared.session().abandon_run(run.number);
                continue;
            }
        };
        match made {
            Ok(stored) => {
                shared.session().uploaded(run.number, stored);
                *shared.unarchived() = None;
                shared.to_say.notify_waiters();
                // What a store that was out of reach has missed follows at once.
                last = (!checkpoints.has_after(run.until)).then(Instant::now);
                pause = RETRY_EVERY;
            }
            Err(why) => {
                error!(
                    why,
                    "a run of history was not made, and is tried again: until then the log in the database grows"
                );
                shared.session().abandon_run(run.number);
                *shared.unarchived() = Some(why);
                sleep(pause).await;
                pause = MAX_RETRY_PAUSE.min(pause * 2);
            }
        }
    }
}

/// Plans the next run, and says what it has of each shard.
fn plan(shared: &Shared, checkpoints: &mut Checkpoints) -> Option<(Vec<(Shard, Part)>, Run)> {
    // A shard that is being claimed is served by the store a moment before the session knows it.
    let _none = shared.claiming();
    let session = &mut shared.session();
    let until = checkpoints.next(session.archived(), session.durable());
    let run = session.plan_run(until)?;
    Some((parts(session, &run), run))
}

/// Returns after a while in which a shard could not be given away.
async fn has_to_give(shared: &Shared) {
    let is_giving = || {
        let session = shared.session();
        let mut tenures = session.tenures().iter();
        tenures.any(|(_, tenure)| matches!(tenure.state, State::Closed { .. }))
    };
    let mut waited = Duration::ZERO;
    while waited < MOVE_PATIENCE {
        sleep(ASK_EVERY).await;
        waited = if is_giving() {
            waited + ASK_EVERY
        } else {
            Duration::ZERO
        };
    }
}

/// What a run has of each shard, in the order of its tenures: what was inherited, and then the session's own records.
fn parts(session: &Session, run: &Run) -> Vec<(Shard, Part)> {
    let own = run.tenancies.iter().filter_map(|tenancy| {
        let tenure = session.tenures().get(tenancy.shard)?;
        let part = Part {
            generation: tenancy.generation,
            session: session.id(),
            since: tenure.since.max(run.since),
            until: run.until,
        };
        (part.since < part.until).then_some((tenancy.shard, part))
    });
    run.parts.iter().copied().chain(own).collect()
}

/// Makes a run and puts it into the object store. `None` if it has no records.
async fn make(shared: &Arc<Shared>, parts: &[(Shard, Part)]) -> Result<Option<Stored>, String> {
    // Before what the logs have is read.
    must_be_own_store(shared).await?;
    // What the run continues is in those that are listed.
    Runs::list(shared).await?;
    let logs = Logs::read(shared, parts.iter().copied()).await;
    let tenures = parts
        .iter()
        .map(|(shard, part)| Ok((storage_shard(*shard), logs.of(part)?)));
    let tenures = tenures.collect::<Result<Vec<_>, String>>()?;
    let number = new_number()?;
    let written = blocking(shared, move |shared| {
        let written = shared.store.write_run(number, &tenures);
        written.map(|run| run.map(Written))
    });
    let written = written.await.ok_or("writing it panicked")?;
    let written = written.map_err(|error| error.to_string())?;
    match written {
        Some(written) => upload(shared, number, written).await.map(Some),
        None => Ok(None),
    }
}

/// The checkpoints of the store after which no run ends yet.
#[derive(Default)]
struct Checkpoints(VecDeque<Lsn>);

impl Checkpoints {
    fn note(&mut self, at: Lsn) {
        if self.0.back().is_none_or(|last| *last < at) {
            self.0.push_back(at);
        }
    }

    /// Where the next run ends, which begins at `archived`: at the last checkpoint that [`RUN_BYTES`] permit, or else at the first one, and
    /// not after what is durable. At `archived` if there is none.
    fn next(&mut self, archived: Lsn, durable: Lsn) -> Lsn {
        self.0.retain(|at| *at > archived);
        let most = Lsn(archived.0.saturating_add(RUN_BYTES));
        let durable = self.0.iter().filter(|at| **at <= durable);
        let within = durable.clone().rev().find(|at| **at <= most);
        within
            .or(durable.clone().next())
            .copied()
            .unwrap_or(archived)
    }

    fn has_after(&self, at: Lsn) -> bool {
        self.0.back().is_some_and(|last| *last > at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_at_the_last_checkpoint_that_its_bound_permits() {
        let mut checkpoints = Checkpoints::default();
        let at = |part: u64| Lsn(RUN_BYTES * part / 4);
        assert_eq!(checkpoints.next(at(0), at(9)), at(0));
        for part in [1, 1, 3, 5, 12] {
            checkpoints.note(at(part));
        }
        assert!(checkpoints.has_after(at(11)) && !checkpoints.has_after(at(12)));
        let ends = [
            (0, 9, 3),
            (0, 2, 1),
            (0, 0, 0),
            (1, 9, 5),
            (5, 11, 5),
            (5, 12, 12),
            (12, 12, 12),
        ];
        for (archived, durable, end) in ends {
            let next = checkpoints.next(at(archived), at(durable));
            assert_eq!(next, at(end), "from {archived}, {durable} are durable");
        }
    }
}
