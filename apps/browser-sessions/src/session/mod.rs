//! The object: a session, with its screenshots and the time that its browser stays open.
//!
//! Contract: a screenshot that was acknowledged is on disk, row and pictures. Its key is reserved on disk before a page is opened, so
//! two screenshots never write the same files. While the browser is idle, an alarm adds up the time and closes it; each use starts
//! anew. The browser does not survive the process, and the alarm notices.

mod shots;

use std::{sync::Arc, time::Duration};

use abide::prelude::*;
use serde::{Deserialize, Serialize};

use self::shots::Shots;
pub use self::shots::{Deleted, List, Picture, Shot, ShotState};
use crate::{
    SessionError,
    browser::{
        outcome::About,
        pool::{Activity, Browsers},
    },
    limits,
    pictures::Pictures,
    request::Job,
};

/// Key of the time for which the browser has been idle, in milliseconds.
const IDLE: &str = "idle";

/// How long a browser stays open without a request.
#[derive(Clone, Copy, Debug)]
pub struct IdleTime(pub Duration);

/// What a session is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// What its browser is doing.
    pub browser: Activity,
    /// Seconds for which an idle browser has not been used, as the alarm counts them.
    pub idle_seconds: u64,
    /// Seconds without a use after which it is closed.
    pub closes_after_seconds: u64,
    /// Screenshots that the session stores.
    pub screenshots: i64,
}

/// A session.
#[durable_object]
pub struct BrowserSession {
    ctx: Ctx,
    env: Env,
    shots: Shots,
    browsers: Arc<Browsers>,
    pictures: Arc<Pictures>,
    idle_time: Duration,
}

#[durable_object]
impl DurableObject for BrowserSession {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let shots = Shots::open(ctx.sql())?;
        let idle_time = env.require::<IdleTime>()?.0;
        Ok(Self {
            browsers: env.require()?,
            pictures: env.require()?,
            shots,
            ctx,
            env,
            idle_time,
        })
    }

    /// Adds up the time for which the browser has been idle, and closes it in the end.
    fn alarm(&self, _: AlarmInfo) -> Result<()> {
        let storage = self.ctx.storage();
        let session = self.session()?;
        match self.browsers.activity(&session) {
            // It was closed to make room for another, has crashed, or belonged to an earlier process.
            Activity::Closed => {
                storage.delete(IDLE)?;
                self.browsers.close(&session);
                Ok(())
            }
            Activity::Busy => self.used(),
            Activity::Idle => {
                let idle = self.idle()?.saturating_add(self.tick());
                if idle < self.idle_time {
                    storage.put(IDLE, &millis(idle))?;
                    return storage.set_alarm(self.tick());
                }
                // A request may just have come in; the alarm that it has set stays.
                if self.browsers.close(&session) {
                    storage.delete(IDLE)?;
                }
                Ok(())
            }
        }
    }
}

#[rpc]
impl BrowserSession {
    /// Takes the pictures of a page and stores them.
    pub async fn take(&self, job: Job) -> Result<Shot, SessionError> {
        let session = self.session()?;
        let now = self.now();
        let reserved = self.shots.reserve(&session, &job, now)?;
        self.used()?;
        // The key is reserved on disk before a picture is stored under it.
        self.ctx.storage().sync().await?;
        let done = self
            .take_and_store(&session, &job, &reserved.pictures)
            .await;
        self.used()?;
        match done {
            Ok((about, pictures)) => {
                Ok(self.shots.done(&reserved, &about, &pictures, self.now())?)
            }
            Err(error) => {
                self.shots.failed(&reserved, &error.to_string())?;
                Err(error)
            }
        }
    }

    /// The screenshots, newest first; those before an id.
    pub async fn list(&self, before: Option<i64>, limit: i64) -> Result<List> {
        self.shots.list(before, limit.clamp(1, limits::MAX_LIST))
    }

    /// One screenshot.
    pub async fn show(&self, id: i64) -> Result<Shot, SessionError> {
        self.shots.get(id)?.ok_or(SessionError::NotFound)
    }

    /// Removes a screenshot and its pictures.
    pub async fn delete(&self, id: i64) -> Result<Deleted, SessionError> {
        let keys = self.shots.hold(id)?;
        self.ctx.storage().sync().await?;
        let pictures = keys.len();
        if let Err(error) = self.pictures.delete(keys).await {
            // The row stays, so it can be tried again.
            self.shots.release(id)?;
            return Err(SessionError::NotRemoved(error));
        }
        self.shots.delete(id)?;
        Ok(Deleted { pictures })
    }

    /// What the session is doing.
    pub async fn status(&self) -> Result<Status> {
        let browser = self.browsers.activity(&self.session()?);
        let idle = match browser {
            Activity::Idle => self.idle()?,
            Activity::Closed | Activity::Busy => Duration::ZERO,
        };
        Ok(Status {
            browser,
            idle_seconds: idle.as_secs(),
            closes_after_seconds: self.idle_time.as_secs(),
            screenshots: self.shots.count()?,
        })
    }

    /// Counts the idle time of the open browser from now on.
    pub async fn keep_alive(&self) -> Result<(), SessionError> {
        match self.browsers.activity(&self.session()?) {
            Activity::Closed => Err(SessionError::NotOpen),
            Activity::Idle | Activity::Busy => Ok(self.used()?),
        }
    }

    /// Closes the browser, if one is open.
    pub async fn close(&self) -> Result<(), SessionError> {
        if !self.browsers.close(&self.session()?) {
            return Err(SessionError::AtWork);
        }
        let storage = self.ctx.storage();
        storage.delete(IDLE)?;
        Ok(storage.delete_alarm()?)
    }
}

impl BrowserSession {
    async fn take_and_store(
        &self,
        session: &str,
        job: &Job,
        planned: &[Picture],
    ) -> Result<(About, Vec<Picture>), SessionError> {
        let taken = self.browsers.take(session, job.clone()).await?;
        let mut stored = planned.to_vec();
        let mut files = Vec::with_capacity(stored.len());
        for (picture, bytes) in stored.iter_mut().zip(taken.pictures) {
            picture.bytes = bytes.len();
            files.push((picture.key.clone(), bytes));
        }
        let put = self.pictures.put(files).await;
        put.map_err(SessionError::Store)?;
        Ok((taken.about, stored))
    }

    /// The browser is used: its idle time begins anew.
    fn used(&self) -> Result<()> {
        let storage = self.ctx.storage();
        storage.put(IDLE, &0_u64)?;
        storage.set_alarm(self.tick())
    }

    fn idle(&self) -> Result<Duration> {
        let millis = self.ctx.storage().get::<u64>(IDLE)?.unwrap_or(0);
        Ok(Duration::from_millis(millis))
    }

    fn tick(&self) -> Duration {
        limits::TICK.min(self.idle_time)
    }

    fn now(&self) -> i64 {
        self.env.now().unix_millis()
    }

    fn session(&self) -> Result<String> {
        self.ctx
            .name()
            .ok_or_else(|| Error::new("a session is found by its name"))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
