//! Keeps the list of runs short, and copies it: one member at a time merges runs, writes the catalogue, and removes the runs that were
//! replaced.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use abide_history::remove_runs;
use tokio::{runtime::Runtime, select, time::sleep};
use tracing::{info, warn};

use crate::{
    catalogue,
    limits::{MAX_MERGE_PAUSE, MAX_RETRY_PAUSE, REMOVE_EVERY, RETRY_EVERY},
    runs::{Runs, Written, must_be_own_store, new_number, upload},
    shared::{Shared, blocking, until_ended},
};

/// Keeps the list until the member ends. For a separate thread: a merge can take minutes.
pub(crate) fn run(shared: &Arc<Shared>, runtime: &Runtime) {
    until_ended(shared, runtime, keep(shared));
}

async fn keep(shared: &Arc<Shared>) {
    let (mut keeper, mut pause) = (Keeper::new(shared), RETRY_EVERY);
    loop {
        sleep(shared.run_every).await;
        match keeper.look().await {
            Ok(()) => pause = RETRY_EVERY,
            Err(why) => {
                warn!(why, "the list of runs is not kept now; it is tried again");
                sleep(pause).await;
                pause = MAX_RETRY_PAUSE.min(pause * 2);
            }
        }
    }
}

struct Keeper<'a> {
    shared: &'a Arc<Shared>,
    /// The object store is known to have a catalogue up to here.
    catalogued: u64,
    /// When it last looked for runs to remove.
    removed: Option<Instant>,
    /// When merges have failed last, and for how long there are none since.
    failed: Option<(Instant, Duration)>,
}

impl<'a> Keeper<'a> {
    fn new(shared: &'a Arc<Shared>) -> Self {
        Self {
            shared,
            catalogued: 0,
            removed: None,
            failed: None,
        }
    }

    /// Takes the list, and does what is to be done about it, unless another member does.
    async fn look(&mut self) -> Result<(), String> {
        let shared = self.shared;
        let listed = Runs::list(shared).await?;
        let paused = |(since, pause): (Instant, Duration)| since.elapsed() < pause;
        let may_merge = !self.failed.is_some_and(paused) && shared.store.has_runs_to_merge();
        let may_remove = self.removed.is_none_or(|at| at.elapsed() >= REMOVE_EVERY);
        if listed <= self.catalogued && !may_merge && !may_remove {
            return Ok(());
        }
        let begun = shared.database.begin_merge(shared.id()).await;
        let Some(known) = begun.map_err(|error| error.to_string())? else {
            return Ok(());
        };
        self.catalogued = known;
        let done = self.tidy(may_merge).await;
        let ended = shared.database.end_merge(shared.id()).await;
        done.and(ended.map_err(|error| error.to_string()))
    }

    /// The catalogue comes first, since the more it lacks, the more is lost with the database. What was replaced is removed once the
    /// catalogue does not have it any more.
    async fn tidy(&mut self, may_merge: bool) -> Result<(), String> {
        must_be_own_store(self.shared).await?;
        self.renew_catalogue().await?;
        if may_merge {
            match self.merge_all().await {
                Ok(()) => self.failed = None,
                Err(why) => {
                    let last = self.failed.map_or(RETRY_EVERY, |(_, pause)| pause);
                    let pause = MAX_MERGE_PAUSE.min(last * 2);
                    self.failed = Some((Instant::now(), pause));
                    warn!(why, ?pause, "runs of history are not merged now");
                }
            }
        }
        remove(self.shared).await?;
        self.removed = Some(Instant::now());
        Ok(())
    }

    async fn renew_catalogue(&mut self) -> Result<(), String> {
        if Runs::list(self.shared).await? > self.catalogued {
            self.catalogued = catalogue::write(self.shared).await?;
        }
        Ok(())
    }

    /// Merges what can be merged. Meanwhile others list runs, and the catalogue is renewed.
    async fn merge_all(&mut self) -> Result<(), String> {
        let shared = self.shared;
        loop {
            let mut merging = pin!(merge(shared));
            let merged = loop {
                select! {
                    merged = &mut merging => break merged?,
                    () = sleep(shared.run_every) => {
                        if let Err(why) = self.renew_catalogue().await {
                            warn!(why, "the catalogue is not renewed while runs are merged");
                        }
                    }
                }
            };
            if !merged {
                return Ok(());
            }
            self.renew_catalogue().await?;
        }
    }
}

/// Merges some runs. Returns false if there are none to be merged.
async fn merge(shared: &Arc<Shared>) -> Result<bool, String> {
    let number = new_number()?;
    let merged = blocking(shared, move |shared| {
        let merged = shared.store.merge_runs(number);
        merged.map(|merged| merged.map(|merged| (Written(merged.run), merged.replaces)))
    });
    let merged = merged.await.ok_or("merging runs panicked")?;
    let Some((written, inputs)) = merged.map_err(|error| error.to_string())? else {
        return Ok(false);
    };
    let stored = upload(shared, number, written).await?;
    let (mut is_unknown, mut pause) = (false, RETRY_EVERY);
    let is_listed = loop {
        let replaced = shared.database.replace_runs(shared.id(), &inputs, &stored);
        match replaced.await {
            Ok(is_listed) => break is_listed,
            // Whether it is must be known before others are merged.
            Err(error) => warn!(%error, "it is unknown whether a merged run is listed"),
        }
        is_unknown = true;
        sleep(pause).await;
        pause = MAX_RETRY_PAUSE.min(pause * 2);
    };
    if !is_listed {
        // An earlier attempt may have listed it, if the session was fenced afterwards.
        if !is_unknown {
            let removed = remove_runs(&shared.object_store, &[stored.place]).await;
            removed.map_err(|error| error.to_string())?;
        }
        return Err("the runs are not listed any more, or the session has ended".to_owned());
    }
    info!(runs = inputs.len(), "merged runs of history");
    Ok(true)
}

/// Removes runs that no member reads any more.
async fn remove(shared: &Shared) -> Result<(), String> {
    let (database, id) = (&shared.database, shared.id());
    loop {
        let unread = database.unread_runs(id, shared.keep_replaced).await;
        let unread = unread.map_err(|error| error.to_string())?;
        if unread.is_empty() {
            return Ok(());
        }
        // A merge may have taken long.
        must_be_own_store(shared).await?;
        let removed = remove_runs(&shared.object_store, &unread).await;
        removed.map_err(|error| error.to_string())?;
        let removed = database.removed_runs(id, &unread).await;
        removed.map_err(|error| error.to_string())?;
    }
}
