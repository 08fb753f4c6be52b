//! A node on an in-memory disk that runs programs which a seed has made.

use std::{sync::Arc, time::Duration};

use abide::workflow::{
    self, StepKind, StepName, WorkflowDirectory, WorkflowError, WorkflowInstance, WorkflowOptions,
    WorkflowRegistry, Workflows,
};
use abide::{Node, clock::TestClock, prelude::*, storage::SimDisk};

use super::{
    model::History,
    program::{FIRST_VERSION, Input, Wildly},
};
use crate::world::store;

pub(super) struct Wild {
    disk: SimDisk,
    clock: TestClock,
    workflow: Wildly,
    node: Node,
}

impl Wild {
    pub(super) fn new() -> Self {
        Self::at(TestClock::new(), SimDisk::new(), Wildly::default())
    }

    fn at(clock: TestClock, disk: SimDisk, workflow: Wildly) -> Self {
        let node = Node::builder(store(&disk, &clock))
            .class::<WorkflowInstance>(workflow::class_options())
            .class::<WorkflowDirectory>(ClassOptions::default())
            .with(WorkflowRegistry::new().with(workflow.clone()))
            .with(
                WorkflowOptions::default()
                    .recovery(Duration::from_millis(500))
                    .rehearse(true),
            )
            .clock(Arc::new(clock.clone()))
            .workers(1)
            .start()
            .unwrap();
        Self {
            disk,
            clock,
            workflow,
            node,
        }
    }

    /// Another node on the state that a kill of this one leaves. The clock may be set back meanwhile.
    pub(super) fn killed(self, set_back: i64) -> Self {
        let disk = self.disk.after_kill();
        self.followed(disk, set_back)
    }

    /// Another node, on what a power cut leaves.
    pub(super) fn without_power(self, seed: u64) -> Self {
        let disk = self.disk.crash(seed);
        self.followed(disk, 0)
    }

    /// Another node, with a newer program.
    fn followed(self, disk: SimDisk, set_back: i64) -> Self {
        let (clock, mut workflow) = (self.clock.clone(), self.workflow.clone());
        drop(self);
        workflow.deaths += 1;
        clock.set_wall(-set_back);
        Self::at(clock, disk, workflow)
    }

    /// Sets the clock back, by milliseconds.
    pub(super) fn set_back(&self, by: i64) {
        self.clock.set_wall(-by);
    }

    /// With what an instance was run, the latest last.
    pub(super) fn inputs(&self, id: &str) -> Vec<Input> {
        self.workflow.inputs.lock().unwrap()[id].clone()
    }

    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    /// The versions of the change that an instance may go by.
    pub(super) fn versions(&self) -> impl Iterator<Item = i64> {
        (FIRST_VERSION..=FIRST_VERSION + self.workflow.deaths).map(i64::from)
    }

    pub(super) fn workflows(&self) -> Workflows<Wildly> {
        Workflows::new(self.node.env())
    }

    /// Lets time pass, and a moment for what is due.
    pub(super) async fn pass(&self, time: Duration) {
        self.clock.advance(time);
        tokio::time::sleep(Duration::from_micros(300)).await;
    }

    /// Asks for something until the node takes it: on a busy machine it may refuse for a moment, and has done nothing then.
    pub(super) async fn ask<T>(
        &self,
        ask: impl AsyncFn(Workflows<Wildly>) -> Result<T, WorkflowError>,
    ) -> Result<T, WorkflowError> {
        loop {
            match ask(self.workflows()).await {
                Err(WorkflowError::Object(error)) if error.overloaded() => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                answer => return answer,
            }
        }
    }

    /// What an instance was given.
    pub(super) async fn history(&self, id: &str) -> History {
        let mut history = History::default();
        let steps = self
            .ask(async |workflows| workflows.history(id, 0).await)
            .await;
        for step in steps.unwrap() {
            let Some(seq) = step.seq else {
                continue;
            };
            let name = StepName::from(&step);
            let outcome = match step.failure {
                Some(failure) if step.state == workflow::StepState::Failed => Err(failure),
                _ if step.kind == StepKind::Sleep => Ok(1),
                _ => {
                    let output =
                        async |workflows: Workflows<_>| workflows.output(id, name.clone()).await;
                    let output = self.ask(output).await.unwrap().unwrap();
                    Ok(serde_json::from_str(&output).unwrap())
                }
            };
            history.results.insert(seq, (name, step.kind, outcome));
        }
        history
    }
}
