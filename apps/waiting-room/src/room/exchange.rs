//! The way between data centres: each reports to the world and hears what the others have reported.

use std::{future::Future, sync::Arc, time::Duration};

use abide::Env;
use tokio::task::JoinSet;

use super::{Cache, Room};
use crate::objects::{DataCentre, World};

/// Between two reports to the world.
const INTERVAL: Duration = Duration::from_millis(500);
/// The same while a minute begins and others have not reported in it.
const SETTLING_INTERVAL: Duration = Duration::from_millis(50);

/// A way between a data centre and the world, on which everything takes a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// In one direction.
    pub delay: Duration,
}

impl Link {
    /// Sends a call over the link, and its answer back.
    pub async fn over<T>(self, call: impl Future<Output = T>) -> T {
        if self.delay.is_zero() {
            return call.await;
        }
        tokio::time::sleep(self.delay).await;
        let answer = call.await;
        tokio::time::sleep(self.delay).await;
        answer
    }
}

/// When the process starts, each data centre continues where it was.
pub(super) async fn resume(env: &Env, centres: &[Arc<Cache>]) -> abide::Result<()> {
    for centre in centres {
        let object = env.object::<DataCentre>().get_by_name(&name(centre));
        object
            .resume(centre.terms.clone(), env.clock().unix_millis())
            .await?;
    }
    Ok(())
}

/// Before the first visitor is admitted, each data centre has reported and heard from all others.
pub(super) async fn meet(env: &Env, centres: &[Arc<Cache>]) -> abide::Result<()> {
    for _ in 0..2 {
        for centre in centres {
            exchange(env, centre).await?;
        }
    }
    Ok(())
}

/// Runs until the process ends.
pub(super) async fn keep_exchanging(env: Env, room: Arc<Room>) {
    let mut centres = JoinSet::new();
    for centre in &room.centres {
        let (env, centre) = (env.clone(), Arc::clone(&centre.cache));
        let room = Arc::clone(&room);
        centres.spawn(async move {
            while !env.is_stopping() && !room.is_closed() {
                let pause = match exchange(&env, &centre).await {
                    Ok(Settled::Yes) => until_next_report(&env, &centre),
                    Ok(Settled::No) => SETTLING_INTERVAL,
                    Err(error) => {
                        tracing::warn!(%error, data_centre = centre.terms.data_centre, "a data centre could not report");
                        INTERVAL
                    }
                };
                tokio::time::sleep(pause).await;
            }
        });
    }
    while centres.join_next().await.is_some() {}
}

/// Whether every other data centre has reported for the most recent reported minute.
enum Settled {
    Yes,
    No,
}

/// Reports come at the beginning of a minute, too: the others wait for them.
fn until_next_report(env: &Env, centre: &Cache) -> Duration {
    let length = centre.terms.minute_millis.max(1);
    let left = length - env.clock().unix_millis() % length;
    INTERVAL.min(Duration::from_millis(left))
}

async fn exchange(env: &Env, centre: &Cache) -> abide::Result<Settled> {
    let own = env.object::<DataCentre>().get_by_name(&name(centre));
    let terms = centre.terms.clone();
    let report = own.summary(terms, env.clock().unix_millis()).await?;
    let minute = report.minute;
    let world = env.object::<World>().get_by_name(&centre.terms.room);
    let others = centre.link.over(world.exchange(report)).await?;
    let is_settled = others.iter().all(|other| other.minute >= minute);
    own.hear(others).await?;
    Ok(if is_settled {
        Settled::Yes
    } else {
        Settled::No
    })
}

/// The name of a data centre's object.
pub(super) fn name(centre: &Cache) -> String {
    object_name(&centre.terms.room, &centre.terms.data_centre)
}

pub(super) fn object_name(room: &str, data_centre: &str) -> String {
    format!("{room}/{data_centre}")
}
