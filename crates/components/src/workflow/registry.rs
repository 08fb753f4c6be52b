//! The workflows of a program.

use std::{collections::BTreeMap, fmt, sync::Arc};

use futures_util::future::LocalBoxFuture;

use super::{Context, Failure, Workflow, WorkflowError, json::to_json, limits};

/// The workflows of a program. Share one with [`install`](super::install).
#[derive(Default)]
pub struct WorkflowRegistry {
    workflows: BTreeMap<&'static str, Arc<dyn AnyWorkflow>>,
}

impl WorkflowRegistry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a workflow.
    ///
    /// # Panics
    /// If there is one of this name, or the name is not 1 to [`limits::MAX_NAME_BYTES`] of `[a-zA-Z0-9_.-]`.
    #[must_use]
    pub fn with<W: Workflow>(mut self, workflow: W) -> Self {
        let name = W::NAME;
        let fits = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        assert!(
            (1..=limits::MAX_NAME_BYTES).contains(&name.len()) && name.chars().all(fits),
            "a workflow's name has 1 to {} of `[a-zA-Z0-9_.-]`: `{name}`",
            limits::MAX_NAME_BYTES
        );
        let before = self
            .workflows
            .insert(name, Arc::new(Typed(Arc::new(workflow))));
        assert!(before.is_none(), "there are two workflows `{name}`");
        self
    }

    /// The names, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.workflows.keys().copied()
    }

    pub(super) fn get(&self, name: &str) -> Result<&Arc<dyn AnyWorkflow>, WorkflowError> {
        self.workflows
            .get(name)
            .ok_or_else(|| WorkflowError::Unknown {
                name: name.to_owned(),
                known: self.names().collect::<Vec<_>>().join("`, `"),
            })
    }
}

impl fmt::Debug for WorkflowRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkflowRegistry")
            .field(&self.workflows.keys())
            .finish()
    }
}

/// A [`Workflow`] without its types.
pub(super) trait AnyWorkflow: Send + Sync {
    /// Refuses an input that is not of its type.
    fn accept(&self, input: &str) -> Result<(), String>;
    /// Runs it with a JSON input; returns a JSON output.
    fn run(
        &self,
        context: Context,
        input: String,
    ) -> LocalBoxFuture<'static, Result<String, Failure>>;
}

struct Typed<W>(Arc<W>);

impl<W: Workflow> AnyWorkflow for Typed<W> {
    fn accept(&self, input: &str) -> Result<(), String> {
        decode::<W>(input).map(drop)
    }

    fn run(
        &self,
        context: Context,
        input: String,
    ) -> LocalBoxFuture<'static, Result<String, Failure>> {
        let workflow = Arc::clone(&self.0);
        Box::pin(async move {
            let input = decode::<W>(&input).map_err(Failure::permanent)?;
            let output = workflow.run(context, input).await?;
            to_json("the workflow's result", &output)
        })
    }
}

fn decode<W: Workflow>(input: &str) -> Result<W::Input, String> {
    serde_json::from_str(input)
        .map_err(|error| format!("the input is not one of workflow `{}`: {error}", W::NAME))
}
