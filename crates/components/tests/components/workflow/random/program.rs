//! A program that a seed makes, and how a workflow runs it.

use std::{
    cell::Cell,
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use abide::workflow::{Attempt, Context, Failure, FailureKind, RetryPolicy, Workflow};
use abide_harness::Random;
use futures_util::{
    FutureExt, StreamExt,
    future::{LocalBoxFuture, select_all},
    stream::FuturesUnordered,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The names of events.
pub(super) const EVENTS: [&str; 2] = ["paid", "paid (2)"];

/// Names of steps, few, so that they are used again, and such that look like the second use of another.
const NAMES: [&str; 4] = ["a", "b", "a (2)", "b (2)"];

/// What a workflow does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Program {
    /// A step that fails so often, and answers after some milliseconds; for good, if it fails then, too.
    Step {
        name: String,
        fails: u32,
        millis: u64,
        refused: bool,
    },
    Sleep {
        name: String,
        millis: u64,
    },
    /// A sleep until a time, this many milliseconds after that of the newest result.
    Until {
        name: String,
        millis: i64,
    },
    Event {
        name: String,
        millis: u64,
    },
    Child {
        name: String,
        program: Box<Self>,
    },
    /// One after the other, up to the first failure.
    Chain(Vec<Self>),
    /// All of them.
    Join(Joined, Vec<Self>),
    /// The first of them.
    Race(Vec<Self>),
    /// A failure is a value, and what must be done after a cancellation is.
    Try(Box<Self>),
    /// A version, and then the program.
    Patched(Box<Self>),
    /// The instance continues as new, with this program.
    Anew(Box<Self>),
}

/// What an instance is started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Input {
    pub(super) program: Program,
    /// Events of each name that were taken before this history.
    pub(super) taken: [i64; 2],
}

impl Input {
    pub(super) fn new(program: Program) -> Self {
        Self {
            program,
            taken: [0; 2],
        }
    }
}

/// How futures are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Joined {
    Parallel,
    Unordered,
    /// The first two with the macro, which begins with another at each poll.
    Macro,
}

impl Program {
    pub(super) fn random(random: &mut Random, depth: u32) -> Self {
        let some = |random: &mut Random, least, depth| -> Vec<Self> {
            let count = least + random.below(2);
            (0..count).map(|_| Self::random(random, depth)).collect()
        };
        let name = |random: &mut Random| NAMES[random.below(4) as usize].to_owned();
        // Few lengths, so that many end together.
        let millis = |random: &mut Random| [0, 10, 100, 100, 1_000][random.below(5) as usize];
        if depth == 0 {
            return match random.below(9) {
                0..=3 => Self::Step {
                    name: name(random),
                    fails: random.below(8).saturating_sub(5),
                    millis: [0, 0, 0, 10, 10, 50][random.below(6) as usize],
                    refused: random.below(10) == 0,
                },
                4 | 5 => Self::Sleep {
                    name: name(random),
                    millis: millis(random),
                },
                6 => Self::Event {
                    name: EVENTS[random.below(2) as usize].to_owned(),
                    millis: 2 * millis(random),
                },
                7 => Self::Until {
                    name: name(random),
                    millis: [-1_000, 0, 10, 100, 300][random.below(5) as usize],
                },
                _ => {
                    let step = Self::Step {
                        name: "child".to_owned(),
                        fails: 0,
                        millis: 10,
                        refused: random.below(4) == 0,
                    };
                    let program = match random.below(4) {
                        0 => Self::Chain(vec![step.clone(), Self::Anew(Box::new(step))]),
                        _ => step,
                    };
                    Self::Child {
                        name: name(random),
                        program: Box::new(program),
                    }
                }
            };
        }
        match random.below(13) {
            0..=2 => Self::Chain(some(random, 2, depth - 1)),
            3..=6 => {
                // One within another asks in its own order, which the model does not know.
                let unordered = if depth == 1 {
                    Joined::Unordered
                } else {
                    Joined::Parallel
                };
                let joined = [Joined::Parallel, Joined::Macro, unordered];
                let joined = joined[random.below(3) as usize];
                Self::Join(joined, some(random, 2, depth - 1))
            }
            7 | 8 => Self::Race(some(random, 2, depth - 1)),
            9 => Self::Try(Box::new(Self::random(random, depth - 1))),
            10 => Self::Patched(Box::new(Self::random(random, depth - 1))),
            11 => Self::Anew(Box::new(Self::random(random, depth - 1))),
            _ => {
                // A loop.
                let body = Self::random(random, depth - 1);
                Self::Chain(vec![body; 2 + random.below(2) as usize])
            }
        }
    }

    /// The programs with which an instance may continue that began with this one.
    pub(super) fn successors(&self) -> Vec<&Self> {
        match self {
            Self::Step { .. }
            | Self::Sleep { .. }
            | Self::Until { .. }
            | Self::Event { .. }
            | Self::Child { .. } => Vec::new(),
            Self::Chain(parts) | Self::Join(_, parts) | Self::Race(parts) => {
                parts.iter().flat_map(Self::successors).collect()
            }
            Self::Try(part) | Self::Patched(part) => part.successors(),
            Self::Anew(part) => {
                let mut all = part.successors();
                all.push(part);
                all
            }
        }
    }

    fn run<'a>(&'a self, ctx: &'a Turn) -> LocalBoxFuture<'a, Result<i64, Failure>> {
        async move {
            match self {
                Self::Step {
                    name,
                    fails,
                    millis,
                    refused,
                } => {
                    let policy = RetryPolicy::default()
                        .attempts(1_000)
                        .backoff(Duration::from_millis(10), Duration::from_millis(100));
                    let act = async |attempt: Attempt| {
                        if *millis > 0 {
                            let clock = attempt.clock();
                            let end = clock.now() + Duration::from_millis(*millis);
                            clock.sleep_until(end).await;
                        }
                        match attempt.number() {
                            number if number <= *fails && number % 2 == 0 => {
                                Err(Failure::throttled("later", Some(Duration::from_millis(20))))
                            }
                            number if number <= *fails => Err(Failure::temporary("busy")),
                            _ if *refused => Err(Failure::permanent("no")),
                            _ => Ok(value(attempt.idempotency_key())),
                        }
                    };
                    ctx.step(name, policy, act).await
                }
                Self::Sleep { name, millis } => {
                    let time = Duration::from_millis(*millis);
                    ctx.sleep(name, time).await.map(|()| 1)
                }
                Self::Until { name, millis } => {
                    let time = ctx.now() + millis;
                    ctx.sleep_until(name, time).await?;
                    assert!(ctx.now() >= time, "it woke before the time that it named");
                    Ok(1)
                }
                Self::Event { name, millis } => {
                    let time = Duration::from_millis(*millis);
                    let event = ctx.wait_for_event(name, time).await?;
                    let taken = EVENTS.iter().zip(&ctx.taken);
                    for (_, taken) in taken.filter(|(event, _)| *event == name) {
                        taken.set(taken.get() + 1);
                    }
                    Ok(event)
                }
                Self::Child { name, program } => {
                    let input = Input::new((**program).clone());
                    ctx.child::<Wildly>(name, input).await
                }
                Self::Chain(parts) => {
                    let mut sum = 0;
                    for part in parts {
                        sum = mix(sum, part.run(ctx).await?);
                    }
                    Ok(sum)
                }
                Self::Join(joined, parts) => Ok(codes(&join(*joined, ctx, parts).await)),
                Self::Race(parts) => {
                    let (result, first, _) =
                        select_all(parts.iter().map(|part| part.run(ctx))).await;
                    result.map(|value| mix(i64::try_from(first).unwrap(), value))
                }
                Self::Try(part) => match part.run(ctx).await {
                    Err(failure) if failure.is_canceled() => {
                        let policy = RetryPolicy::default();
                        let undo = async |_| Ok(0_i64);
                        ctx.shielded().step("undo", policy, undo).await?;
                        Err(failure)
                    }
                    result => Ok(code(&result.map_err(|failure| failure.kind()))),
                },
                Self::Patched(part) => {
                    let version = ctx.version("change", 0..=ctx.newest).await?;
                    let result = part.run(ctx).await?;
                    Ok(mix(version.into(), result))
                }
                Self::Anew(program) => {
                    let input = Input {
                        program: (**program).clone(),
                        taken: ctx.taken.each_ref().map(Cell::get),
                    };
                    ctx.continue_as_new::<Wildly>(&input).await
                }
            }
        }
        .boxed_local()
    }
}

async fn join(joined: Joined, ctx: &Turn, parts: &[Program]) -> Vec<Result<i64, FailureKind>> {
    let results = match joined {
        Joined::Parallel => ctx.parallel(parts.iter().map(|part| part.run(ctx))).await,
        Joined::Unordered => {
            let numbered = parts.iter().enumerate();
            let numbered = numbered.map(|(at, part)| part.run(ctx).map(move |result| (at, result)));
            let mut results: Vec<_> = numbered.collect::<FuturesUnordered<_>>().collect().await;
            results.sort_by_key(|(at, _)| *at);
            results.into_iter().map(|(_, result)| result).collect()
        }
        Joined::Macro => {
            let rest = ctx.parallel(parts[2..].iter().map(|part| part.run(ctx)));
            let (one, two, rest) = tokio::join!(parts[0].run(ctx), parts[1].run(ctx), rest);
            [one, two].into_iter().chain(rest).collect()
        }
    };
    let kind = |result: Result<i64, Failure>| result.map_err(|failure| failure.kind());
    results.into_iter().map(kind).collect()
}

pub(super) fn mix(one: i64, two: i64) -> i64 {
    one.wrapping_mul(31).wrapping_add(two) % 1_000_000_007
}

/// A number for a result.
pub(super) fn code(result: &Result<i64, FailureKind>) -> i64 {
    match result {
        Ok(value) => *value,
        Err(FailureKind::Temporary) => -1,
        Err(FailureKind::Permanent) => -2,
        Err(FailureKind::Timeout) => -3,
        Err(FailureKind::Canceled) => -4,
        Err(_) => -5,
    }
}

pub(super) fn codes(results: &[Result<i64, FailureKind>]) -> i64 {
    results.iter().map(code).fold(0, mix)
}

/// What a step gives: another number for each step.
fn value(key: &str) -> i64 {
    let hash = Sha256::digest(key);
    i64::from(u32::from_le_bytes([hash[0], hash[1], hash[2], hash[3]]))
}

/// A history of an instance that runs a program.
struct Turn {
    ctx: Context,
    taken: [Cell<i64>; 2],
    /// The newest version of the change that the program knows.
    newest: u32,
}

impl std::ops::Deref for Turn {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.ctx
    }
}

/// A workflow that runs a program.
#[derive(Clone, Default)]
pub(super) struct Wildly {
    /// With what each instance was run, the latest last.
    pub(super) inputs: Arc<Mutex<HashMap<String, Vec<Input>>>>,
    /// How often the process has ended: each brings another version of the program.
    pub(super) deaths: u32,
}

/// The version of the first program.
pub(super) const FIRST_VERSION: u32 = 3;

impl Workflow for Wildly {
    const NAME: &'static str = "wild";
    type Input = Input;
    type Output = i64;

    async fn run(&self, ctx: Context, input: Input) -> Result<i64, Failure> {
        let id = ctx.id().to_owned();
        {
            let mut inputs = self.inputs.lock().unwrap();
            let inputs = inputs.entry(id).or_default();
            inputs.retain(|known| *known != input);
            inputs.push(input.clone());
        }
        let turn = Turn {
            ctx,
            taken: input.taken.map(Cell::new),
            newest: FIRST_VERSION + self.deaths,
        };
        input.program.run(&turn).await
    }
}
