//! Errors of outcomes.

use abide::Error;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a request was refused. Nothing changed.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OutcomesError {
    /// The schema does not allow it in the current state.
    #[error("the {schema} is `{state}` and does not allow `{action}` with `{outcome}`: {}", say(.allowed))]
    Refused {
        /// The schema.
        schema: String,
        /// The current state.
        state: String,
        /// What was tried.
        action: String,
        /// What would have come of it.
        outcome: String,
        /// The allowed transitions.
        allowed: Vec<Allowed>,
    },
    /// The schema allows it, but the machine rejects it.
    #[error("`{action}` with `{outcome}` was rejected: {reason}")]
    Rejected {
        /// What was tried.
        action: String,
        /// What would have come of it.
        outcome: String,
        /// The reason.
        reason: String,
    },
    /// The request is invalid; the text says what is valid.
    #[error("{0}")]
    Invalid(String),
    /// The chain is shorter.
    #[error("there is no outcome {seq}: the chain has {last} outcomes")]
    NotFound {
        /// The requested number.
        seq: i64,
        /// The last outcome.
        last: i64,
    },
    /// The storage failed, the chain is damaged, or the hook failed.
    #[error(transparent)]
    Object(#[from] Error),
}

/// An action with an outcome that a state allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowed {
    /// The action.
    pub action: String,
    /// The outcome.
    pub outcome: String,
}

fn say(allowed: &[Allowed]) -> String {
    if allowed.is_empty() {
        return "nothing is allowed any more".to_owned();
    }
    let each: Vec<_> = allowed
        .iter()
        .map(|allowed| format!("`{}` with `{}`", allowed.action, allowed.outcome))
        .collect();
    format!("allowed are {}", each.join(", "))
}

abide_component::error_kinds!(OutcomesError {
    Refused | Rejected => Application,
    Invalid => Input,
    NotFound => NotFound,
});
