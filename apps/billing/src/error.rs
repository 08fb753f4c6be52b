//! Errors of resources.

use abide::outcomes::OutcomesError;
use abide::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::states::Refusal;

/// Why a resource rejected a call. Nothing changed.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
pub enum BillingError {
    /// The chain rejects it.
    #[error(transparent)]
    Outcome(OutcomesError),
    /// The input is invalid, or not possible now.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// There is no such resource, or it cannot be used.
    #[error("There is no {kind} “{id}”.")]
    NotFound {
        /// What kind of resource.
        kind: String,
        /// Its id.
        id: String,
    },
    /// The object failed, or the transport to it.
    #[error(transparent)]
    Object(#[from] Error),
}

impl BillingError {
    pub(crate) fn not_found(kind: &str, id: &str) -> Self {
        Self::NotFound {
            kind: kind.to_owned(),
            id: id.to_owned(),
        }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::Refused(Refusal::Invalid(text.into()))
    }
}

impl From<OutcomesError> for BillingError {
    /// An object's failure is not an answer of its chain: a retry may succeed.
    fn from(error: OutcomesError) -> Self {
        match error {
            OutcomesError::Object(error) => Self::Object(error),
            refused => Self::Outcome(refused),
        }
    }
}

impl From<BillingError> for Error {
    fn from(error: BillingError) -> Self {
        match error {
            BillingError::Outcome(error) => error.into(),
            BillingError::Refused(refusal) => refusal.into(),
            BillingError::Object(error) => error,
            BillingError::NotFound { .. } => {
                Self::with_kind(ErrorKind::NotFound, error.to_string())
            }
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::with_kind(ErrorKind::Input, refusal.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_while_writing_is_not_reported_as_a_refusal() {
        let failed = Error::with_kind(ErrorKind::Io, "the disk does not answer");
        let told = BillingError::from(OutcomesError::from(failed));
        assert!(matches!(told, BillingError::Object(_)), "{told:?}");
        let refused = BillingError::from(OutcomesError::Invalid("no".to_owned()));
        assert!(matches!(refused, BillingError::Outcome(_)), "{refused:?}");
    }
}
