//! Restores, undos, forks and activations of random instances, and of their directory.
//!
//! A dormant object does nothing, whatever is asked of it. A restored one knows what it knew then: events that were sent later
//! are gone, and are sent anew.

use std::{collections::BTreeMap, fmt::Debug, time::Duration};

use abide::{
    AnyStub,
    prelude::*,
    workflow::{Filter, Status, StepRecord, Workflow, WorkflowDirectory, WorkflowInstance},
};
use abide_harness::{Random, setting};

use super::{Subject, program::Wildly, wild::Wild};

/// Copies that are dormant at a time.
const MAX_COPIES: usize = 5;

/// A state of an instance to which it can be restored.
#[derive(Clone)]
pub(super) struct Past {
    at: Bookmark,
    sent: [i64; 2],
    canceled: bool,
    dormant: bool,
}

/// What was copied, and what is dormant or can be restored besides the subjects.
#[derive(Default)]
pub(super) struct Timelines {
    /// Dormant copies, and what they were when they were made.
    copies: Vec<(String, String)>,
    made: usize,
    /// Activated copies, which have dropped their work.
    ended: Vec<(String, String)>,
    directory: Option<Bookmark>,
    children: Vec<(String, Bookmark)>,
}

fn object(wild: &Wild, id: &str) -> AnyStub {
    let instances = wild.node.env().object::<WorkflowInstance>();
    let name = name_of(id);
    instances.get_by_name(&name).untyped().clone()
}

fn name_of(id: &str) -> String {
    format!("{}/{id}", Wildly::NAME)
}

fn directory(wild: &Wild) -> AnyStub {
    let directories = wild.node.env().object::<WorkflowDirectory>();
    directories.get_by_name(Wildly::NAME).untyped().clone()
}

/// Repeats what a busy node refuses.
async fn insist<T: Debug>(ask: impl AsyncFn() -> abide::Result<T>) -> T {
    let mut last = None;
    for _ in 0..setting("ABIDE_TEST_ROUNDS", 5_000) {
        match ask().await {
            Err(error) if error.overloaded() || error.retryable() => {
                last = Some(error);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            answer => return answer.unwrap(),
        }
    }
    panic!("it is refused again and again: {last:?}");
}

/// The steps of an instance as they show whether it works.
async fn work(wild: &Wild, id: &str) -> String {
    let steps = wild.ask(async |workflows| workflows.history(id, 0).await);
    let of = |step: StepRecord| {
        (
            step.name,
            step.occurrence,
            step.state,
            step.attempts,
            step.seq,
        )
    };
    let steps: Vec<_> = steps.await.unwrap().into_iter().map(of).collect();
    format!("{steps:?}")
}

impl Subject {
    fn present(&self, at: Bookmark) -> Past {
        Past {
            at,
            sent: self.sent,
            canceled: self.canceled,
            dormant: self.frozen.is_some(),
        }
    }

    /// A bookmark is taken, it goes back to one, or forward again, it is copied, or it is activated.
    pub(super) async fn travel(&mut self, wild: &Wild, all: &mut Timelines, random: &mut Random) {
        let stub = object(wild, &self.id);
        let node = &wild.node;
        match random.below(8) {
            0..=2 => {
                let at = insist(async || node.bookmark(&stub, None).await).await;
                self.pasts.push(self.present(at));
            }
            3 | 4 if !self.pasts.is_empty() => {
                let chosen = random.below(u32::try_from(self.pasts.len()).unwrap());
                let to = self.pasts[chosen as usize].clone();
                let dormant = random.below(3) == 0;
                let undo = insist(async || {
                    if dormant {
                        node.restore_dormant(&stub, to.at).await
                    } else {
                        node.restore(&stub, to.at).await
                    }
                });
                self.pasts.push(self.present(undo.await));
                (self.sent, self.canceled) = (to.sent, to.canceled);
                self.frozen = None;
                if dormant || to.dormant {
                    self.frozen = Some(work(wild, &self.id).await);
                }
            }
            5 if all.copies.len() < MAX_COPIES => {
                let at = insist(async || node.bookmark(&stub, None).await).await;
                let copy = format!("copy {}", all.made);
                all.made += 1;
                let name = name_of(&copy);
                insist(async || node.fork(&stub, at, &name).await).await;
                let frozen = work(wild, &copy).await;
                all.copies.push((copy, frozen));
            }
            6 => self.wake(wild).await,
            7 => all.travel(wild, random).await,
            _ => {}
        }
    }

    /// Ends its dormancy, in which it has done nothing.
    pub(super) async fn wake(&mut self, wild: &Wild) {
        let Some(frozen) = self.frozen.take() else {
            return;
        };
        assert_eq!(
            work(wild, &self.id).await,
            frozen,
            "{} was dormant",
            self.id
        );
        let stub = object(wild, &self.id);
        let node = &wild.node;
        insist(async || node.activate(&stub, Activation::Continue).await).await;
    }
}

impl Timelines {
    /// The same for their directory, a child, or a copy.
    async fn travel(&mut self, wild: &Wild, random: &mut Random) {
        let node = &wild.node;
        match random.below(4) {
            0 => {
                let stub = directory(wild);
                match self.directory.take() {
                    Some(at) => drop(insist(async || node.restore(&stub, at).await).await),
                    None => {
                        let at = insist(async || node.bookmark(&stub, None).await).await;
                        self.directory = Some(at);
                    }
                }
            }
            1 if !self.children.is_empty() => {
                let (id, at) = self.children.swap_remove(0);
                let stub = object(wild, &id);
                insist(async || node.restore(&stub, at).await).await;
            }
            1 | 2 => {
                let found = wild.ask(async |workflows| workflows.list(Filter::default()).await);
                let found = found.await.unwrap().instances.into_iter();
                let children: Vec<_> = found.filter(|found| found.id.contains('/')).collect();
                if let Ok(count @ 1..) = u32::try_from(children.len()) {
                    let id = children[random.below(count) as usize].id.clone();
                    let stub = object(wild, &id);
                    let at = insist(async || node.bookmark(&stub, None).await).await;
                    self.children.push((id, at));
                }
            }
            _ if !self.copies.is_empty() => {
                let (copy, frozen) = self.copies.swap_remove(0);
                assert_eq!(work(wild, &copy).await, frozen, "{copy} was dormant");
                let stub = object(wild, &copy);
                insist(async || node.activate(&stub, Activation::Fresh).await).await;
                let record = wild.ask(async |workflows| workflows.status(&copy).await);
                assert!(record.await.unwrap().status.is_end());
                // It drops its work, and does nothing from now on.
                let ended = work(wild, &copy).await;
                self.ended.push((copy, ended));
            }
            _ => {}
        }
    }

    /// Copies have done nothing, and the directory shows what the instances are.
    pub(super) async fn check(&self, wild: &Wild, seed: u64, subjects: &[Subject]) {
        for (copy, frozen) in self.copies.iter().chain(&self.ended) {
            assert_eq!(work(wild, copy).await, *frozen, "seed {seed}: {copy}");
        }
        let mut are: BTreeMap<String, Status> = BTreeMap::new();
        for subject in subjects {
            let id = &subject.id;
            let record = wild.ask(async |workflows| workflows.status(id).await);
            are.insert(id.clone(), record.await.unwrap().status);
        }
        let mut shown = BTreeMap::new();
        for _ in 0..setting("ABIDE_TEST_ROUNDS", 2_000) {
            let found = wild.ask(async |workflows| workflows.list(Filter::default()).await);
            let found = found.await.unwrap().instances.into_iter();
            shown = found.map(|found| (found.id, found.status)).collect();
            assert!(shown.keys().all(|id: &String| !id.starts_with("copy")));
            if are.iter().all(|(id, status)| shown.get(id) == Some(status)) {
                return;
            }
            wild.pass(Duration::from_millis(200)).await;
        }
        panic!("seed {seed}: the directory shows {shown:?} instead of {are:?}");
    }
}
