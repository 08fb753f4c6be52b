//! Which session has which browser.
//!
//! Contract: a session has at most one browser, which stays open until [`Browsers::close`]. At most `max_browsers`
//! run, counted until their processes have ended. A session that needs a browser waits, or takes over the slot of an
//! idle one. It is rejected if it waits too long or the queue is full. A browser that has crashed or hangs is
//! replaced, and its page is opened once more in the new one.

mod lease;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use abide::server::AddressPolicy;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::{
    runtime::Handle,
    sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore, oneshot},
    time::{Instant, timeout, timeout_at},
};

use self::lease::Lease;
use super::{
    devtools::Devtools,
    outcome::{BrowserHealth, PageError, PageLimits, Taken},
    process::{Launch, Process, sweep},
    visit::shoot,
};
use crate::{limits, request::Job};

/// What browsers there may be.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// How they are started.
    pub launch: Launch,
    /// How many run at a time.
    pub max_browsers: usize,
    /// How many pages each has at a time.
    pub max_pages: usize,
    /// Bounds of a page.
    pub page: PageLimits,
    /// Which addresses pages may reach.
    pub policy: AddressPolicy,
    /// How long a request waits for a browser or a page.
    pub patience: Duration,
}

/// Why a request has no pictures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum PoolError {
    /// Too many wait, or this one waited too long.
    #[error(
        "All browsers are busy. Try again in a moment, or start the server with a higher --max-browsers or --max-pages."
    )]
    Busy,
    /// Chromium does not start.
    #[error("Chromium does not start: {0}")]
    NoBrowser(String),
    /// The page has no pictures.
    #[error(transparent)]
    Page(#[from] PageError),
}

/// The browsers of this process. Clones share them.
#[derive(Clone)]
pub struct Browsers(Arc<Inner>);

struct Inner {
    options: PoolOptions,
    runtime: Handle,
    slots: Arc<Semaphore>,
    open: Mutex<HashMap<String, Open>>,
    /// Requests that wait: for another to start their session's browser, for a slot, or for a page.
    waiting: AtomicUsize,
    /// Those of them that wait for a slot.
    waiting_for_slot: AtomicUsize,
    next: AtomicU64,
    has_swept: AtomicBool,
    is_closing: AtomicBool,
}

type Cell = Arc<AsyncMutex<Option<Arc<Browser>>>>;

/// A session's browser.
struct Open {
    cell: Cell,
    users: usize,
    /// When it was last used, as a number that grows.
    used: u64,
    browser: Option<Arc<Browser>>,
}

/// A running browser. Killed when the last user drops it.
struct Browser {
    devtools: Devtools,
    process: Process,
    pages: Arc<Semaphore>,
}

impl Browser {
    fn is_gone(&self) -> bool {
        self.devtools.is_gone() || self.process.has_ended()
    }
}

/// What a session's browser is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activity {
    /// There is none.
    Closed,
    /// It has no page.
    Idle,
    /// It has pages, or is starting.
    Busy,
}

impl Browsers {
    /// A pool without browsers. Call it inside the program's async runtime.
    pub fn new(options: PoolOptions) -> Self {
        Self(Arc::new(Inner {
            slots: Arc::new(Semaphore::new(options.max_browsers)),
            runtime: Handle::current(),
            open: Mutex::default(),
            waiting: AtomicUsize::new(0),
            waiting_for_slot: AtomicUsize::new(0),
            next: AtomicU64::new(1),
            has_swept: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            options,
        }))
    }

    /// Logs how browsers are limited, and kills what an earlier run left behind, once, before the first browser
    /// starts. Call it when this process owns the data directory.
    pub fn sweep(&self) {
        if self.0.has_swept.swap(true, Ordering::SeqCst) {
            return;
        }
        let bound = self.0.options.launch.memory.bound();
        tracing::info!(
            mib = bound >> 20,
            margin_mib = limits::MEMORY_MARGIN >> 20,
            "each browser's memory is bounded by a watch of its processes, and that of each process by RLIMIT_DATA"
        );
        match sweep(&self.0.options.launch.profiles) {
            Ok(0) => {}
            Ok(killed) => tracing::info!(killed, "killed browsers of an earlier run"),
            Err(error) => tracing::warn!(%error, "cannot look for browsers of an earlier run"),
        }
    }

    /// Which addresses pages may reach.
    pub fn policy(&self) -> &AddressPolicy {
        &self.0.options.policy
    }

    /// Takes the pictures of a page in a session's browser, which is started if need be. The work continues if the
    /// caller does not wait for it.
    pub async fn take(&self, session: &str, job: Job) -> Result<Taken, PoolError> {
        let (answer, arrives) = oneshot::channel();
        let (browsers, session) = (self.clone(), session.to_owned());
        self.0.runtime.spawn(async move {
            let taken = browsers.take_here(&session, &job).await;
            // The caller may no longer wait for it.
            let _ = answer.send(taken);
        });
        // The program's runtime is ending.
        arrives.await.unwrap_or(Err(PoolError::Busy))
    }

    async fn take_here(&self, session: &str, job: &Job) -> Result<Taken, PoolError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let deadline = Instant::now() + self.0.options.patience;
            let lease = Lease::new(&self.0, session);
            let (browser, is_cold) = lease.browser(deadline).await?;
            let page = self.page(&browser, deadline).await?;
            let bounds = self.0.options.page;
            let (taken, health) = shoot(&browser.devtools, job, self.policy(), bounds).await;
            drop(page);
            if health == BrowserHealth::Hung {
                tracing::warn!(session, "a browser hangs; it is replaced");
                browser.process.kill();
                lease.forget(&browser);
            }
            match taken {
                // Another browser would take as much.
                Err(_) if browser.process.is_over_memory() => {
                    lease.forget(&browser);
                    let mib = self.0.options.launch.memory.bound() >> 20;
                    return Err(PageError::TooMuchMemory { mib }.into());
                }
                Err(PageError::Gone) if !job.steps.is_empty() => {
                    lease.forget(&browser);
                    return Err(PageError::Interrupted.into());
                }
                // Reading a page twice does no harm, so a crash of the browser costs time only.
                Err(PageError::Gone) if attempts == 1 => {
                    tracing::warn!(session, "a browser crashed; it is replaced");
                    lease.forget(&browser);
                }
                Err(error) => return Err(error.into()),
                Ok(mut taken) => {
                    taken.about.cold_browser = is_cold;
                    return Ok(taken);
                }
            }
        }
    }

    async fn page(
        &self,
        browser: &Browser,
        deadline: Instant,
    ) -> Result<OwnedSemaphorePermit, PoolError> {
        if let Ok(page) = Arc::clone(&browser.pages).try_acquire_owned() {
            return Ok(page);
        }
        let _waiting = Waiting::enter(&self.0.waiting, limits::MAX_WAITING)?;
        let page = Arc::clone(&browser.pages).acquire_owned();
        match timeout_at(deadline, page).await {
            Ok(Ok(page)) => Ok(page),
            _ => Err(PoolError::Busy),
        }
    }

    /// What a session's browser is doing.
    pub fn activity(&self, session: &str) -> Activity {
        match self.0.open().get(session) {
            Some(open) if open.users > 0 => Activity::Busy,
            Some(Open {
                browser: Some(browser),
                ..
            }) if !browser.is_gone() => Activity::Idle,
            None | Some(_) => Activity::Closed,
        }
    }

    /// Closes a session's browser, unless it has pages. False if it has.
    pub fn close(&self, session: &str) -> bool {
        let mut open = self.0.open();
        if open.get(session).is_some_and(|open| open.users > 0) {
            return false;
        }
        let closed = open.remove(session);
        drop(open);
        drop(closed);
        true
    }

    /// Kills all browsers and waits until they have ended. No other is started.
    pub async fn shutdown(&self) {
        self.0.is_closing.store(true, Ordering::SeqCst);
        let closed = std::mem::take(&mut *self.0.open());
        for browser in closed.into_values().filter_map(|open| open.browser) {
            browser.process.kill();
        }
        // A slot is free when the process that had it has ended and its files are gone.
        let all = u32::try_from(self.0.options.max_browsers).unwrap_or(u32::MAX);
        let _ = timeout(limits::CLOSE_TIME, self.0.slots.acquire_many(all)).await;
    }
}

impl Inner {
    fn open(&self) -> MutexGuard<'_, HashMap<String, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the browser that has been idle for longest.
    fn make_room(&self) {
        let mut open = self.open();
        let idle = open
            .iter()
            .filter(|(_, open)| open.users == 0)
            .min_by_key(|(_, open)| open.used)
            .map(|(session, _)| session.clone());
        let closed = idle.and_then(|session| open.remove(&session));
        drop(open);
        drop(closed);
    }

    async fn slot(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, PoolError> {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Ok(slot);
        }
        let _waiting = Waiting::enter(&self.waiting, limits::MAX_WAITING)?;
        // From here on, each task that stops using a browser closes it.
        let _for_slot = Waiting::enter(&self.waiting_for_slot, usize::MAX)?;
        self.make_room();
        let slot = Arc::clone(&self.slots).acquire_owned();
        match timeout_at(deadline, slot).await {
            Ok(Ok(slot)) => Ok(slot),
            _ => Err(PoolError::Busy),
        }
    }

    async fn launch(&self, slot: OwnedSemaphorePermit) -> Result<Browser, PoolError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let options = &self.options;
        let name = options.launch.chromium.display();
        let (process, pipe) = Process::start(&options.launch, number, slot).map_err(|error| {
            PoolError::NoBrowser(format!(
                "{name}: {error}. Install Chromium, or name it with --chromium."
            ))
        })?;
        let devtools = Devtools::new(pipe.events, pipe.commands);
        let version = devtools.call(None, "Browser.getVersion", json!({}));
        match timeout(limits::LAUNCH_TIME, version).await {
            Ok(Ok(_)) => Ok(Browser {
                devtools,
                process,
                pages: Arc::new(Semaphore::new(options.max_pages)),
            }),
            _ => {
                let said = process.end().await;
                let hint = hint(&said);
                Err(PoolError::NoBrowser(format!(
                    "{name} ended, or did not answer in time. It wrote {said:?}.{hint}"
                )))
            }
        }
    }
}

/// What to do about a browser that does not start.
fn hint(last_words: &str) -> &'static str {
    if last_words.to_lowercase().contains("sandbox") {
        " As root, or in a container, it needs --no-sandbox."
    } else {
        ""
    }
}

/// Counts a request that waits.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize, most: usize) -> Result<Self, PoolError> {
        let waiting = Self(count);
        if count.fetch_add(1, Ordering::SeqCst) >= most {
            return Err(PoolError::Busy);
        }
        Ok(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
