//! Nodes whose objects do nothing but sleep and wake.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use abide::{
    Node,
    clock::{Clock, Sleep, SystemClock},
    prelude::*,
    storage::{RealDisk, Store, StoreOptions},
};
use tokio::runtime::Runtime;

use crate::figures::Latencies;

/// Objects that were loaded only to set their alarm leave memory soon: a million would not fit.
const IDLE_TIMEOUT: Duration = Duration::from_millis(100);
/// Calls on their way at a time while alarms are set.
const INFLIGHT: usize = 256;
/// The time that an orderly end may take.
const GRACE: Duration = Duration::from_mins(1);

/// What the objects note.
#[derive(Default)]
pub(crate) struct Record {
    fired: AtomicU64,
    lateness: Mutex<Latencies>,
}

impl Record {
    /// Alarms that have gone off.
    pub(crate) fn fired(&self) -> u64 {
        self.fired.load(Ordering::Relaxed)
    }

    /// How late they were, since the last query.
    pub(crate) fn take_lateness(&self) -> Latencies {
        let mut lateness = self.lateness.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *lateness)
    }
}

/// The record, as the objects find it.
struct Shared(Arc<Record>);

#[durable_object]
pub(crate) struct Sleeper {
    ctx: Ctx,
    record: Arc<Record>,
}

impl DurableObject for Sleeper {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self {
            ctx,
            record: Arc::clone(&env.require::<Shared>()?.0),
        })
    }

    async fn alarm(&self, info: AlarmInfo) -> Result<()> {
        let scheduled = Duration::from_millis(info.scheduled_time.unix_millis().unsigned_abs());
        let late = since_1970().saturating_sub(scheduled);
        self.record.fired.fetch_add(1, Ordering::Relaxed);
        let mut lateness = self
            .record
            .lateness
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        lateness.push(late);
        drop(lateness);
        if let Some(period) = self.ctx.storage().get::<i64>("period")? {
            let next = info.scheduled_time.unix_millis() + period;
            self.ctx.storage().set_alarm(next)?;
        }
        Ok(())
    }
}

#[allow(clippy::unused_async)] // a remote method is async, whether it waits for something or not
#[rpc]
impl Sleeper {
    /// Sets the alarm to milliseconds since 1970.
    pub(crate) async fn set(&self, at: i64) -> Result<(), String> {
        let set = self.ctx.storage().set_alarm(at);
        set.map_err(|error| error.to_string())
    }

    /// Sets an alarm that goes off again and again, this many milliseconds apart.
    pub(crate) async fn repeat(&self, at: i64, period: i64) -> Result<(), String> {
        let storage = self.ctx.storage();
        let set = storage.put("period", &period);
        set.and_then(|()| storage.set_alarm(at))
            .map_err(|error| error.to_string())
    }

    /// Takes the alarm back, for good.
    pub(crate) async fn rest(&self) -> Result<(), String> {
        let rest = self.ctx.storage().delete_all();
        rest.map_err(|error| error.to_string())
    }
}

pub(crate) fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// Milliseconds since 1970.
pub(crate) fn now() -> i64 {
    i64::try_from(since_1970().as_millis()).unwrap_or(i64::MAX)
}

/// The machine's clock, and its wall clock set forward.
struct Ahead(SystemClock, Duration);

impl Clock for Ahead {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn unix_millis(&self) -> u64 {
        self.0.unix_millis() + u64::try_from(self.1.as_millis()).unwrap_or(0)
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        self.0.sleep_until(deadline)
    }
}

/// A node of sleepers on a real directory.
pub(crate) struct Dormitory {
    runtime: Runtime,
    node: Node,
    pub(crate) record: Arc<Record>,
}

impl Dormitory {
    /// Opens the directory and starts the node, whose clock is set forward.
    pub(crate) fn open(dir: &Path, ahead: Duration) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let store = Store::open(Arc::new(RealDisk), dir, StoreOptions::default())?;
        let options = ClassOptions::default().idle_timeout(IDLE_TIMEOUT);
        let record = Arc::new(Record::default());
        let node = Node::builder(store)
            .class::<Sleeper>(options)
            .with(Shared(Arc::clone(&record)))
            .clock(Arc::new(Ahead(SystemClock::new(), ahead)))
            .start()?;
        Ok(Self {
            runtime,
            node,
            record,
        })
    }

    pub(crate) fn pending(&self) -> u64 {
        self.node.stats().alarms_pending
    }

    /// Sets the alarms of objects of these numbers, many at a time.
    pub(crate) fn each(
        &self,
        numbers: std::ops::Range<usize>,
        set: impl Fn(Stub<Sleeper>, usize) -> abide::Call<(), String>,
    ) -> anyhow::Result<()> {
        let namespace = self.node.env().object::<Sleeper>();
        self.runtime.block_on(async {
            let mut calls = std::collections::VecDeque::new();
            for number in numbers {
                if calls.len() == INFLIGHT
                    && let Some(call) = calls.pop_front()
                {
                    finish(call).await?;
                }
                let stub = namespace.get_by_name(&format!("sleeper-{number}"));
                calls.push_back(set(stub, number));
            }
            for call in calls {
                finish(call).await?;
            }
            Ok(())
        })
    }

    /// Ends cleanly.
    pub(crate) fn close(self) -> anyhow::Result<()> {
        self.runtime.block_on(self.node.shutdown(GRACE))?;
        Ok(self.node.store().close()?)
    }
}

async fn finish(call: abide::Call<(), String>) -> anyhow::Result<()> {
    call.await.map_err(anyhow::Error::msg)
}
