//! Metadata of resources.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Refusal;

/// Maximum number of keys of a resource.
const MAX_KEYS: usize = 50;

/// Maximum length of a key in characters.
const MAX_KEY: usize = 40;

/// Maximum length of a value in characters.
const MAX_VALUE: usize = 500;

/// Maximum total size of keys and values in bytes, which leaves space in the read model's row.
const MAX_BYTES: usize = 16 << 10;

/// Texts by key, which the engine stores but does not interpret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Metadata(pub BTreeMap<String, String>);

/// The data of `annotate`: texts by key; `null` removes a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Annotation(pub BTreeMap<String, Option<String>>);

impl Annotation {
    /// Rejects metadata beyond the limits.
    pub fn check(&self) -> Result<(), Refusal> {
        for (key, value) in &self.0 {
            let is_key = (1..=MAX_KEY).contains(&key.chars().count());
            let value = value.as_deref().unwrap_or_default();
            if !is_key || value.chars().count() > MAX_VALUE {
                return Err(Refusal::invalid(format!(
                    "A metadata key must have 1 to {MAX_KEY} characters, and a value at most {MAX_VALUE}; “{key}” violates this."
                )));
            }
        }
        Ok(())
    }
}

impl Metadata {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn may_take(&self, annotation: &Annotation) -> Result<(), Refusal> {
        annotation.check()?;
        let mut after = self.clone();
        after.take(annotation.clone());
        let bytes: usize = after
            .0
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        if after.0.len() > MAX_KEYS || bytes > MAX_BYTES {
            return Err(Refusal::invalid(format!(
                "A resource may have at most {MAX_KEYS} metadata keys, and {MAX_BYTES} bytes."
            )));
        }
        Ok(())
    }

    pub(crate) fn take(&mut self, annotation: Annotation) {
        for (key, value) in annotation.0 {
            match value {
                Some(value) => drop(self.0.insert(key, value)),
                None => drop(self.0.remove(&key)),
            }
        }
    }
}
