//! Random workflows, which must all end with the result that their history tells, whatever is done to them and their node.
//!
//! A seed makes programs of steps that fail and answer late, sleeps, events, children, versions and new beginnings, in sequence,
//! side by side and against each other. Each history is replayed aside after each result. Meanwhile the process is killed, the
//! power is cut, the clock is set back, instances are paused, resumed, canceled, restarted, restored, copied and activated, while
//! others read them. An independent model then reads the history of each and says what the result is. `ABIDE_WORKFLOW_RANDOM` says how many programs, `ABIDE_WORKFLOW_FIRST_SEED` the first seed.

mod model;
mod program;
mod timelines;
mod wild;

use std::time::Duration;

use abide::workflow::{Ended, Status, WorkflowError, Workflows};
use abide_harness::{Random, on_all_cores, setting};

use crate::workflow::support::run;
use model::result_of;
use program::{Input, Program};
use timelines::{Past, Timelines};
use wild::Wild;

/// Programs that run on a node at a time.
const BATCH: u64 = 150;

/// What is known of an instance of a batch.
struct Subject {
    id: String,
    program: Program,
    /// Events that were sent, by name.
    sent: [i64; 2],
    canceled: bool,
    /// States that it can be restored to.
    pasts: Vec<Past>,
    /// Its steps, if it is dormant.
    frozen: Option<String>,
}

async fn live(seed: u64, programs: u64) {
    let random = &mut Random::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut wild = Wild::new();
    let mut subjects = Vec::new();
    let mut timelines = Timelines::default();
    for number in 0..programs {
        let mut subject = Subject {
            id: format!("{number}"),
            program: Program::random(random, 3),
            sent: [0; 2],
            canceled: false,
            pasts: Vec::new(),
            frozen: None,
        };
        let id = &subject.id;
        let input = &Input::new(subject.program.clone());
        let started = if random.below(3) == 0 {
            let event = random.below(2) as usize;
            subject.sent[event] = 1;
            let name = program::EVENTS[event];
            wild.ask(async |workflows| workflows.start_with_event(id, input, name, &1).await)
                .await
        } else {
            wild.ask(async |workflows| workflows.start(id, input).await)
                .await
        };
        assert!(!started.unwrap().duplicate);
        subjects.push(subject);
    }
    for _ in 0..60 + random.below(60) {
        let millis = [1, 10, 10, 50, 300][random.below(5) as usize];
        wild.pass(Duration::from_millis(millis)).await;
        for _ in 0..random.below(12) {
            let chosen = random.below(u32::try_from(subjects.len()).unwrap());
            let subject = &mut subjects[chosen as usize];
            meddle(&wild, subject, random).await;
            look_at(&wild, &subject.id, random);
            if random.below(6) == 0 {
                subject.travel(&wild, &mut timelines, random).await;
            }
        }
        let back = 6_000 + i64::from(random.below(14_000));
        match random.below(120) {
            0 => wild = wild.killed(),
            1 => wild = wild.killed_and_set_back(back),
            2 | 3 => wild = wild.crashed(seed),
            4 => wild.set_back(back),
            _ => {}
        }
    }
    for subject in &mut subjects {
        subject.wake(&wild).await;
        let id = &subject.id;
        let _ = wild.ask(async |workflows| workflows.resume(id).await).await;
        settle(&wild, seed, subject).await;
        check(&wild, seed, subject).await;
        if random.below(8) == 0 {
            let steps = wild
                .ask(async |workflows| workflows.history(id, 0).await)
                .await;
            let steps = steps.unwrap();
            let step = &steps[random.below(u32::try_from(steps.len()).unwrap()) as usize];
            let restarted = wild.ask(async |workflows| workflows.restart_from(id, step).await);
            restarted.await.unwrap();
            settle(&wild, seed, subject).await;
            check(&wild, seed, subject).await;
        }
    }
    timelines.check(&wild, seed, &subjects).await;
}

/// Another caller reads an instance at the same time.
fn look_at(wild: &Wild, id: &str, random: &mut Random) {
    let (workflows, id, what) = (wild.workflows(), id.to_owned(), random.below(6));
    drop(tokio::spawn(async move {
        match what {
            0 => drop(workflows.status(&id).await),
            1 => drop(workflows.history(&id, 0).await),
            2 => drop(workflows.wait(&id, Duration::from_secs(1)).await),
            _ => {}
        }
    }));
}

/// Does something to an instance that may have ended.
async fn meddle(wild: &Wild, subject: &mut Subject, random: &mut Random) {
    let id = &subject.id;
    let done = match random.below(12) {
        0 | 1 => wild.ask(async |workflows| workflows.pause(id).await).await,
        2..=4 => wild.ask(async |workflows| workflows.resume(id).await).await,
        5 if random.below(3) == 0 => {
            subject.canceled = true;
            let cancel = async |workflows: Workflows<_>| workflows.cancel(id, "meddling").await;
            wild.ask(cancel).await
        }
        _ => {
            let name = random.below(2) as usize;
            let payload = subject.sent[name] + 1;
            let is_start = random.below(4) == 0;
            let input = &Input::new(subject.program.clone());
            let event = async |workflows: Workflows<_>| {
                let name = program::EVENTS[name];
                if is_start {
                    let started = workflows.start_with_event(id, input, name, &payload).await;
                    return started.map(|started| assert!(started.duplicate));
                }
                workflows.send_event(id, name, &payload).await
            };
            let sent = wild.ask(event).await;
            subject.sent[name] += i64::from(sent.is_ok());
            sent
        }
    };
    match done {
        Ok(()) | Err(WorkflowError::Ended { .. } | WorkflowError::TooManyEvents { .. }) => {}
        Err(error) => panic!("{id}: {error}: {:?}", subject.program),
    }
}

/// Lets time pass until an instance has ended.
async fn settle(wild: &Wild, seed: u64, subject: &Subject) {
    let id = &subject.id;
    let status = async || {
        let record = wild.ask(async |workflows| workflows.status(id).await).await;
        record.unwrap()
    };
    for round in 0..setting("ABIDE_TEST_ROUNDS", 20_000) {
        let record = status().await;
        let stuck = record.status == Status::Stuck;
        assert!(!stuck, "seed {seed}: {record:?} of {:?}", subject.program);
        if record.status.is_end() {
            return;
        }
        // Attempts wait for the disk, and not for the clock.
        wild.pass(Duration::from_millis(if round % 4 == 0 { 200 } else { 5 }))
            .await;
    }
    let history = wild.ask(async |workflows| workflows.history(id, 0).await);
    panic!(
        "seed {seed}: it does not end: {:#?} of {:?}",
        history.await,
        subject.program
    );
}

/// An instance that has ended has done so as its history tells.
async fn check(wild: &Wild, seed: u64, subject: &Subject) {
    let id = &subject.id;
    let ended = wild.ask(async |workflows| workflows.result(id).await);
    let ended = ended.await.unwrap();
    let record = wild.ask(async |workflows| workflows.status(id).await);
    let record = record.await.unwrap();
    if record.cancel.is_some() || subject.canceled {
        assert_ne!(ended, Ended::No);
        return;
    }
    let history = wild.history(id).await;
    let inputs = wild.inputs(id);
    // One that was restored to its end has not run again, and may have run with others meanwhile.
    let tried = if subject.pasts.is_empty() {
        1
    } else {
        inputs.len()
    };
    let is_right = |input: &&Input| {
        let program = &input.program;
        let is_first = *program == subject.program && input.taken == [0; 2];
        let is_next = record.run > 1 && subject.program.successors().contains(&program);
        let is_told = |version| match (result_of(program, &history, version), &ended) {
            (Some(Ok(expected)), Ended::Completed(value)) => *value == expected,
            (Some(Err(kind)), Ended::Failed(failure)) => failure.kind() == kind,
            _ => false,
        };
        let mut events = program::EVENTS.iter().zip(input.taken);
        let in_order = events.all(|(name, before)| {
            let taken: Vec<i64> = history.events(name);
            taken.iter().copied().eq((before + 1..).take(taken.len()))
        });
        (is_first || is_next) && wild.versions().any(is_told) && in_order
    };
    assert!(
        inputs
            .iter()
            .rev()
            .take(tried)
            .any(|input| is_right(&input)),
        "seed {seed}: {ended:?} of {:?}, now {inputs:?}, with {history:#?}",
        subject.program
    );
}

#[test]
fn random_workflows_end_as_their_histories_tell_whatever_happens() {
    let first = setting("ABIDE_WORKFLOW_FIRST_SEED", 0);
    let programs = setting("ABIDE_WORKFLOW_RANDOM", 200);
    on_all_cores(first..first + programs.div_ceil(BATCH), |seed| {
        println!("seed {seed}");
        let before = (seed - first) * BATCH;
        run(live(seed, BATCH.min(programs - before)));
    });
    println!("{programs} programs");
}
