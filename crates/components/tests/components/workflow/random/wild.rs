//! A node on an in-memory disk that runs programs which a seed has made.

use std::time::Duration;

use abide::workflow::{
    self, StepKind, StepName, WorkflowDirectory, WorkflowError, WorkflowInstance, WorkflowOptions,
    WorkflowRegistry, Workflows,
};
use abide::{NodeBuilder, prelude::*, storage::SimDisk};

use super::{
    model::History,
    program::{FIRST_VERSION, Input, Wildly},
};
use crate::world::{self, Setup};

pub(super) type Wild = world::World<Wildly>;

impl Setup for Wildly {
    fn build(&self, node: NodeBuilder, _: &SimDisk) -> NodeBuilder {
        node.class::<WorkflowInstance>(workflow::class_options())
            .class::<WorkflowDirectory>(ClassOptions::default())
            .with(WorkflowRegistry::new().with(self.clone()))
            .with(
                WorkflowOptions::default()
                    .recovery(Duration::from_millis(500))
                    .rehearse(true),
            )
    }

    /// The next node has a newer program.
    fn end_life(&mut self) {
        self.deaths += 1;
    }
}

impl Wild {
    pub(super) fn new() -> Self {
        Self::of(Wildly::default())
    }

    /// Another node on the state that a kill of this one leaves. The clock is set back meanwhile.
    pub(super) fn killed_and_set_back(self, by: i64) -> Self {
        let clock = self.clock.clone();
        self.restarted_with(|_| clock.set_wall(-by))
    }

    /// Sets the clock back, by milliseconds.
    pub(super) fn set_back(&self, by: i64) {
        self.clock.set_wall(-by);
    }

    /// With what an instance was run, the latest last.
    pub(super) fn inputs(&self, id: &str) -> Vec<Input> {
        self.inputs.lock().unwrap()[id].clone()
    }

    /// The versions of the change that an instance may go by.
    pub(super) fn versions(&self) -> impl Iterator<Item = i64> {
        (FIRST_VERSION..=FIRST_VERSION + self.deaths).map(i64::from)
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
