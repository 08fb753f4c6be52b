//! Values as JSON, within bounds.

use serde::Serialize;

use super::{Failure, limits};

/// A value in its stored form.
pub(super) fn to_json(what: &str, value: &(impl Serialize + ?Sized)) -> Result<String, Failure> {
    let text = serde_json::to_string(value).map_err(|error| {
        Failure::permanent(format!("{what} cannot be serialized as JSON: {error}"))
    })?;
    if text.len() > limits::MAX_RESULT_BYTES {
        return Err(Failure::permanent(format!(
            "{what} has {} bytes; at most {} are accepted: store larger data elsewhere, and put its address here",
            text.len(),
            limits::MAX_RESULT_BYTES
        )));
    }
    Ok(text)
}
