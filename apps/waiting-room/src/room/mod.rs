//! A room in action. The workers of its data centres decide from the state that their data centre has cached, and
//! report what they did.
//!
//! In the order of a request: [`Room`] finds the worker, [`Worker::visit`] decides, `Reporter` makes the decision
//! durable before the visitor is told. In addition, `exchange` carries reports between data centres.

mod exchange;
mod reporter;
mod samples;
mod session;
mod visit;
mod worker;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use abide::Env;
use tokio::sync::watch;

pub use exchange::Link;
pub(crate) use reporter::Reporter;
pub use samples::{CentreSample, Sample, Samples};
pub use session::Session;
pub use visit::{Place, Verdict};
pub use worker::Worker;
pub(crate) use worker::cookie_age;

use crate::{
    logic::{
        minute::Minute,
        plan::{Plan, Rules},
    },
    objects::{Terms, World},
    settings::{RoomSettings, Settings},
    ticket::{KEY_BYTES, Sealer},
};

/// A ticket is renewed when so much of its session has gone, or at once if the session is short.
const RENEWALS_OF_A_SESSION: u32 = 20;
/// And after this time at the latest.
const LONGEST_UNRENEWED: Duration = Duration::from_secs(5);
/// Missed looks at the queue after which a visitor has left it.
const MISSED_LOOKS: u32 = 3;

/// The data centres of all rooms.
#[derive(Clone, Debug)]
pub struct Layout {
    /// How many, at least one.
    pub data_centres: usize,
    /// Workers of each.
    pub workers: usize,
    /// Between a data centre and the world.
    pub link: Link,
}

/// A room.
#[derive(Debug)]
pub struct Room {
    /// Its settings.
    pub settings: RoomSettings,
    /// Its tickets.
    pub sealer: Sealer,
    /// Its data centres.
    pub centres: Vec<Arc<Centre>>,
    /// What it looked like lately.
    pub samples: Arc<Samples>,
    /// How often a page looks at the queue.
    pub refresh: Duration,
    is_closed: AtomicBool,
}

/// A data centre of a room.
#[derive(Debug)]
pub struct Centre {
    /// What its object has to know.
    pub terms: Terms,
    /// Its workers.
    pub workers: Vec<Worker>,
    cache: Arc<Cache>,
    next: AtomicUsize,
}

/// What the workers of a data centre share.
pub(crate) struct Cache {
    pub(crate) env: Env,
    pub(crate) terms: Terms,
    pub(crate) settings: RoomSettings,
    pub(crate) link: Link,
    pub(crate) renew_after: Duration,
    /// How often a page looks at the queue.
    pub(crate) refresh: Duration,
    plan: watch::Sender<Option<Arc<Plan>>>,
}

impl Room {
    /// Opens a room: its key, its data centres, and what they remember. With new settings it takes the place of `old`.
    pub async fn open(
        env: &Env,
        settings: &RoomSettings,
        all: &Settings,
        world: &Layout,
        old: Option<&Self>,
    ) -> abide::Result<Arc<Self>> {
        let object = env.object::<World>().get_by_name(&settings.name);
        let key = object.key().await?;
        let key: [u8; KEY_BYTES] = key.into_vec().try_into().map_err(|_| {
            abide::Error::from_std(std::io::Error::other(
                "the key of the tickets is damaged: restore the object World",
            ))
        })?;
        let renew_after = (settings.session / RENEWALS_OF_A_SESSION).min(LONGEST_UNRENEWED);
        let unreported = 2 * renew_after + reporter::LONGEST_INTERVAL;
        let mut caches = Vec::new();
        for name in names(world.data_centres) {
            let terms = Terms {
                room: settings.name.clone(),
                data_centre: name.clone(),
                minute_millis: millis(all.minute),
                session_millis: millis(settings.session + unreported),
                patience_millis: millis(all.refresh * MISSED_LOOKS + reporter::LONGEST_INTERVAL),
                draw: settings.draw(millis(all.minute)),
            };
            let cache = Arc::new(Cache {
                env: env.clone(),
                terms: terms.clone(),
                settings: settings.clone(),
                link: world.link,
                renew_after,
                refresh: all.refresh,
                plan: watch::Sender::new(None),
            });
            caches.push(cache);
        }
        object
            .keep_only(names(world.data_centres).collect())
            .await?;
        if old.is_none() {
            exchange::resume(env, &caches).await?;
        }
        exchange::meet(env, &caches).await?;
        // From here on no worker decides as if its data centre were alone.
        let centres = caches.into_iter().map(|cache| {
            let workers = (0..world.workers).map(|number| Worker::start(&cache, number));
            Arc::new(Centre {
                terms: cache.terms.clone(),
                workers: workers.collect(),
                cache,
                next: AtomicUsize::new(0),
            })
        });
        let centres = centres.collect();
        let room = Arc::new(Self {
            settings: settings.clone(),
            sealer: Sealer::new(&key, &settings.name),
            samples: old.map_or_else(Arc::default, |old| Arc::clone(&old.samples)),
            refresh: all.refresh,
            centres,
            is_closed: AtomicBool::new(false),
        });
        tokio::spawn(exchange::keep_exchanging(env.clone(), Arc::clone(&room)));
        tokio::spawn(samples::keep_sampling(env.clone(), Arc::clone(&room)));
        Ok(room)
    }

    /// Another room has taken its place: it stops to report when its last request has ended.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// The data centre that serves a client: the one that a proxy in front names, or always the same one for an address.
    pub fn centre(&self, named: Option<&str>, client: IpAddr) -> &Arc<Centre> {
        let by_name = named.and_then(|name| {
            self.centres
                .iter()
                .find(|centre| centre.terms.data_centre == name)
        });
        by_name.unwrap_or_else(|| {
            let mut hasher = DefaultHasher::new();
            client.hash(&mut hasher);
            let count = self.centres.len().max(1) as u64;
            &self.centres[usize::try_from(hasher.finish() % count).unwrap_or(0)]
        })
    }

    /// What the room does at a moment.
    pub(crate) fn rules(&self, now: u64) -> Rules {
        let minute = self
            .centres
            .first()
            .map_or(1, |centre| centre.terms.minute_millis);
        self.settings.rules(now, minute)
    }

    /// The newest plan that any data centre has.
    pub fn plan(&self) -> Option<Arc<Plan>> {
        let plans = self.centres.iter().filter_map(|centre| centre.cache.plan());
        plans.max_by_key(|plan| plan.state.reports.iter().map(|report| report.at).max())
    }
}

impl Centre {
    /// Workers take turns.
    pub fn worker(&self) -> &Worker {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        &self.workers[turn % self.workers.len()]
    }

    /// What its workers decide from.
    pub fn plan(&self) -> Option<Arc<Plan>> {
        self.cache.plan()
    }
}

impl Cache {
    pub(crate) fn now(&self) -> u64 {
        self.env.clock().unix_millis()
    }

    pub(crate) fn minute(&self, now: u64) -> Minute {
        Minute::at(now, self.terms.minute_millis)
    }

    /// The part of a minute that is over since every visitor who waits has looked at the queue.
    pub(crate) fn passed(&self, now: u64) -> f64 {
        let length = self.terms.minute_millis.max(1);
        let looks = millis(self.refresh).min(length / 2);
        (now % length).saturating_sub(looks) as f64 / (length - looks) as f64
    }

    /// Minutes between two looks at the queue.
    pub(crate) fn look_minutes(&self) -> f64 {
        millis(self.refresh) as f64 / self.terms.minute_millis.max(1) as f64
    }

    pub(crate) fn rules(&self, now: u64) -> Rules {
        self.settings.rules(now, self.terms.minute_millis)
    }

    pub(crate) fn plan(&self) -> Option<Arc<Plan>> {
        self.plan.borrow().clone()
    }

    /// Takes a newer plan.
    pub(crate) fn publish(&self, plan: Plan) {
        let plan = Arc::new(plan);
        self.plan.send_if_modified(|known| {
            let is_newer = known
                .as_ref()
                .is_none_or(|known| known.minute() <= plan.minute());
            if is_newer {
                *known = Some(plan);
            }
            is_newer
        });
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cache").field(&self.terms).finish()
    }
}

/// The names of data centres.
pub fn names(count: usize) -> impl Iterator<Item = String> {
    (1..=count).map(|number| format!("dc-{number}"))
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
