//! Which scheduled requests exist: an index of objects, each with a share of the ids.
//!
//! Contract: a request reports each change to the index until the index has taken it, so the index may be behind for
//! a moment but not for good. For exact answers, ask the request itself. Each shard holds the ids that hash to it; a
//! page of the list asks every shard for that many rows, so its cost does not depend on the number of requests.

mod shard;

use std::{
    collections::BTreeMap,
    fmt,
    str::FromStr,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use abide::{Env, Result, Stub};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Entry, Phase, limits, request::Room};

pub use shard::RequestIndex;

/// The index of a node.
pub(crate) struct Index<'a>(&'a Env);

/// Which requests a page holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListFilter {
    /// Only those in this state.
    pub state: Option<Phase>,
    /// Only those behind this place.
    pub before: Option<Place>,
    /// At most this many.
    pub limit: usize,
}

/// A place in the list, which is ordered by when requests were made, newest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    pub(crate) created_at: i64,
    pub(crate) id: String,
}

impl Place {
    fn of(entry: &Entry) -> Self {
        Self {
            created_at: entry.created_at,
            id: entry.id.clone(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.created_at, self.id)
    }
}

impl FromStr for Place {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (created_at, id) = text.split_once('.').ok_or(())?;
        Ok(Self {
            created_at: created_at.parse().map_err(drop)?,
            id: id.to_owned(),
        })
    }
}

/// Requests, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct List {
    /// The requests.
    pub requests: Vec<Entry>,
    /// The value of `before` for the next page, if there is one.
    pub next: Option<String>,
}

impl<'a> Index<'a> {
    pub(crate) fn new(env: &'a Env) -> Self {
        Self(env)
    }

    /// Notes where a request is.
    pub(crate) async fn put(&self, entry: &Entry) -> Result<()> {
        self.shard_of(&entry.id).put(entry.clone()).await
    }

    /// Forgets a request.
    pub(crate) async fn remove(&self, id: &str) -> Result<()> {
        self.shard_of(id).remove(id.to_owned()).await
    }

    /// A page of the list.
    pub(crate) async fn list(&self, filter: &ListFilter) -> Result<List> {
        // All are asked at once.
        let asked: Vec<_> = self
            .shards()
            .map(|shard| shard.list(filter.clone()))
            .collect();
        let mut found: Vec<Entry> = Vec::new();
        let mut more = false;
        for answer in asked {
            let page = answer.await?;
            more |= page.len() > filter.limit;
            found.extend(page);
        }
        found.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        more |= found.len() > filter.limit;
        found.truncate(filter.limit);
        let next = found
            .last()
            .filter(|_| more)
            .map(|last| Place::of(last).to_string());
        Ok(List {
            requests: found,
            next,
        })
    }

    /// How many requests are in each state.
    pub(crate) async fn counts(&self) -> Result<BTreeMap<String, i64>> {
        let asked: Vec<_> = self.shards().map(|shard| shard.counts()).collect();
        let mut counts: BTreeMap<_, _> = Phase::ALL
            .map(|phase| (phase.as_str().to_owned(), 0))
            .into();
        for answer in asked {
            for (state, count) in answer.await? {
                *counts.entry(state).or_default() += count;
            }
        }
        Ok(counts)
    }

    fn shards(&self) -> impl Iterator<Item = Stub<RequestIndex>> {
        (0..limits::INDEX_SHARDS).map(|number| self.shard(number))
    }

    fn shard_of(&self, id: &str) -> Stub<RequestIndex> {
        self.shard(u32::from(Sha256::digest(id)[0]) % limits::INDEX_SHARDS)
    }

    fn shard(&self, number: u32) -> Stub<RequestIndex> {
        let name = format!("shard-{number:02}");
        self.0.object::<RequestIndex>().get_by_name(&name)
    }
}

/// The limit of requests, and the approximate number of them.
#[derive(Debug)]
pub struct Capacity {
    max: i64,
    counted: Mutex<Option<Counted>>,
}

#[derive(Clone, Copy, Debug)]
struct Counted {
    at: Instant,
    /// As the index said, and those that were let in since.
    count: i64,
}

impl Capacity {
    /// At most `max`.
    pub fn new(max: i64) -> Self {
        Self {
            max,
            counted: Mutex::new(None),
        }
    }

    /// Whether there is room for another request. The index is asked once a second, by one request, while others use
    /// the last count; requests made since are added to it here. If the index is too busy to answer, requests are not
    /// refused.
    pub(crate) async fn room(&self, env: &Env) -> Result<Room> {
        let known = self.known(Instant::now());
        if let Some((count, true)) = known {
            return Ok(self.room_beside(count));
        }
        let counted = Index::new(env).counts().await;
        match (counted, known) {
            (Ok(counts), _) => {
                let count = counts.values().sum();
                self.set(Instant::now(), count);
                Ok(self.room_beside(count))
            }
            (Err(_), Some((count, _))) => Ok(self.room_beside(count)),
            (Err(error), None) => Err(error),
        }
    }

    /// Notes that a request was made.
    pub(crate) fn made(&self) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counted) = &mut *counted {
            counted.count += 1;
        }
    }

    /// The last count and whether it is fresh. The first caller that finds it stale recounts; others use that count.
    fn known(&self, now: Instant) -> Option<(i64, bool)> {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = counted.as_mut()?;
        let is_fresh = now.duration_since(counted.at) < limits::COUNT_FRESH;
        if !is_fresh {
            counted.at = now;
        }
        Some((counted.count, is_fresh))
    }

    fn set(&self, at: Instant, count: i64) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        *counted = Some(Counted { at, count });
    }

    fn room_beside(&self, count: i64) -> Room {
        if count < self.max {
            Room::Free
        } else {
            Room::Full(self.max)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_text_that_leads_back_to_it() {
        let place = Place {
            created_at: 17,
            id: "a.b-c".to_owned(),
        };
        assert_eq!(place.to_string().parse(), Ok(place));
        for bad in ["", "x", "x.y", "17"] {
            assert_eq!(bad.parse::<Place>(), Err(()), "{bad}");
        }
    }
}
