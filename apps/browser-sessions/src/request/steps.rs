//! The steps that are done on a page before its picture.
//!
//! Contract: checked steps can be tried: their addresses may be opened, and their number and lengths are bounded.
//! Only the page can tell whether a selector is valid and finds an element.

use abide::server::AddressPolicy;
use serde::{Deserialize, Serialize};

use super::{Invalid, address};
use crate::limits;

/// One step, such as `{"click":"#more"}`. Elements are named by CSS selectors; the first match is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Goes to an address and waits until all of it is loaded.
    Goto(String),
    /// Waits until an element can be seen.
    WaitFor(String),
    /// Clicks in the middle of an element.
    Click(String),
    /// Replaces the text of an input.
    Type(Typing),
    /// Reads the text of an element.
    Text(String),
    /// Takes a picture under this name.
    Picture(String),
}

/// What is typed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Typing {
    /// The input.
    pub into: String,
    /// The text.
    pub text: String,
}

impl Step {
    /// Its name in a request.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Goto(_) => "goto",
            Self::WaitFor(_) => "wait_for",
            Self::Click(_) => "click",
            Self::Type(_) => "type",
            Self::Text(_) => "text",
            Self::Picture(_) => "picture",
        }
    }
}

/// Checks steps, and writes their addresses as browsers do.
pub(super) fn check(mut steps: Vec<Step>, policy: &AddressPolicy) -> Result<Vec<Step>, Invalid> {
    if steps.len() > limits::MAX_STEPS {
        return Err(Invalid::Steps(format!(
            "`steps` has at most {} steps.",
            limits::MAX_STEPS
        )));
    }
    let mut names: Vec<String> = Vec::new();
    for (index, step) in steps.iter_mut().enumerate() {
        let wrong = |what: String| Invalid::Steps(format!("Step {}: {what}", index + 1));
        match step {
            Step::Goto(url) => {
                *url = address(url, policy).map_err(|error| match error {
                    Invalid::Forbidden(_) => error,
                    _ => wrong(Invalid::Url.to_string().replace("`url`", "`goto`")),
                })?;
            }
            Step::WaitFor(selector) | Step::Click(selector) | Step::Text(selector) => {
                check_selector(selector).map_err(wrong)?;
            }
            Step::Type(Typing { into, text }) => {
                check_selector(into).map_err(wrong)?;
                if !(1..=limits::MAX_TYPED).contains(&text.len()) {
                    let most = limits::MAX_TYPED;
                    return Err(wrong(format!("`text` has 1 to {most} bytes.")));
                }
            }
            Step::Picture(name) => {
                if !is_name(name) || names.contains(name) {
                    return Err(wrong(format!(
                        "the name of a picture has 1 to {} small letters, digits and `-`, is used once, and is not `{FINAL}`.",
                        limits::MAX_STEP_NAME
                    )));
                }
                names.push(name.clone());
                if names.len() > limits::MAX_STEP_PICTURES {
                    let most = limits::MAX_STEP_PICTURES;
                    return Err(wrong(format!("steps take at most {most} pictures.")));
                }
            }
        }
    }
    Ok(steps)
}

/// The name of the picture that is taken in the end.
pub(super) const FINAL: &str = "screenshot";

fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=limits::MAX_STEP_NAME).contains(&name.len()) && name.chars().all(is_plain) && name != FINAL
}

fn check_selector(selector: &str) -> Result<(), String> {
    if selector.trim().is_empty() || selector.len() > limits::MAX_SELECTOR {
        return Err(format!(
            "a CSS selector, such as `#search button`, has 1 to {} bytes.",
            limits::MAX_SELECTOR
        ));
    }
    Ok(())
}
