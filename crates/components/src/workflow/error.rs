//! Errors of workflows.

use abide::Error;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Status;

/// Why a workflow refused a request. Nothing changed.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum WorkflowError {
    /// The request is invalid; the text says what is valid.
    #[error("{0}")]
    Invalid(String),
    /// The program has no such workflow.
    #[error(
        "there is no workflow `{name}`: add it to the program's `WorkflowRegistry`, which has `{known}`"
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// The registered workflows.
        known: String,
    },
    /// There is no such instance, or it is no longer kept.
    #[error("there is no instance `{id}`")]
    NotFound {
        /// What was asked for.
        id: String,
    },
    /// The id belongs to an instance that was started with another input.
    #[error(
        "instance `{id}` was started with another input, or by another caller: a new instance needs a new id"
    )]
    IdReused {
        /// The id.
        id: String,
    },
    /// The instance has finished.
    #[error("instance `{id}` has finished ({status}): to run it again, restart it from a step")]
    Ended {
        /// The instance.
        id: String,
        /// Its status.
        status: Status,
    },
    /// The instance has no such step.
    #[error("instance `{id}` has no step `{step}`: its history lists its steps")]
    NoStep {
        /// The instance.
        id: String,
        /// What was asked for.
        step: String,
    },
    /// Too many events wait.
    #[error("{max} events already wait for instance `{id}`: send more when it has consumed some")]
    TooManyEvents {
        /// The instance.
        id: String,
        /// How many may wait.
        max: i64,
    },
    /// The storage failed, or the object.
    #[error(transparent)]
    Object(#[from] Error),
}

abide_component::error_kinds!(WorkflowError {
    Invalid => Input,
    Unknown | NotFound | NoStep => NotFound,
    IdReused => KeyReused,
    Ended => Application,
    TooManyEvents => Overloaded,
});
