//! A worker's way to its data centre: what it has to tell goes there in batches, and the state comes back.
//!
//! Contract: [`Reporter::record`] returns when what was recorded is on disk. What is only [noted](Reporter::note) follows with the next
//! report, and may be lost with the process. While a report is under way the next one gathers, so the busier a data centre is, the
//! larger its reports are, not the more frequent.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{Cache, exchange::object_name};
use crate::{
    logic::plan::Plan,
    objects::{DataCentre, Happening, Reported},
};

/// What may wait to be told.
const MOST_WAITING: usize = 65_536;
/// Most happenings of one report.
const MOST_IN_REPORT: usize = 4_096;
/// How often a data centre hears from all its workers together.
const INTERVAL_OF_CENTRE: Duration = Duration::from_millis(250);
/// Shortest time between two reports of a worker that no visitor waits for.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(250);
/// The longest.
pub(crate) const LONGEST_INTERVAL: Duration = Duration::from_secs(5);

/// Tells a data centre what a worker did.
#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    tell: mpsc::Sender<Told>,
}

/// Why something could not be put on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotRecorded;

/// What came of something that was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// It is on disk.
    Yes,
    /// The minute of the decision is over: it does not hold.
    Late,
}

struct Told {
    happening: Option<Happening>,
    /// Told when it is on disk.
    done: Option<oneshot::Sender<Result<Recorded, NotRecorded>>>,
}

impl Reporter {
    /// Starts to report.
    pub(crate) fn start(cache: &Arc<Cache>, worker: String) -> Self {
        let (tell, told) = mpsc::channel(MOST_WAITING);
        tokio::spawn(keep_reporting(Arc::clone(cache), worker, told));
        Self { tell }
    }

    /// Tells it, and waits until it is on disk; nothing to tell asks for the newest state.
    pub(crate) async fn record(
        &self,
        happening: Option<Happening>,
    ) -> Result<Recorded, NotRecorded> {
        let (done, is_done) = oneshot::channel();
        let told = Told {
            happening,
            done: Some(done),
        };
        self.tell.send(told).await.map_err(|_| NotRecorded)?;
        is_done.await.unwrap_or(Err(NotRecorded))
    }

    /// Tells it with the next report. While too much waits it is not told: the visitor's next request tells it again.
    pub(crate) fn note(&self, happening: Happening) {
        let told = Told {
            happening: Some(happening),
            done: None,
        };
        let _ = self.tell.try_send(told);
    }
}

/// The more workers a data centre has, the rarer are the reports of each.
fn interval(workers: u64) -> Duration {
    let workers = u32::try_from(workers).unwrap_or(u32::MAX);
    INTERVAL_OF_CENTRE
        .saturating_mul(workers)
        .clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL)
}

async fn keep_reporting(cache: Arc<Cache>, worker: String, mut told: mpsc::Receiver<Told>) {
    let name = object_name(&cache.terms.room, &cache.terms.data_centre);
    let mut batch: Vec<Told> = Vec::new();
    let mut due = Instant::now();
    loop {
        let is_urgent = batch.iter().any(|told| told.done.is_some());
        if !is_urgent && batch.len() < MOST_IN_REPORT {
            tokio::select! {
                next = told.recv() => match next {
                    Some(next) => {
                        batch.push(next);
                        continue;
                    }
                    // The room was closed: what was noted is still to be told.
                    None if batch.is_empty() => return,
                    None => {}
                },
                () = tokio::time::sleep_until(due) => {}
            }
        }
        while batch.len() < MOST_IN_REPORT
            && let Ok(next) = told.try_recv()
        {
            batch.push(next);
        }
        let happenings = batch.iter().filter_map(|told| told.happening.clone());
        let happenings = happenings.collect();
        let centre = cache.env.object::<DataCentre>().get_by_name(&name);
        let now = cache.now();
        let answer = centre
            .report(cache.terms.clone(), now, worker.clone(), happenings)
            .await;
        let outcome = match answer {
            Ok(Reported { state, late }) => {
                due = Instant::now() + interval(state.workers_here);
                cache.publish(Plan::new(state, cache.rules(now)));
                Ok(late)
            }
            Err(error) => {
                due = Instant::now() + SHORTEST_INTERVAL;
                tracing::warn!(%error, worker, "a worker could not report; visitors are asked to try again");
                Err(NotRecorded)
            }
        };
        for told in batch.drain(..) {
            let Some(done) = told.done else { continue };
            let recorded = outcome.as_ref().map_err(|refused| *refused);
            let recorded =
                recorded.map(|late| match &told.happening {
                    Some(
                        Happening::Admitted { visitor, .. } | Happening::Joined { visitor, .. },
                    ) if late.contains(visitor) => Recorded::Late,
                    _ => Recorded::Yes,
                });
            // The visitor's request may have been cancelled.
            let _ = done.send(recorded);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_workers_a_data_centre_has_the_rarer_are_the_reports_of_each() {
        assert_eq!(interval(1), Duration::from_millis(250));
        assert_eq!(interval(8), Duration::from_secs(2));
        assert_eq!(interval(1_000), LONGEST_INTERVAL);
    }
}
