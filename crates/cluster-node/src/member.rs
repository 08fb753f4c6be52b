//! One start of one process.

use std::{
    fmt,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use abide_cluster::{Connection, Lsn, Reads, Session, SessionId, Shard, Tenancy};
use abide_cluster_postgres::Database;
use abide_history::is_marked;
use abide_remote_runs::StoredRuns;
use abide_storage::{
    ArchiveOptions, LOG_DIR, RealDisk, RemoteRuns, SharedNamespaces, Store, StoreOptions,
};
use tokio::{
    runtime::{Builder, Runtime},
    task::spawn_blocking,
    time::timeout,
};
use tracing::{error, info, warn};

use crate::{
    End, Home, JoinError, Lease, Owners, Settings, adopt, archive, clock, home, lane,
    limits::{LEAVE_PATIENCE, MARK_PATIENCE, MAX_CLOCK_DIFFERENCE, RUN_BYTES},
    merges,
    namespaces::Namespaces,
    shared::Shared,
    talk,
    unsynced_log::UnsyncedLog,
};

/// A member of a cluster: one start of one process, with a store for the objects of its shards.
///
/// An answer may leave when the store is durable up to the position of what it shows ([`Store::durable`]), and, unless it is the answer to
/// a write, when [`Member::may_release`] permits it.
///
/// All members have one wall clock: the database's, as it was ahead of the machine's when the member joined. It is the store's
/// ([`Store::unix_millis`]), and must be that of a node on the store.
///
/// When the member [ends](Member::ended), the process must end: nothing that it still computes counts. A process that stops in order
/// ends its objects, and then [leaves](Member::leave).
pub struct Member {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("session", &self.session())
            .field("end", &self.end())
            .finish_non_exhaustive()
    }
}

impl Member {
    /// Begins a session, and opens an empty store. `options` are those of the store, of which this sets what a cluster needs. Blocks: not for
    /// a thread that runs asynchronous tasks.
    ///
    /// # Errors
    /// See [`JoinError`].
    pub fn join(
        mut home: Home,
        settings: Settings,
        options: StoreOptions,
    ) -> Result<Self, JoinError> {
        let attempt = home.attempt()?;
        let nonce = home::random()?;
        let (lane_runtime, archive_runtime) = (new_runtime()?, new_runtime()?);
        let (merges_runtime, runtime) = (new_runtime()?, new_runtime()?);
        let database = &settings.database;
        let cluster = runtime.block_on(database.cluster())?;
        runtime.block_on(must_not_be_of_others(&settings.runs, cluster))?;
        let of_machine = Arc::clone(&options.unix_millis);
        let ahead = runtime.block_on(clock_difference(database, &*of_machine))?;
        let clock = move || of_machine().saturating_add_signed(ahead);
        let options = options.unix_millis(Arc::new(clock));
        // What takes time comes first: others wait for the session from its beginning.
        let dir = home.session_dir()?;
        let namespaces: Arc<dyn SharedNamespaces> = Arc::new(Namespaces(database.clone()));
        let runs: Arc<dyn RemoteRuns> = Arc::new(StoredRuns::new(&settings.runs));
        // What follows a checkpoint is what others read when they take over.
        let checkpoint_bytes = options.checkpoint_bytes.min(RUN_BYTES);
        let options = options
            .claims_shards(true)
            .await_copy(true)
            .shared_namespaces(namespaces)
            .remote_runs(runs)
            .checkpoint_bytes(checkpoint_bytes)
            .archive(ArchiveOptions::default().enabled(false));
        let disk = UnsyncedLog::new(RealDisk, dir.join(LOG_DIR));
        let store = Store::open(Arc::new(disk), &dir, options)?;
        let begun_at = clock::now();
        let begun = runtime.block_on(database.begin(home.id(), attempt, nonce))?;
        let Some(me) = begun else {
            home.begin_anew()?;
            return Err(JoinError::Copied(home.dir().to_owned()));
        };
        if let Some(address) = &settings.address {
            runtime.block_on(settings.database.announce(me, address))?;
        }
        info!(session = me.number, "joined the cluster");
        let session = Session::begin(me, begun_at);
        let shared = Arc::new(Shared::new(session, store, cluster, settings, home));
        let mut member = Self {
            shared,
            threads: Vec::new(),
        };
        member.spawn("cluster-lane", move |shared| {
            lane::run(&shared, &lane_runtime);
            lane_runtime.shutdown_background();
        })?;
        member.spawn("cluster-runs", move |shared| {
            archive::run(&shared, &archive_runtime);
            archive_runtime.shutdown_background();
        })?;
        member.spawn("cluster-merges", move |shared| {
            merges::run(&shared, &merges_runtime);
            merges_runtime.shutdown_background();
        })?;
        member.spawn("cluster", move |shared| {
            runtime.block_on(talk_and_adopt(shared));
            runtime.shutdown_background();
        })?;
        Ok(member)
    }

    fn spawn(
        &mut self,
        name: &str,
        run: impl FnOnce(Arc<Shared>) + Send + 'static,
    ) -> Result<(), JoinError> {
        let shared = self.shared.clone();
        let spawned = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(shared));
        let thread = spawned.map_err(|error| JoinError::System(format!("no thread: {error}")))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Its store. It is not to be closed: drop the member, and nothing more is acknowledged.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// The name of its session.
    pub fn session(&self) -> SessionId {
        self.shared.session().id()
    }

    /// Whether it serves a shard: objects of others cannot be opened. A member that leaves or has ended serves none.
    pub fn serves(&self, shard: Shard) -> bool {
        self.end().is_none() && tenancy(&self.shared.session(), shard).is_some()
    }

    /// Where other members are.
    pub fn owners(&self) -> Owners {
        Owners::new(self.session(), self.shared.views())
    }

    /// How many shards it serves.
    pub fn shards(&self) -> usize {
        if self.end().is_some() {
            return 0;
        }
        let session = self.shared.session();
        let shards = session.tenures().iter().map(|(shard, _)| shard);
        shards
            .filter(|shard| tenancy(&session, *shard).is_some())
            .count()
    }

    /// Whether the answer to a read of an object of this shard may leave, which was computed at this time ([`now`](crate::now), read after
    /// it was computed). If not, ask again later, as long as the member [serves](Self::serves) the shard: an object that is open
    /// can still be read when its shard was given away.
    pub fn may_release(&self, shard: Shard, computed: Duration) -> bool {
        let (session, reads) = (self.shared.session(), self.shared.reads);
        let is_owner = tenancy(&session, shard).is_some() && self.end().is_none();
        is_owner && session.may_release(computed, reads, clock::now())
    }

    /// Its lease: without it, nothing may leave its objects. `None` with [`Reads::Confirmed`], for which no clock is enough: ask
    /// [`Member::may_release`].
    pub fn lease(&self) -> Option<Lease> {
        let is_enough = self.shared.reads == Reads::Leased;
        is_enough.then(|| Lease::new(self.shared.leases()))
    }

    /// Closes a shard in the log, and gives it to another session in the background. Returns false if the member does not serve it. If the
    /// other session does not take it, it comes back.
    ///
    /// Its objects should have ended before: those that are open can still be read, and what they say may be wrong
    /// ([`Member::may_release`]), but not written. The shard is forgotten once they are closed.
    pub fn give(&self, shard: Shard, to: SessionId) -> bool {
        let mut session = self.shared.session();
        let Some(tenancy) = tenancy(&session, shard) else {
            return false;
        };
        let until = match self.shared.store.close_shard(storage_shard(shard)) {
            Ok(until) => until,
            Err(error) => {
                error!(%error, shard = shard.0, "a shard that is served is not open in the store");
                return false;
            }
        };
        let is_closed = session.close_at(tenancy, to, Lsn(until.get()));
        drop(session);
        self.shared.to_say.notify_waiters();
        self.shared.to_adopt.notify_one();
        is_closed
    }

    /// Leaves the cluster: others take its shards at once, and need not wait until it has been silent for long. What was committed is in
    /// the database before. From now on it answers nothing and commits nothing, so its objects should have ended. Needs a tokio runtime
    /// with time.
    ///
    /// Returns true once it has left. Returns false if it has ended in another way, or if the database has not answered within
    /// [`LEAVE_PATIENCE`]: others then wait for the silence, which may have begun.
    pub async fn leave(&self) -> bool {
        self.shared.stop();
        let shared = self.shared.clone();
        let closing = spawn_blocking(move || shared.leave());
        let leaving = async {
            let _ = closing.await;
            self.shared.until_ended().await
        };
        timeout(LEAVE_PATIENCE, leaving).await == Ok(End::Left)
    }

    /// The shards that the session owns and cannot serve, and why. It tries again.
    pub fn unserved(&self) -> Vec<(Shard, String)> {
        let unserved = self.shared.unserved();
        let told = unserved.iter();
        told.map(|(shard, of)| (*shard, of.why.clone())).collect()
    }

    /// Why what it has logged is in no run of history, if the last attempt to make one has failed. It tries again, and its log in the
    /// database grows until it succeeds.
    pub fn unarchived(&self) -> Option<String> {
        self.shared.unarchived().clone()
    }

    /// Why it has ended or ends, if it does. Known before its store fails for this reason.
    pub fn end(&self) -> Option<End> {
        self.shared.ended()
    }

    /// Waits until it has ended. Nothing is acknowledged afterwards.
    pub async fn ended(&self) -> End {
        self.shared.until_ended().await
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.shared.end(End::Left);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The tenure in which a session serves a shard, if it does.
fn tenancy(session: &Session, shard: Shard) -> Option<Tenancy> {
    let tenure = session.tenures().get(shard)?;
    let generation = tenure.generation;
    let tenancy = Tenancy { shard, generation };
    session.admits(tenancy).then_some(tenancy)
}

async fn talk_and_adopt(shared: Arc<Shared>) {
    let lease = tokio::spawn(talk::run(shared.clone(), Connection::Lease));
    let control = tokio::spawn(talk::run(shared.clone(), Connection::Control));
    adopt::run(shared).await;
    let _ = tokio::join!(lease, control);
}

/// Refuses a cluster whose runs are elsewhere, unless the object store does not answer.
async fn must_not_be_of_others(
    runs: &abide_history::Store,
    cluster: u128,
) -> Result<(), JoinError> {
    match timeout(MARK_PATIENCE, is_marked(runs, cluster)).await {
        Ok(Err(error)) if error.is_refusal() => Err(JoinError::Runs(error.to_string())),
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => {
            warn!(%error, "the object store does not answer: joining the cluster without it");
            Ok(())
        }
        Err(_) => {
            warn!("the object store does not answer: joining the cluster without it");
            Ok(())
        }
    }
}

/// How many milliseconds the database's clock is ahead of this machine's.
async fn clock_difference(
    database: &Database,
    of_machine: &(dyn Fn() -> u64 + Send + Sync),
) -> Result<i64, JoinError> {
    let ahead = database.ahead_of(of_machine).await?;
    if u128::from(ahead.unsigned_abs()) > MAX_CLOCK_DIFFERENCE.as_millis() {
        return Err(JoinError::Clock(ahead));
    }
    Ok(ahead)
}

pub(crate) fn new_runtime() -> Result<Runtime, JoinError> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|error| JoinError::System(format!("no runtime: {error}")))
}

/// Both crates number shards by the first bits of ids.
pub(crate) fn storage_shard(shard: Shard) -> abide_storage::Shard {
    abide_storage::Shard::new(shard.0).unwrap_or_default()
}

const _: () = assert!(abide_cluster::SHARDS == abide_storage::Shard::SHARDS);
