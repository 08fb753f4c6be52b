//! A session that owns the history in the store: what it knows to be there, and the next manifest.
//!
//! Contract: [`Publisher::publish`] changes what the session knows only once the store has confirmed the manifest. If the response
//! was lost, the next attempt finds the manifest of the first, or creates its own, and the two may differ: what counts is what the
//! store has. A manifest counts if, after it was created, there is none with a higher number, and no piece of a later session.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use bytes::Bytes;

use crate::{
    Error, Manifest, Options, Published, Session, Snapshot, Store, StoredRun,
    claim::{Claim, manifest, numbers_from, superseded},
    directory::Notes,
    garbage::Garbage,
    key,
    key::Folder,
    manifest::Dropped,
    store::Creation,
    tail::Tail,
};

/// What the session knows.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub store: Store,
    notes: Arc<Notes>,
    pub tail: Arc<Tail>,
    /// Where its runs go.
    pub folder: Folder,
    /// The manifest in force.
    pub last: Option<Manifest>,
    /// The manifest in force is another's, or there is none.
    pub is_unclaimed: bool,
    /// Runs of this history that are in the store: the manifest in force lists them, or this session has written them.
    pub known: BTreeMap<u64, StoredRun>,
    /// Runs that the manifest in force lists and that were another's: this history may have the same.
    pub candidates: BTreeMap<u64, StoredRun>,
    /// Runs that this session has begun to write, and that no manifest lists.
    pub begun: BTreeMap<u64, Dropped>,
    /// Parts of these that the store has confirmed, with their CRC-32C.
    pub parts: HashMap<String, u32>,
    dropped: Vec<Dropped>,
    garbage: Garbage,
}

/// Whether the manifest in the store is the one that was to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Published,
    /// It is an earlier one: of this session, whose response was lost, or of an owner that this session has replaced.
    Earlier,
}

impl Publisher {
    /// Looks whose the history is. `end` is that of the log.
    pub(crate) async fn open(
        store: Store,
        notes: Arc<Notes>,
        session: Session,
        options: &Options,
        end: u64,
    ) -> Result<Self, Error> {
        if options.take_over {
            notes.change(|record| record.superseded_at = None).await?;
        }
        let record = notes.record().await;
        let claim = Claim::check(&store, &record, options.take_over).await?;
        let last = claim.newest;
        if let Some(last) = last.as_ref().filter(|_| !claim.is_taken_over) {
            let mark = last.mark();
            notes
                .change(move |record| record.note_published(mark))
                .await?;
        }
        let (is_taken_over, may_take_over) = (claim.is_taken_over, options.take_over);
        let tail = Tail::open(
            &store,
            &notes,
            session,
            last.as_ref(),
            is_taken_over,
            may_take_over,
            end,
        );
        let tail = Arc::new(tail.await?);
        let garbage = Garbage::new(store.machine(), &claim.manifests, options.keep);
        let mut publisher = Self {
            folder: Folder {
                writer: record.writer,
                base: 0,
                session,
            },
            is_unclaimed: claim.is_taken_over || last.is_none(),
            store,
            notes,
            tail,
            last: None,
            known: BTreeMap::new(),
            candidates: BTreeMap::new(),
            begun: BTreeMap::new(),
            parts: HashMap::new(),
            dropped: Vec::new(),
            garbage,
        };
        if let Some(last) = last {
            publisher.follow(last);
        }
        Ok(publisher)
    }

    /// Begins after a manifest of another session: what is in the store, it says.
    fn follow(&mut self, manifest: Manifest) {
        // What this session has written, its owner may take for leftovers of an earlier one.
        self.folder.base = manifest.number;
        self.known.clear();
        self.candidates.clear();
        self.begun.clear();
        self.parts.clear();
        let numbered = |run: &StoredRun| (run.number, run.clone());
        let (runs, staged) = (manifest.runs.iter(), manifest.staged.iter());
        if self.is_unclaimed {
            // Not those that are staged: the next manifest drops them.
            self.candidates.extend(runs.map(numbered));
        } else if manifest.is_foreign {
            self.candidates.extend(runs.map(numbered));
            self.known.extend(staged.map(numbered));
        } else {
            self.known.extend(manifest.listed().map(numbered));
        }
        self.dropped.clone_from(&manifest.dropped);
        self.last = Some(manifest);
    }

    /// The newest complete copy.
    pub(crate) fn published(&self) -> Option<Published> {
        let last = self.last.as_ref()?;
        last.content.as_ref()?;
        Some(Published {
            number: last.number,
            time: last.time,
            runs: last.runs.len() as u64,
            bytes: last.bytes(),
        })
    }

    /// True if the manifest in force has this snapshot.
    pub(crate) fn has(&self, snapshot: &Snapshot) -> bool {
        let Some(last) = self.last.as_ref().filter(|_| !self.is_unclaimed) else {
            return false;
        };
        let stored = last.runs.iter().map(|run| (run.number, run.bytes));
        let wanted = snapshot.runs.iter().map(|run| (run.number, run.bytes));
        !last.is_foreign
            && !self.tail.wants_manifest()
            && last.content.as_ref() == Some(&snapshot.content)
            && stored.collect::<BTreeSet<_>>() == wanted.collect()
    }

    /// Makes a run known that a restore has left in the store, which the directory does not have.
    pub(crate) fn adopt(&mut self, run: &StoredRun) -> Result<(), Error> {
        if self.known.get(&run.number) == Some(run) {
            return Ok(());
        }
        let mut listed = self.last.iter().flat_map(Manifest::listed);
        // An owner that was sealed may have published one more manifest, and has deleted nothing after it.
        let mut dropped = self.dropped.iter();
        if !listed.any(|listed| listed == run) && !dropped.any(|dropped| dropped.key == run.key) {
            return Err(Error::store(
                format!("run {}", run.number),
                format!(
                    "this directory has it in another store alone, and {} does not list it: set archive.url to that store",
                    self.store.location()
                ),
            ));
        }
        // From now on, every manifest lists it again.
        self.dropped.retain(|dropped| dropped.key != run.key);
        self.candidates.remove(&run.number);
        self.known.insert(run.number, run.clone());
        Ok(())
    }

    /// Publishes that all runs of a snapshot, which are known, are its copy.
    pub(crate) async fn publish(&mut self, snapshot: &Snapshot) -> Result<Outcome, Error> {
        let runs = snapshot.runs.iter().map(|run| {
            let known = self.known.get(&run.number).cloned();
            let number = run.number;
            known.ok_or_else(|| Error::store(format!("run {number}"), "it is not in the store"))
        });
        let runs: Vec<_> = runs.collect::<Result<_, _>>()?;
        let mut next = self.next();
        let listed: BTreeSet<&str> = runs.iter().map(|run| &*run.key).collect();
        let before = next.number - 1;
        let last = self.last.iter().flat_map(Manifest::listed);
        let last = last.map(|run| Dropped {
            key: run.key.clone(),
            bytes: run.bytes,
            part: run.part,
            last: before,
        });
        // The first mention of a key counts.
        let all = self.dropped.iter().cloned();
        let all = all.chain(last).chain(self.begun.values().cloned());
        let mut seen = BTreeSet::new();
        next.dropped = all
            .filter(|run| !listed.contains(&*run.key) && seen.insert(run.key.clone()))
            .map(|run| Dropped {
                last: run.last.min(before),
                ..run
            })
            .collect();
        next.runs = runs;
        next.staged = Vec::new();
        next.is_foreign = false;
        next.content = Some(snapshot.content.clone());
        next.time = snapshot.time;
        next.end = snapshot.end;
        self.tail.begin(&self.notes).await?;
        next.tail = Some(self.tail.mark(snapshot.end));
        let outcome = self.create(next).await?;
        if outcome == Outcome::Published {
            let last = self.last.iter().flat_map(Manifest::listed);
            let listed: BTreeSet<&str> = last.map(|run| &*run.key).collect();
            self.known.retain(|_, run| listed.contains(&*run.key));
            self.begun.clear();
            self.parts.clear();
            self.candidates.clear();
        }
        Ok(outcome)
    }

    /// Publishes that the runs that are known are in the store, and leaves the newest copy as it is.
    pub(crate) async fn stage(&mut self) -> Result<Outcome, Error> {
        self.tail.begin(&self.notes).await?;
        let mut next = self.next();
        let copied: BTreeSet<&str> = next.runs.iter().map(|run| &*run.key).collect();
        let known = self.known.values();
        next.staged = known
            .filter(|run| !copied.contains(&*run.key))
            .cloned()
            .collect();
        // A run that the last manifest staged and that is no longer known.
        let kept: BTreeSet<String> = next.listed().map(|run| run.key.clone()).collect();
        let last = self.last.iter().flat_map(Manifest::listed);
        let gone = last.filter(|run| !kept.contains(&run.key));
        let before = next.number - 1;
        next.dropped.extend(gone.map(|run| Dropped {
            key: run.key.clone(),
            bytes: run.bytes,
            part: run.part,
            last: before,
        }));
        self.create(next).await
    }

    /// The next manifest, with the copy of the last.
    fn next(&self) -> Manifest {
        let Folder {
            writer, session, ..
        } = self.folder;
        let last = self.last.as_ref();
        let mut writers = last.map(|last| last.writers.clone()).unwrap_or_default();
        writers.extend(last.map(|last| last.writer));
        writers.insert(writer);
        Manifest {
            number: last.map_or(0, |last| last.number) + 1,
            writer,
            session,
            time: last.map_or_else(|| self.store.machine().wall_time(), |last| last.time),
            runs: last.map(|last| last.runs.clone()).unwrap_or_default(),
            content: last.and_then(|last| last.content.clone()),
            end: last.map_or(0, |last| last.end),
            tail: last.and_then(|last| last.tail),
            staged: Vec::new(),
            dropped: self.dropped.clone(),
            is_foreign: last.is_some_and(|last| self.is_unclaimed || last.is_foreign),
            writers,
        }
    }

    async fn create(&mut self, next: Manifest) -> Result<Outcome, Error> {
        debug_assert!(!next.contradicts_itself(), "{next:?}");
        let number = next.number;
        self.check_last().await?;
        let mark = next.mark();
        let before = self.notes.record().await;
        self.notes
            .change(move |record| record.note_tried(mark))
            .await?;
        let bytes = Bytes::from(next.encode()?);
        let created = self.store.create(&key::manifest(number), bytes).await?;
        let (manifest, outcome) = if created == Creation::Made {
            (next, Outcome::Published)
        } else {
            // Its own, if a response was lost; or that of an owner that this session has replaced, which has come late.
            let there = manifest(&self.store, number).await?;
            if there.session != self.folder.session {
                if self.store.replaces() {
                    return Err(Error::Owned(superseded(&self.store, &there)));
                }
                self.tail.must_be_newest().await?;
                self.is_unclaimed = !before.knows(there.mark());
                self.follow(there.clone());
            }
            let is_same = there == next;
            let outcome = if is_same {
                Outcome::Published
            } else {
                Outcome::Earlier
            };
            (there, outcome)
        };
        self.check_newest(number).await?;
        // A restore that has sealed the tail may have looked for the newest manifest before this one was there.
        self.tail.must_be_newest().await?;
        self.garbage.published(self.store.machine(), number);
        self.dropped.clone_from(&manifest.dropped);
        // What a manifest has dropped is listed by none again.
        let dropped: BTreeSet<&str> = self.dropped.iter().map(|run| &*run.key).collect();
        self.known.retain(|_, run| !dropped.contains(&*run.key));
        self.begun.retain(|_, run| !dropped.contains(&*run.key));
        if manifest.content.is_some() && !manifest.is_foreign {
            self.tail.published(&manifest);
        }
        let mark = manifest.mark();
        let is_own = manifest.session == self.folder.session || before.knows(mark);
        self.is_unclaimed &= !is_own;
        self.last = Some(manifest);
        if is_own {
            self.notes
                .change(move |record| record.note_published(mark))
                .await?;
        }
        Ok(outcome)
    }

    /// A number that is free may have been another's whose manifest was deleted: an owner that slept for longer than manifests are
    /// kept. Then there is a higher one, since the newest is never deleted.
    async fn check_newest(&self, number: u64) -> Result<(), Error> {
        let last = self.last.as_ref().map(|last| last.number);
        let last = last.filter(|last| *last < number);
        let there = numbers_from(&self.store, last.unwrap_or(number)).await?;
        if let Some(newest) = there.iter().copied().rfind(|there| *there > number) {
            let newest = manifest(&self.store, newest).await?;
            return Err(Error::Owned(superseded(&self.store, &newest)));
        }
        let Some(last) = last.filter(|last| !there.contains(last)) else {
            return Ok(());
        };
        self.tail.doubt();
        // The new one lists what is not there: it must not be restored, and this node must not continue from it.
        self.store.delete(&[key::manifest(number)]).await?;
        Err(Error::store(
            format!(
                "reading {} in {}",
                key::manifest(last),
                self.store.location()
            ),
            "it is no longer there, although this node has written it: the store was emptied, or another volume is mounted there. \
             Bring it back, or restart the node to copy everything again",
        ))
    }

    /// A store that replaces what exists may have lost the last manifest to another's.
    async fn check_last(&self) -> Result<(), Error> {
        let Some(last) = self.last.as_ref().filter(|_| self.store.replaces()) else {
            return Ok(());
        };
        let there = manifest(&self.store, last.number).await?;
        if there.session == last.session {
            return Ok(());
        }
        Err(Error::Owned(superseded(&self.store, &there)))
    }

    /// Deletes some of what is no longer needed. Only after a manifest of this session.
    pub(crate) async fn collect(&mut self) -> Result<(), Error> {
        let Some(last) = self.last.as_ref() else {
            return Ok(());
        };
        if last.session != self.folder.session {
            return Ok(());
        }
        let dropped = &mut self.dropped;
        self.garbage
            .collect(&self.store, self.folder, last, dropped)
            .await?;
        self.tail.collect().await
    }
}
