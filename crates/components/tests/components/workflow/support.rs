//! A node on an in-memory disk that runs workflows which are written in the tests, and scripted steps.

pub(crate) use abide_harness::run;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    fmt::Debug,
    future::{Future, pending},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use abide::workflow::{
    self, Attempt, Context, Ended, Failure, Filter, InstanceRecord, RetryPolicy, Status,
    StepRecord, StepState, Workflow, WorkflowDirectory, WorkflowError, WorkflowInstance,
    WorkflowOptions, WorkflowRegistry, Workflows,
};
use abide::{NodeBuilder, prelude::*, storage::SimDisk};
use abide_harness::setting;
use tokio::sync::Notify;

use crate::world::{self, Setup};

type Program =
    dyn Fn(Context, Script) -> Pin<Box<dyn Future<Output = Result<i64, Failure>>>> + Send + Sync;

/// The functions that a node runs, by name.
#[derive(Clone, Default)]
pub(crate) struct Programs(BTreeMap<&'static str, Arc<Program>>);

impl Programs {
    pub(crate) fn with<F: Future<Output = Result<i64, Failure>> + 'static>(
        mut self,
        name: &'static str,
        program: impl Fn(Context, Script) -> F + Send + Sync + 'static,
    ) -> Self {
        let program = move |context, script| -> Pin<Box<dyn Future<Output = _>>> {
            Box::pin(program(context, script))
        };
        self.0.insert(name, Arc::new(program));
        self
    }
}

/// A workflow whose input names the function that it is.
pub(crate) struct Test(Programs, Script);

impl Workflow for Test {
    const NAME: &'static str = "test";
    type Input = String;
    type Output = i64;

    async fn run(&self, context: Context, input: String) -> Result<i64, Failure> {
        let program = Arc::clone(&self.0.0[input.as_str()]);
        program(context, self.1.clone()).await
    }
}

/// What a step does.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Well,
    Fail(Failure),
    Panic,
    Hang,
    /// Hangs if this step has been called in this life.
    HangBeside(&'static str),
    /// Ends when the instance is canceled.
    UntilCanceled,
    /// Ends when the script says so.
    Hold,
}

/// A call of a step's function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) step: String,
    pub(crate) number: u32,
    pub(crate) key: String,
    pub(crate) value: i64,
}

/// What steps are to do and have done, and for which life of the process: one that was killed does nothing any more.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Told>, u64);

#[derive(Default)]
struct Told {
    life: AtomicU64,
    acts: Mutex<HashMap<String, VecDeque<Act>>>,
    calls: Mutex<Vec<Call>>,
    /// The steps that were called in this life.
    here: Mutex<BTreeSet<String>>,
    release: Notify,
}

impl Script {
    /// What happens to a step's next attempts; then all goes well.
    pub(crate) fn say(&self, step: &str, acts: impl IntoIterator<Item = Act>) {
        let mut told = self.0.acts.lock().unwrap();
        told.entry(step.to_owned()).or_default().extend(acts);
    }

    /// The script of the next life. This one has ended.
    pub(crate) fn next_life(&self) -> Self {
        let calls = self.0.calls.lock().unwrap();
        let life = self.0.life.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.here.lock().unwrap().clear();
        drop(calls);
        Self(Arc::clone(&self.0), life)
    }

    /// Lets one step end that is held.
    pub(crate) fn release(&self) {
        self.0.release.notify_one();
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.0.calls.lock().unwrap().clone()
    }

    /// The calls of a step.
    pub(crate) fn of(&self, step: &str) -> Vec<Call> {
        let mut calls = self.calls();
        calls.retain(|call| call.step == step);
        calls
    }

    /// The names of steps, in the order in which they were called.
    pub(crate) fn names(&self) -> Vec<String> {
        self.calls().into_iter().map(|call| call.step).collect()
    }

    /// The number of a call that begins; none in a life that has ended.
    fn begin(&self, step: &str, attempt: &Attempt) -> Option<i64> {
        let mut calls = self.0.calls.lock().unwrap();
        let value = i64::try_from(calls.len()).unwrap() + 1;
        let lives = self.0.life.load(Ordering::SeqCst) == self.1;
        lives.then(|| {
            self.0.here.lock().unwrap().insert(step.to_owned());
            calls.push(Call {
                step: step.to_owned(),
                number: attempt.number(),
                key: attempt.idempotency_key().to_owned(),
                value,
            });
            value
        })
    }

    /// Does a step: has its effect, and gives a number that no other call gives.
    pub(crate) async fn act(&self, step: &str, attempt: &Attempt) -> Result<i64, Failure> {
        let Some(value) = self.begin(step, attempt) else {
            return pending().await;
        };
        let act = {
            let mut acts = self.0.acts.lock().unwrap();
            acts.get_mut(step).and_then(VecDeque::pop_front)
        };
        match act.unwrap_or(Act::Well) {
            Act::Well => Ok(value),
            Act::Fail(failure) => Err(failure),
            Act::Panic => panic!("as the script says"),
            Act::Hang => pending().await,
            Act::HangBeside(other) => {
                // Attempts of one turn are on their way together.
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                if self.0.here.lock().unwrap().contains(other) {
                    return pending().await;
                }
                Ok(value)
            }
            Act::UntilCanceled => {
                attempt.canceled().await;
                Err(Failure::temporary("canceled"))
            }
            Act::Hold => {
                self.0.release.notified().await;
                Ok(value)
            }
        }
    }

    /// A step of a workflow that does what the script says.
    pub(crate) async fn step(&self, context: &Context, name: &str) -> Result<i64, Failure> {
        self.step_with(context, name, policy()).await
    }

    pub(crate) async fn step_with(
        &self,
        context: &Context,
        name: &str,
        policy: RetryPolicy,
    ) -> Result<i64, Failure> {
        context
            .step(name, policy, async |attempt| self.act(name, &attempt).await)
            .await
    }
}

/// Many attempts, a second apart and more.
pub(crate) fn policy() -> RetryPolicy {
    RetryPolicy::default()
        .attempts(1_000)
        .backoff(Duration::from_secs(1), Duration::from_secs(2))
        .timeout(Duration::from_secs(10))
}

/// How long a node has to come to rest, of the machine's time, before an attempt is taken to be on its way.
const PATIENCE: Duration = Duration::from_millis(20);

/// What running instances wait for.
#[derive(PartialEq)]
enum Next {
    /// An attempt is on its way.
    Running,
    /// The first step that waits for its time.
    Due(i64),
    Nothing,
}

/// The programs of a test, and the script of their steps.
pub(crate) struct Scripted {
    pub(crate) script: Script,
    programs: Programs,
    rehearse: bool,
}

impl Setup for Scripted {
    fn build(&self, node: NodeBuilder, _: &SimDisk) -> NodeBuilder {
        let test = Test(self.programs.clone(), self.script.clone());
        node.class::<WorkflowInstance>(workflow::class_options())
            .class::<WorkflowDirectory>(ClassOptions::default())
            .with(WorkflowRegistry::new().with(test))
            .with(
                WorkflowOptions::default()
                    .keep_finished(Duration::from_hours(24 * 30))
                    .recovery(Duration::from_secs(2))
                    .rehearse(self.rehearse),
            )
    }

    fn end_life(&mut self) {
        self.script = self.script.next_life();
    }
}

pub(crate) type World = world::World<Scripted>;

impl World {
    /// One in which every history is replayed aside after each result.
    pub(crate) fn new(programs: Programs) -> Self {
        Self::scripted(Script::default(), programs)
    }

    pub(crate) fn scripted(script: Script, programs: Programs) -> Self {
        Self::of(Scripted {
            script,
            programs,
            rehearse: true,
        })
    }

    /// One for long histories, which are not replayed aside.
    pub(crate) fn without_rehearsals(programs: Programs) -> Self {
        Self::of(Scripted {
            script: Script::default(),
            programs,
            rehearse: false,
        })
    }

    /// Another node on the state that a kill of this one leaves, with another program.
    pub(crate) fn killed_with(self, programs: Programs) -> Self {
        self.restarted_with(|scripted| scripted.programs = programs)
    }

    pub(crate) fn workflows(&self) -> Workflows<Test> {
        Workflows::new(self.node.env())
    }

    /// Starts instance `a`.
    pub(crate) async fn start(&self, program: &str) {
        let started = self.workflows().start("a", &program.to_owned()).await;
        assert!(!started.unwrap().duplicate);
    }

    pub(crate) async fn record(&self) -> InstanceRecord {
        self.workflows().status("a").await.unwrap()
    }

    pub(crate) async fn history(&self) -> Vec<StepRecord> {
        self.workflows().history("a", 0).await.unwrap()
    }

    /// Waits for something, while the clock stands still.
    pub(crate) async fn until<T: PartialEq + Debug>(&self, wanted: T, ask: impl AsyncFn() -> T) {
        for _ in 0..setting("ABIDE_TEST_ROUNDS", 5_000) {
            if ask().await == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(ask().await, wanted);
    }

    pub(crate) async fn until_status(&self, wanted: Status) {
        self.until_status_of("a", wanted).await;
    }

    pub(crate) async fn until_status_of(&self, id: &str, wanted: Status) {
        let workflows = self.workflows();
        self.until(wanted, async || workflows.status(id).await.unwrap().status)
            .await;
    }

    /// Waits until a step was called so often.
    pub(crate) async fn until_called(&self, step: &str, times: usize) {
        self.until(times, async || self.script.of(step).len()).await;
    }

    /// The same, while time passes.
    pub(crate) async fn until_called_meanwhile(&self, step: &str, times: usize) {
        self.until_meanwhile(times, async || self.script.of(step).len())
            .await;
    }

    /// Waits for something, while time passes.
    pub(crate) async fn until_meanwhile<T: PartialEq + Debug>(
        &self,
        wanted: T,
        ask: impl AsyncFn() -> T,
    ) {
        self.until(wanted, async || {
            self.clock.advance(Duration::from_millis(20));
            ask().await
        })
        .await;
    }

    /// Starts instance `a`, and waits until it is in this step, which does so.
    pub(crate) async fn start_in(&self, program: &str, step: &str, act: Act) {
        self.script.say(step, [act]);
        self.start(program).await;
        self.until_called(step, 1).await;
    }

    /// Waits until the step that was asked for as this one, counted from 0, is in this state.
    pub(crate) async fn until_step(&self, index: usize, wanted: StepState) {
        self.until(Some(wanted), async || {
            self.history().await.get(index).map(|step| step.state)
        })
        .await;
    }

    /// Lets time pass until instance `a` has ended; how.
    pub(crate) async fn ended(&self) -> Result<i64, Failure> {
        self.ended_of("a").await
    }

    pub(crate) async fn ended_of(&self, id: &str) -> Result<i64, Failure> {
        self.try_ended_of(id).await.unwrap()
    }

    /// The same, for a node that may break down meanwhile.
    pub(crate) async fn try_ended_of(
        &self,
        id: &str,
    ) -> Result<Result<i64, Failure>, WorkflowError> {
        for _ in 0..setting("ABIDE_TEST_ROUNDS", 20_000) {
            match self.workflows().result(id).await? {
                Ended::Completed(output) => return Ok(Ok(output)),
                Ended::Failed(failure) => return Ok(Err(failure)),
                Ended::No => self.tick().await?,
            }
        }
        panic!(
            "it does not end: {:?} {:?}",
            self.workflows().status(id).await,
            self.workflows().history(id, 0).await
        );
    }

    /// Lets a little time pass while an attempt is on its way, and otherwise all until something is due.
    ///
    /// What is due counts only when the node rests: a wait whose event is there, but not yet taken, must not be passed over.
    async fn tick(&self) -> Result<(), WorkflowError> {
        let mut next = self.next().await?;
        if next != Next::Running {
            let settled = tokio::time::timeout(PATIENCE, self.node.settle()).await;
            next = match settled {
                Ok(Ok(())) => self.next().await?,
                _ => Next::Running,
            };
        }
        let wait = match next {
            Next::Running => 20,
            Next::Due(due) if due > self.now() => due - self.now(),
            Next::Due(_) | Next::Nothing => 100,
        };
        self.clock
            .advance(Duration::from_millis(wait.cast_unsigned()));
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(())
    }

    /// What running instances wait for.
    async fn next(&self) -> Result<Next, WorkflowError> {
        let workflows = self.workflows();
        let mut due = None;
        let filter = Filter::default().status(Status::Running);
        for instance in workflows.list(filter).await?.instances {
            for step in workflows.history(&instance.id, 0).await? {
                if matches!(step.state, StepState::New | StepState::Running) {
                    return Ok(Next::Running);
                }
                due = due.into_iter().chain(step.due).min();
            }
        }
        Ok(due.map_or(Next::Nothing, Next::Due))
    }

    /// Lets time pass, in steps in which what is due happens, however busy the machine is. Attempts that hang are not awaited.
    pub(crate) async fn pass(&self, time: Duration) {
        let step = Duration::from_millis(500);
        let mut left = time;
        while !left.is_zero() {
            let now = left.min(step);
            self.clock.advance(now);
            left -= now;
            tokio::time::sleep(Duration::from_millis(2)).await;
            let _ = tokio::time::timeout(PATIENCE, self.node.settle()).await;
        }
    }
}
