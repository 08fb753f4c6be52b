//! What a room looked like lately, for the dashboard. Kept in memory: it begins with the process.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use abide::Env;
use serde::Serialize;

use super::Room;

/// Between two samples.
const INTERVAL: Duration = Duration::from_secs(2);
/// Samples that are kept: half an hour.
const KEPT: usize = 900;

/// A data centre at a moment.
#[derive(Clone, Debug, Serialize)]
pub struct CentreSample {
    /// Its name.
    pub data_centre: String,
    /// Visitors inside.
    pub active: u64,
    /// Visitors who wait.
    pub queued: u64,
    /// Visitors let in, in the last minute that is over.
    pub admitted: u64,
}

/// A room at a moment.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// In milliseconds since 1970.
    pub at: u64,
    /// The limit that held.
    pub limit: u64,
    /// Each data centre, as it sees itself.
    pub centres: Vec<CentreSample>,
}

impl Sample {
    /// The sum of a number over data centres.
    pub fn sum(&self, of: impl Fn(&CentreSample) -> u64) -> u64 {
        self.centres.iter().map(of).sum()
    }
}

/// The samples of a room.
#[derive(Debug, Default)]
pub struct Samples {
    kept: Mutex<VecDeque<Sample>>,
}

impl Samples {
    /// All of them, the oldest first.
    pub fn all(&self) -> Vec<Sample> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().cloned().collect()
    }

    fn push(&self, sample: Sample) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back(sample);
    }
}

/// Runs until the process ends.
pub(super) async fn keep_sampling(env: Env, room: Arc<Room>) {
    let mut tick = tokio::time::interval(INTERVAL);
    while !env.is_stopping() && !room.is_closed() {
        tick.tick().await;
        let now = env.clock().unix_millis();
        let sample = sample(&room, now);
        let name = room.settings.name.clone();
        metrics::gauge!("waiting_room_limit", "room" => name.clone()).set(sample.limit as f64);
        for centre in &sample.centres {
            let labels = [
                ("room", name.clone()),
                ("data_centre", centre.data_centre.clone()),
            ];
            metrics::gauge!("waiting_room_active_users", &labels).set(centre.active as f64);
            metrics::gauge!("waiting_room_queued_users", &labels).set(centre.queued as f64);
        }
        room.samples.push(sample);
    }
}

fn sample(room: &Room, now: u64) -> Sample {
    let centres = room.centres.iter().map(|centre| {
        let name = &centre.terms.data_centre;
        let plan = centre.plan();
        let own = plan.as_ref().and_then(|plan| {
            plan.state
                .reports
                .iter()
                .find(|report| &report.data_centre == name)
        });
        CentreSample {
            data_centre: name.clone(),
            active: own.map_or(0, |own| own.active),
            queued: own.map_or(0, |own| own.waiting.values().sum()),
            admitted: own.map_or(0, |own| {
                own.admitted
                    .get(&own.minute.before(1))
                    .copied()
                    .unwrap_or(0)
            }),
        }
    });
    Sample {
        at: now,
        limit: room.rules(now).limits.total_active_users,
        centres: centres.collect(),
    }
}
