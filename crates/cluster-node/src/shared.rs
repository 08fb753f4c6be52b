//! What the threads of a member share.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::Duration,
};

use abide_cluster::{
    Answer, Connection, Lsn, Outcome, Reads, SHARDS, Session, SessionId, Shard, Tenancy, View,
};
use abide_cluster_postgres::{Database, Lines};
use abide_storage::Store;
use tokio::{
    runtime::Runtime,
    select,
    sync::{Notify, watch},
    task::spawn_blocking,
};

use crate::{End, Home, Settings, clock, member::storage_shard, runs::Runs};

/// A shard that the session owns and could not adopt.
pub(crate) struct Unserved {
    pub(crate) tenancy: Tenancy,
    pub(crate) why: String,
    /// Time from the last attempt to the next.
    pub(crate) pause: Duration,
    /// When the next attempt is due.
    pub(crate) next: Duration,
}

pub(crate) struct Shared {
    session: Mutex<Session>,
    unserved: Mutex<BTreeMap<Shard, Unserved>>,
    /// The shards that the store has, each in the generation in which it was claimed. Some are closed.
    held: Mutex<BTreeMap<Shard, Tenancy>>,
    claiming: Mutex<()>,
    /// Why the last attempt to make a run has failed.
    unarchived: Mutex<Option<String>>,
    pub(crate) store: Store,
    pub(crate) database: Database,
    pub(crate) lines: Lines,
    pub(crate) reads: Reads,
    /// The random name of the cluster.
    pub(crate) cluster: u128,
    /// The random id of the node's directory.
    pub(crate) node: u128,
    pub(crate) run_every: Duration,
    pub(crate) keep_replaced: Duration,
    /// Where runs are.
    pub(crate) object_store: abide_history::Store,
    pub(crate) runs: Runs,
    /// Known before the store fails: a program that finds it failed can tell why.
    end: OnceLock<End>,
    /// Told once the store has failed, so that nothing is acknowledged after it.
    has_ended: watch::Sender<bool>,
    /// When the session's lease ends, in milliseconds by [`now`](crate::now). 0 if it has none, leaves, or has ended.
    leased_until: watch::Sender<u64>,
    /// The tables, as last seen.
    view: watch::Sender<View>,
    /// There may be something to say.
    pub(crate) to_say: Notify,
    /// There may be something to adopt or to forget.
    pub(crate) to_adopt: Notify,
    /// Locked for as long as anything uses the store.
    _home: Home,
}

impl Shared {
    pub(crate) fn new(
        session: Session,
        store: Store,
        cluster: u128,
        settings: Settings,
        home: Home,
    ) -> Self {
        let Settings {
            database,
            runs: object_store,
            reads,
            run_every,
            keep_replaced,
            ..
        } = settings;
        Self {
            lines: Lines::new(database.clone(), session.id()),
            cluster,
            node: home.id(),
            run_every,
            keep_replaced,
            object_store,
            runs: Runs::default(),
            session: Mutex::new(session),
            held: Mutex::default(),
            unserved: Mutex::default(),
            claiming: Mutex::default(),
            unarchived: Mutex::default(),
            store,
            database,
            reads,
            end: OnceLock::new(),
            has_ended: watch::Sender::new(false),
            leased_until: watch::Sender::new(0),
            view: watch::Sender::new(View::default()),
            to_say: Notify::new(),
            to_adopt: Notify::new(),
            _home: home,
        }
    }

    pub(crate) fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of the session.
    pub(crate) fn id(&self) -> SessionId {
        self.session().id()
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, BTreeMap<Shard, Tenancy>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn unserved(&self) -> MutexGuard<'_, BTreeMap<Shard, Unserved>> {
        self.unserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn unarchived(&self) -> MutexGuard<'_, Option<String>> {
        self.unarchived
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the member: nothing is acknowledged any more. The first end counts.
    pub(crate) fn end(&self, end: End) {
        let (why, has_left) = (end.to_string(), end == End::Left);
        if self.end.set(end).is_err() {
            return;
        }
        self.leased_until.send_replace(0);
        if has_left {
            self.store.retire(&why);
        } else {
            self.store.fail(&why);
        }
        self.has_ended.send_replace(true);
    }

    /// Begins to leave: nothing is answered, and nothing more is adopted.
    pub(crate) fn stop(&self) {
        let mut session = self.session();
        session.stop();
        self.note_lease(&session);
    }

    /// Leaves with what the store has logged. Waits while a shard is being claimed.
    pub(crate) fn leave(&self) {
        let _none = self.claiming();
        for number in 0..SHARDS {
            // Refused if the store does not own it.
            let _ = self.store.close_shard(storage_shard(Shard(number)));
        }
        self.session().leave_at(Lsn(self.store.appended().get()));
        self.to_say.notify_waiters();
    }

    /// Held while the store claims a shard.
    pub(crate) fn claiming(&self) -> MutexGuard<'_, ()> {
        self.claiming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end, as soon as it has begun.
    pub(crate) fn ended(&self) -> Option<End> {
        self.end.get().cloned()
    }

    /// Waits until it has ended.
    pub(crate) async fn until_ended(&self) -> End {
        let mut has_ended = self.has_ended.subscribe();
        let _ = has_ended.wait_for(|has_ended| *has_ended).await;
        self.ended().unwrap_or(End::Left)
    }

    /// Takes what has become of a statement. Returns how far the session's log is durable, unless the session has ended.
    pub(crate) fn answered(&self, connection: Connection, outcome: Outcome) -> Option<Lsn> {
        if let Outcome::Done(Answer::View(view)) = &outcome {
            self.view.send_replace(view.clone());
        }
        let mut session = self.session();
        session.answered(connection, outcome, clock::now());
        let Some(ended) = session.ended() else {
            self.note_lease(&session);
            return Some(session.durable());
        };
        // The end runs code of others.
        drop(session);
        self.end(ended.into());
        None
    }

    /// The tables, as last seen.
    pub(crate) fn views(&self) -> watch::Receiver<View> {
        self.view.subscribe()
    }

    /// Publishes when the session's lease ends. The caller has locked the session.
    fn note_lease(&self, session: &Session) {
        let until = session.leased_until();
        let until = until.map_or(0, |until| until.as_millis() as u64);
        self.leased_until.send_if_modified(|known| {
            // Under the lock of `leased_until`, which the end takes once it is known.
            let is_over = self.ended().is_some();
            let is_new = !is_over && *known != until;
            if is_new {
                *known = until;
            }
            is_new
        });
    }

    /// The end of the lease, by [`now`](crate::now) in milliseconds, whenever it changes.
    pub(crate) fn leases(&self) -> watch::Receiver<u64> {
        self.leased_until.subscribe()
    }
}

/// Ends the member if it is dropped by a panic.
pub(crate) struct EndOnPanic<'a>(pub(crate) &'a Shared);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.end(End::Panicked);
        }
    }
}

/// Runs a thread of the member until that ends. If the work panics, the member ends.
pub(crate) fn until_ended(shared: &Shared, runtime: &Runtime, work: impl Future<Output = ()>) {
    let _guard = EndOnPanic(shared);
    runtime.block_on(async {
        select! {
            () = work => {}
            _ = shared.until_ended() => {}
        }
    });
}

/// Runs what blocks. If it panics, the member ends.
pub(crate) async fn blocking<T: Send + 'static>(
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
