//! What is deleted from the store, and why it is safe.
//!
//! All is decided after this session has created manifest N, which counts, and from N alone. In what follows, *listed* is what a
//! manifest lists as a run of its copy or as staged.
//!
//! - **A manifest** is deleted if its successor has been in force for [`Options::keep`](crate::Options::keep). The newest has no
//!   successor. Ages are differences of the store's own times, and of this process's clock since it began: a wall clock that is set
//!   does not matter. Manifests are deleted before the runs that only they list.
//! - **A dropped run**, which manifest N says that none after `last` lists, is deleted if every manifest up to `last` is. N does not
//!   list it. No later manifest will: by the fourth rule of this crate N + 1 lists what N lists and what its session has written
//!   since, and no one writes under this key again (its session writes each run once, and numbers do not come back).
//! - **A leftover** is an object in the folder of another session with a base below N, of this writer or of one from which it took
//!   over, that N neither lists nor has dropped. A session that is to create a manifest after N begins another folder when it follows
//!   N, whose base is N or later, and lists nothing of its older ones that N does not list. No other session lists what it
//!   did not write and N does not list.
//!
//! A request to delete that arrives late does no harm, because all three stay true forever.

use std::{
    collections::{BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use crate::{Error, Machine, Manifest, Store, key, key::Folder, manifest::Dropped, store::Entry};

/// The most that is deleted after one manifest: manifests, and as many objects of runs.
const AT_ONCE: usize = 200;

/// Before every manifest: the zero of the times here.
const EPOCH: Duration = Duration::from_hours(24 * 365 * 100);

/// What may be deleted later.
#[derive(Debug)]
pub(crate) struct Garbage {
    keep: Duration,
    began: Instant,
    /// The manifests in the store, and when they came into force.
    manifests: VecDeque<(u64, Duration)>,
    /// Leftovers, once they were looked for.
    leftovers: Option<Vec<String>>,
}

impl Garbage {
    /// Of a session that begins with these manifests.
    pub(crate) fn new(machine: &dyn Machine, manifests: &[(u64, Entry)], keep: Duration) -> Self {
        let newest = manifests.last().map(|(_, entry)| entry.modified);
        let manifests = manifests.iter().map(|(number, entry)| {
            let age = newest.and_then(|newest| newest.duration_since(entry.modified).ok());
            (*number, EPOCH.saturating_sub(age.unwrap_or_default()))
        });
        Self {
            keep,
            began: machine.now(),
            manifests: manifests.collect(),
            leftovers: None,
        }
    }

    fn now(&self, machine: &dyn Machine) -> Duration {
        EPOCH + machine.now().duration_since(self.began)
    }

    /// A manifest has come into force.
    pub(crate) fn published(&mut self, machine: &dyn Machine, number: u64) {
        let is_new = self.manifests.back().is_none_or(|(last, _)| *last < number);
        if is_new {
            self.manifests.push_back((number, self.now(machine)));
        }
    }

    /// Deletes some, after a manifest of this session came into force.
    pub(crate) async fn collect(
        &mut self,
        store: &Store,
        folder: Folder,
        newest: &Manifest,
        dropped: &mut Vec<Dropped>,
    ) -> Result<(), Error> {
        self.collect_manifests(store).await?;
        self.collect_dropped(store, newest, dropped).await?;
        self.collect_leftovers(store, folder, newest, dropped).await
    }

    async fn collect_manifests(&mut self, store: &Store) -> Result<(), Error> {
        let now = self.now(store.machine());
        let successors = self.manifests.iter().skip(1);
        let old = successors
            .take_while(|(_, since)| now.saturating_sub(*since) >= self.keep)
            .count()
            .min(AT_ONCE);
        let numbers = self.manifests.iter().take(old);
        let keys: Vec<_> = numbers.map(|(number, _)| key::manifest(*number)).collect();
        store.delete(&keys).await?;
        self.manifests.drain(..old);
        Ok(())
    }

    async fn collect_dropped(
        &self,
        store: &Store,
        newest: &Manifest,
        dropped: &mut Vec<Dropped>,
    ) -> Result<(), Error> {
        let oldest = self.manifests.front().map_or(0, |(number, _)| *number);
        let listed: BTreeSet<&str> = newest.listed().map(|run| &*run.key).collect();
        let mut room = AT_ONCE;
        let mut keys = Vec::new();
        let mut gone = BTreeSet::new();
        for run in dropped.iter() {
            if room == 0 {
                break;
            }
            if run.last < oldest && !listed.contains(&*run.key) {
                let before = keys.len();
                keys.extend(run.parts().map(|(key, _)| key));
                room = room.saturating_sub(keys.len() - before);
                gone.insert(run.key.clone());
            }
        }
        store.delete(&keys).await?;
        dropped.retain(|run| !gone.contains(&run.key));
        Ok(())
    }

    async fn collect_leftovers(
        &mut self,
        store: &Store,
        folder: Folder,
        newest: &Manifest,
        dropped: &[Dropped],
    ) -> Result<(), Error> {
        let leftovers = match &mut self.leftovers {
            Some(leftovers) => leftovers,
            none => none.insert(leftovers(store, folder, newest, dropped).await?),
        };
        let keep = leftovers.len().saturating_sub(AT_ONCE);
        store.delete(&leftovers[keep..]).await?;
        leftovers.truncate(keep);
        Ok(())
    }
}

/// Looks for leftovers once in a session: those of others do not become more, and its own it drops.
async fn leftovers(
    store: &Store,
    own: Folder,
    newest: &Manifest,
    dropped: &[Dropped],
) -> Result<Vec<String>, Error> {
    let listed = newest.listed().map(|run| &*run.key);
    let mentioned: BTreeSet<&str> = listed.chain(dropped.iter().map(|run| &*run.key)).collect();
    let mut found = Vec::new();
    for writer in &newest.writers {
        for entry in store.list(&key::runs(*writer)).await? {
            let Some(folder) = Folder::of(&entry.key) else {
                continue;
            };
            // Without the number of a part.
            let end = entry.key.rfind(".run").map_or(entry.key.len(), |at| at + 4);
            let is_mentioned = mentioned.contains(&entry.key[..end]);
            if folder.session != own.session && folder.base < newest.number && !is_mentioned {
                found.push(entry.key);
            }
        }
    }
    Ok(found)
}
