//! A node with desks: objects whose worker does jobs, as a script says.

pub(crate) use abide_harness::run;

use std::{
    collections::{HashMap, VecDeque},
    future::pending,
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use abide::{NodeBuilder, prelude::*, storage::SimDisk};
use abide_component::{
    WakeUp, tables,
    worker::{self, Attempt, May, Next, Turn, Work, Worker},
};
use tokio::sync::Notify;

use crate::world::{self, Setup};

/// How soon a desk continues after a crash.
const RECOVERY: Duration = Duration::from_secs(5);

/// How an attempt ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Take(Duration),
    /// Ends when the node stops.
    UntilStop,
    Hang,
    Panic,
}

/// What is to happen, and what has. Outlives nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script(Arc<Mutex<Told>>, Arc<Notify>);

#[derive(Debug, Default)]
struct Told {
    acts: HashMap<String, VecDeque<Act>>,
    begun: Vec<String>,
    failing_turns: usize,
    tasks: usize,
    most_tasks: usize,
    /// Processes that were killed do nothing any more.
    life: usize,
}

impl Script {
    /// How the next attempts of a job end. Later ones end at once.
    pub(crate) fn say(&self, job: &str, acts: impl IntoIterator<Item = Act>) {
        let mut told = self.0.lock().unwrap();
        told.acts.entry(job.to_owned()).or_default().extend(acts);
    }

    /// The next turns fail.
    pub(crate) fn fail_turns(&self, count: usize) {
        self.0.lock().unwrap().failing_turns = count;
    }

    /// How many attempts of a job, or of all, have begun.
    pub(crate) fn count(&self, job: &str) -> usize {
        let told = self.0.lock().unwrap();
        let begun = told.begun.iter();
        begun
            .filter(|begun| job.is_empty() || *begun == job)
            .count()
    }

    /// How many tasks run.
    pub(crate) fn tasks(&self) -> usize {
        self.0.lock().unwrap().tasks
    }

    /// How many have run at a time.
    pub(crate) fn most_tasks(&self) -> usize {
        self.0.lock().unwrap().most_tasks
    }

    /// Lets an attempt that waits for a stop end.
    pub(crate) fn notify(&self) {
        self.1.notify_one();
    }

    fn end_life(&self) {
        let mut told = self.0.lock().unwrap();
        told.life += 1;
        told.tasks = 0;
    }

    fn turn_fails(&self) -> bool {
        let mut told = self.0.lock().unwrap();
        let fails = told.failing_turns > 0;
        told.failing_turns -= usize::from(fails);
        fails
    }

    fn begin(&self, job: &str, life: usize) -> Act {
        let mut told = self.0.lock().unwrap();
        if told.life != life {
            return Act::Hang;
        }
        told.begun.push(job.to_owned());
        let act = told.acts.get_mut(job).and_then(VecDeque::pop_front);
        act.unwrap_or(Act::Take(Duration::ZERO))
    }
}

/// Counts a task, until this is dropped.
struct Running(Script, usize);

impl Running {
    fn begin(script: &Script) -> Self {
        let mut told = script.0.lock().unwrap();
        told.tasks += 1;
        told.most_tasks = told.most_tasks.max(told.tasks);
        Self(script.clone(), told.life)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut told = self.0.0.lock().unwrap();
        if told.life == self.1 {
            told.tasks -= 1;
        }
    }
}

/// The script, and the life of the process for which it is read.
struct Life(Script, usize);

#[durable_object]
pub(crate) struct Desk {
    inner: Rc<Inner>,
}

struct Inner {
    ctx: Ctx,
    worker: Worker,
    life: Arc<Life>,
}

#[derive(Clone, Debug)]
struct Job {
    id: i64,
    name: String,
}

impl DurableObject for Desk {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        create(&ctx)?;
        let worker = Worker::new(&ctx, WakeUp::own(&ctx));
        let life = env.require::<Life>()?;
        let inner = Rc::new(Inner { ctx, worker, life });
        Ok(Self { inner })
    }

    async fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        if self.inner.has_work()? {
            self.inner.carry_on()?;
        }
        Ok(())
    }
}

#[rpc]
impl Desk {
    pub async fn add(&self, name: String, wait: i64) -> Result<()> {
        self.inner.add(&name, wait)
    }

    pub async fn done(&self) -> Result<i64> {
        let sql = self.inner.ctx.sql();
        let done = "SELECT count(*) FROM jobs WHERE state = 'done'";
        sql.exec(done, ())?.one()
    }

    pub async fn alarm_at(&self) -> Result<Option<i64>> {
        self.inner.worker.alarm().get()
    }

    pub async fn wipe(&self) -> Result<()> {
        self.inner.ctx.storage().delete_all()
    }

    /// Deletes everything and adds a job, in one transaction; undone, if that is wanted.
    pub async fn begin_anew(&self, name: String, undo: bool) -> Result<()> {
        self.inner.ctx.storage().transaction(|| {
            self.inner.ctx.storage().delete_all()?;
            create(&self.inner.ctx)?;
            self.inner.add(&name, 0)?;
            if undo {
                return Err(Error::new("undone"));
            }
            Ok(())
        })
    }
}

fn create(ctx: &Ctx) -> Result<()> {
    let table = "CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, name TEXT, due INTEGER, state TEXT)";
    ctx.sql().exec(table, ()).map(drop)
}

impl Inner {
    fn add(self: &Rc<Self>, name: &str, wait: i64) -> Result<()> {
        let due = self.worker.now() + wait;
        self.ctx.sql().exec(
            "INSERT INTO jobs (name, due, state) VALUES (?1, ?2, 'waiting')",
            (name, due),
        )?;
        self.carry_on()
    }

    fn has_work(&self) -> Result<bool> {
        let sql = self.ctx.sql();
        let open = "SELECT EXISTS (SELECT 1 FROM jobs WHERE state <> 'done')";
        sql.exec(open, ())?.one()
    }

    fn carry_on(self: &Rc<Self>) -> Result<()> {
        self.worker.guard(RECOVERY)?;
        self.worker.kick(|| Jobs {
            inner: Rc::clone(self),
            _running: Running::begin(&self.life.0),
        });
        Ok(())
    }
}

struct Jobs {
    inner: Rc<Inner>,
    _running: Running,
}

impl Work for Jobs {
    type Claim = Job;
    type Landed = i64;

    fn has_tables(&self) -> Result<bool> {
        tables::exists(&self.inner.ctx.sql(), "jobs")
    }

    fn recover(&mut self, _now: i64) -> Result<()> {
        let sql = self.inner.ctx.sql();
        let again = "UPDATE jobs SET state = 'waiting' WHERE state = 'running'";
        sql.exec(again, ()).map(drop)
    }

    fn turn(&mut self, landed: &mut Vec<i64>, turn: Turn) -> Result<Next<Job, i64>> {
        let sql = self.inner.ctx.sql();
        if self.inner.life.0.turn_fails() {
            return Err(Error::new("the script says so"));
        }
        worker::write_each(landed, |id| {
            let done = "UPDATE jobs SET state = 'done' WHERE id = ?1";
            sql.exec(done, (*id,)).map(drop)
        })?;
        if turn.may != May::Claim {
            return Ok(Next::at(None));
        }
        let due = "UPDATE jobs SET state = 'running' WHERE state = 'waiting' AND due <= ?1
             RETURNING id, name";
        let claims: Vec<(i64, String)> = sql.exec(due, (turn.now,))?.all()?;
        let wake = "SELECT min(due) FROM jobs WHERE state = 'waiting'";
        let mut next = Next::at(sql.exec(wake, ())?.one()?);
        let claims = claims.into_iter();
        next.claims = claims.map(|(id, name)| Job { id, name }).collect();
        Ok(next)
    }

    fn begin(
        &mut self,
        claims: Vec<Job>,
        durable: Result<()>,
        _landed: &mut Vec<i64>,
        _turn: Turn,
    ) -> Result<Vec<Attempt<i64>>> {
        durable?;
        let clock = self.inner.ctx.env().clock();
        let begin = |job: Job| {
            let Life(script, life) = &*self.inner.life;
            let act = script.begin(&job.name, *life);
            let (clock, stops) = (Arc::clone(clock), Arc::clone(&script.1));
            let attempt = async move {
                match act {
                    Act::Take(time) => clock.sleep_until(clock.now() + time).await,
                    Act::UntilStop => stops.notified().await,
                    Act::Hang => pending().await,
                    Act::Panic => panic!("the script says so"),
                }
                job.id
            };
            Box::pin(attempt) as Attempt<i64>
        };
        Ok(claims.into_iter().map(begin).collect())
    }
}

/// What the desks do, and the timeout of their background tasks.
pub(crate) struct Office {
    pub(crate) script: Script,
    timeout: Duration,
}

impl Setup for Office {
    fn build(&self, node: NodeBuilder, _: &SimDisk) -> NodeBuilder {
        let life = self.script.0.lock().unwrap().life;
        node.class::<Desk>(ClassOptions::default().background_timeout(self.timeout))
            .with(Life(self.script.clone(), life))
            .workers(2)
    }

    fn end_life(&mut self) {
        self.script.end_life();
    }

    fn seen(&self) -> String {
        format!("{:#?}", self.script)
    }
}

pub(crate) type World = world::World<Office>;

impl World {
    pub(crate) fn new() -> Self {
        Self::with_timeout(Duration::from_mins(10))
    }

    /// The timeout of background tasks.
    pub(crate) fn with_timeout(timeout: Duration) -> Self {
        let script = Script::default();
        Self::of(Office { script, timeout })
    }

    /// Another node after this one was stopped.
    pub(crate) async fn stopped(self) -> Self {
        let stop = self.node.shutdown(Duration::from_mins(1));
        let end = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            self.clock.advance(Duration::from_secs(1));
            self.script.notify();
        };
        let (stopped, ()) = tokio::join!(stop, end);
        stopped.unwrap();
        // Until then the last writes are on their way to the disk.
        self.node.store().close().unwrap();
        self.killed()
    }

    pub(crate) fn desk(&self, name: &str) -> Stub<Desk> {
        self.stub(name)
    }

    /// Adds a job that is due after `wait` milliseconds.
    pub(crate) async fn add(&self, desk: &str, job: &str, wait: i64) {
        let added = self.desk(desk).add(job.to_owned(), wait).await;
        added.unwrap();
    }

    /// Waits until this many jobs are done, and does not move the clock.
    pub(crate) async fn until_done(&self, count: i64) {
        let done = async || self.desk("desk").done().await.unwrap() == count;
        self.wait(Duration::ZERO, "jobs are done", done).await;
    }

    /// The same, and moves the clock.
    pub(crate) async fn pass_until_done(&self, count: i64) {
        let done = async || self.desk("desk").done().await.unwrap() == count;
        let step = Duration::from_millis(100);
        self.wait(step, "jobs are done", done).await;
    }

    /// Waits until a job's attempts have begun, and does not move the clock.
    pub(crate) async fn until_begun(&self, job: &str, count: usize) {
        let begun = async || self.script.count(job) == count;
        self.wait(Duration::ZERO, "attempts begin", begun).await;
    }

    /// The same, and moves the clock. Calls no object.
    pub(crate) async fn pass_until_begun(&self, job: &str, count: usize) {
        let begun = async || self.script.count(job) == count;
        let step = Duration::from_millis(100);
        self.wait(step, "attempts begin", begun).await;
    }
}
