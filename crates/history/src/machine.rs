//! What copies need of the machine that they are made on: threads, time and random numbers.
//!
//! A program has [`RealMachine`]. A simulation has its own, so that a seed decides what happens and when.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    time::{Duration, Instant, SystemTime},
};

use tokio::sync::oneshot;

use crate::Error;

/// A future that ends at a time.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// See the module.
pub trait Machine: fmt::Debug + Send + Sync + 'static {
    /// The time by the wall clock.
    fn wall_time(&self) -> SystemTime;

    /// The time by a clock that is never set.
    fn now(&self) -> Instant;

    /// Ends when [`Self::now`] is a time, or later.
    fn sleep_until(&self, time: Instant) -> Sleep;

    /// Runs work where it may wait: it reads or writes files, or computes for some milliseconds.
    fn run(&self, work: Box<dyn FnOnce() + Send>);

    /// Fills a buffer with random bytes.
    ///
    /// # Errors
    /// If there are none.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Error>;
}

/// The machine itself: tokio's threads and timers, and the operating system's clock and random numbers.
#[derive(Clone, Copy, Debug)]
pub struct RealMachine;

#[allow(clippy::disallowed_methods, reason = "it is the machine")]
impl Machine for RealMachine {
    fn wall_time(&self) -> SystemTime {
        SystemTime::now()
    }

    fn now(&self) -> Instant {
        // Of tokio, whose tests stop it.
        tokio::time::Instant::now().into_std()
    }

    fn sleep_until(&self, time: Instant) -> Sleep {
        Box::pin(tokio::time::sleep_until(time.into()))
    }

    fn run(&self, work: Box<dyn FnOnce() + Send>) {
        drop(tokio::task::spawn_blocking(work));
    }

    fn fill(&self, bytes: &mut [u8]) -> Result<(), Error> {
        let filled = getrandom::fill(bytes);
        filled.map_err(|error| Error::store("random numbers".to_owned(), error.to_string()))
    }
}

impl dyn Machine {
    /// The result of work that runs where it may wait. The work continues if the caller does not wait for it.
    pub(crate) async fn on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (tell, told) = oneshot::channel();
        self.run(Box::new(move || {
            let _ = tell.send(work()); // the caller may be gone
        }));
        let ended = |_| Error::store("a thread".to_owned(), "it has ended before its work");
        told.await.map_err(ended)?
    }

    pub(crate) async fn sleep(&self, time: Duration) {
        self.sleep_until(self.now() + time).await;
    }

    /// The result of a future, unless it takes longer.
    pub(crate) async fn until<T>(&self, time: Instant, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.sleep_until(time) => None,
        }
    }

    pub(crate) fn random<const LENGTH: usize>(&self) -> Result<[u8; LENGTH], Error> {
        let mut bytes = [0; LENGTH];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }
}

/// The machine of a program.
pub(crate) fn real() -> &'static dyn Machine {
    &RealMachine
}
