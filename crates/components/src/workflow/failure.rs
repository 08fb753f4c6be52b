//! Failures of instances, and the stored form of a failure. A replay returns the same.

use abide_component::{Failure, FailureKind, texts::cut};

use super::limits;

pub(super) fn canceled() -> Failure {
    Failure::new(FailureKind::Canceled, "the instance was canceled")
}

pub(super) fn to_json(failure: &Failure) -> String {
    serde_json::to_string(&shortened(failure)).unwrap_or_default()
}

/// The same, with a message that is not too long to be stored.
pub(super) fn shortened(failure: &Failure) -> Failure {
    let message = cut(failure.message().to_owned(), limits::MAX_ERROR_BYTES);
    failure.clone().with_message(message)
}

pub(super) fn from_json(text: &str) -> Failure {
    serde_json::from_str(text).unwrap_or_else(|_| Failure::permanent(text))
}
