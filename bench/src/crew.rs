//! Threads that own objects and work through slices together.
//!
//! A crew's members are made inside their threads (a database may not leave its thread), stay there for the
//! crew's life, and run each slice at the same time.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{figures::Latencies, process};

/// What one member does: commits until `length` has passed, with at most `window` commits not yet durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    pub(crate) window: usize,
    pub(crate) length: Duration,
}

/// The latency of each commit that became durable within the slice.
pub(crate) type Outcome = Latencies;

/// A member's work on one slice.
pub(crate) type Work = Box<dyn FnMut(Slice) -> Result<Outcome>>;

struct Member {
    orders: Option<Sender<Slice>>,
    outcomes: Receiver<Result<Outcome>>,
    thread: Option<JoinHandle<()>>,
}

/// The threads.
pub(crate) struct Crew(Vec<Member>);

/// The figures of a slice, in this order: commits per second, p50, p99 (both in microseconds), CPU
/// microseconds of the whole process for each commit.
pub(crate) type SliceFigures = [f64; 4];

impl Crew {
    /// Starts the threads and waits until each has made its part.
    pub(crate) fn start(
        threads: usize,
        make: impl Fn(usize) -> Result<Work> + Send + Sync + 'static,
    ) -> Result<Self> {
        let make = Arc::new(make);
        let mut members = Vec::with_capacity(threads);
        for number in 0..threads {
            let (orders, taken) = channel::<Slice>();
            let (told, outcomes) = channel();
            let make = Arc::clone(&make);
            let thread = std::thread::Builder::new()
                .name(format!("bench-{number}"))
                .spawn(move || {
                    let mut work = match make(number) {
                        Ok(work) => work,
                        Err(error) => {
                            let _ = told.send(Err(error));
                            return;
                        }
                    };
                    if told.send(Ok(Outcome::default())).is_err() {
                        return;
                    }
                    for slice in taken {
                        if told.send(work(slice)).is_err() {
                            return;
                        }
                    }
                })?;
            members.push(Member {
                orders: Some(orders),
                outcomes,
                thread: Some(thread),
            });
        }
        let crew = Self(members);
        for member in &crew.0 {
            member.outcome()?;
        }
        Ok(crew)
    }

    /// One slice with `inflight` commits in flight over all members.
    pub(crate) fn run(&self, inflight: usize, length: Duration) -> Result<SliceFigures> {
        let members = &self.0[..self.0.len().min(inflight)];
        let cpu = process::cpu_seconds(std::process::id())?;
        let begun = Instant::now();
        for (number, member) in members.iter().enumerate() {
            let window = inflight / members.len() + usize::from(number < inflight % members.len());
            let Some(orders) = &member.orders else {
                bail!("the crew has been dismissed")
            };
            orders
                .send(Slice { window, length })
                .context("a worker has ended")?;
        }
        let mut all = Outcome::default();
        for member in members {
            all.append(member.outcome()?);
        }
        let seconds = length.as_secs_f64();
        let cpu = (process::cpu_seconds(std::process::id())? - cpu) * seconds
            / begun.elapsed().as_secs_f64();
        let commits = all.len() as f64;
        let [p50, p99] = all.percentiles_us([50.0, 99.0]);
        Ok([commits / seconds, p50, p99, cpu * 1e6 / commits.max(1.0)])
    }
}

impl Member {
    fn outcome(&self) -> Result<Outcome> {
        self.outcomes.recv().context("a worker has panicked")?
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for member in &mut self.0 {
            member.orders = None;
        }
        for member in &mut self.0 {
            if let Some(thread) = member.thread.take() {
                let _ = thread.join();
            }
        }
    }
}
