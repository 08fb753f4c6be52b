//! The steps of a job, done on its page.
//!
//! Contract: each step ends in [`limits::STEP_TIME`], except `goto`, which has the page's time. A step that fails
//! ends the script with its number and the reason. If the page navigated to one that cannot be loaded, that is the
//! reason.

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    outcome::PageError,
    page::{Page, text},
};
use crate::{
    limits,
    request::{
        Job,
        steps::{Step, Typing},
    },
};

/// What steps have brought.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) pictures: Vec<Bytes>,
    pub(super) texts: Vec<String>,
}

/// Why a step failed.
enum Failure {
    Step(String),
    Page(PageError),
}

impl From<PageError> for Failure {
    fn from(error: PageError) -> Self {
        Self::Page(error)
    }
}

/// Does the steps of a job, one after the other.
pub(super) async fn run(page: &Page<'_>, job: &Job) -> Result<Findings, PageError> {
    let mut findings = Findings::default();
    for (index, step) in job.steps.iter().enumerate() {
        let reason = match perform(page, job, step, &mut findings).await {
            Ok(()) => continue,
            Err(Failure::Page(error)) => return Err(error),
            Err(Failure::Step(reason)) => reason,
        };
        page.check_is_no_error().await?;
        return Err(PageError::Step {
            number: index + 1,
            name: step.name().to_owned(),
            reason,
        });
    }
    Ok(findings)
}

async fn perform(
    page: &Page<'_>,
    job: &Job,
    step: &Step,
    findings: &mut Findings,
) -> Result<(), Failure> {
    match step {
        Step::Goto(url) => page.go(url).await?,
        Step::WaitFor(selector) => {
            find(page, selector, IS_SEEN).await?;
        }
        Step::Click(selector) => {
            let at = find(page, selector, &format!("{IS_SEEN} {MIDDLE}")).await?;
            in_time(page.click(&at["x"], &at["y"])).await?;
        }
        Step::Type(Typing { into, text }) => {
            find(page, into, &format!("{IS_SEEN} {FOCUS}")).await?;
            let params = json!({ "text": text });
            in_time(page.call("Input.insertText", params)).await?;
        }
        Step::Text(selector) => {
            let known: usize = findings.texts.iter().map(|text| text.chars().count()).sum();
            let left = limits::MAX_TEXT.saturating_sub(known);
            let read = format!(
                "return {{ text: String(it.innerText ?? it.textContent).slice(0, {}) }};",
                limits::MAX_TEXT + 1
            );
            let found = text(&find(page, selector, &read).await?["text"]);
            if found.chars().count() > left {
                return Err(Failure::Step(format!(
                    "the texts of a page have at most {} characters in all; name a smaller element",
                    limits::MAX_TEXT
                )));
            }
            findings.texts.push(found);
        }
        Step::Picture(_) => {
            page.settle().await?;
            findings.pictures.push(page.picture(job).await?);
        }
    }
    Ok(())
}

/// An element that cannot be seen is not there yet.
const IS_SEEN: &str = "{ const box = it.getBoundingClientRect(); \
    if (!box.width || !box.height || getComputedStyle(it).visibility !== 'visible') return null; }";

/// Where to click: the middle of what can be seen of an element, unless something covers it.
const MIDDLE: &str = "it.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' }); \
    const box = it.getClientRects()[0], x = box.x + box.width / 2, y = box.y + box.height / 2; \
    const hit = it.getRootNode().elementFromPoint(x, y); \
    return hit && (it.contains(hit) || hit.contains(it)) ? { x, y } : null;";

/// Makes an input ready for a text that replaces what it has.
const FOCUS: &str = "if (!it.matches('input, textarea') && !it.isContentEditable) return 'no input'; \
    it.focus(); if (it.select) it.select(); else getSelection().selectAllChildren(it); \
    return it.matches(':focus') ? true : null;";

/// Waits for an element and evaluates an expression on it; `null` means not yet.
async fn find(page: &Page<'_>, selector: &str, ask: &str) -> Result<Value, Failure> {
    let quoted = json!(selector);
    let expression = format!(
        "(() => {{ let it; try {{ it = document.querySelector({quoted}); }} catch {{ return 'no selector'; }} \
         if (!it) return null; {ask} return true; }})()"
    );
    let look = async {
        loop {
            let found = page.eval(&expression).await?;
            if !found.is_null() {
                return Ok::<_, PageError>(found);
            }
            page.rest(limits::STEP_TICK).await?;
        }
    };
    match timeout(limits::STEP_TIME, look).await {
        Ok(Ok(found)) if found == "no selector" => Err(Failure::Step(format!(
            "`{selector}` is not a valid CSS selector"
        ))),
        Ok(Ok(found)) if found == "no input" => Err(Failure::Step(format!(
            "`{selector}` is not an input that takes text"
        ))),
        Ok(found) => Ok(found?),
        Err(_) => Err(Failure::Step(format!(
            "no element that matches `{selector}` can be used within {} s: it is missing, invisible, covered or disabled",
            limits::STEP_TIME.as_secs()
        ))),
    }
}

/// An action, and the page that it leads to.
async fn in_time<T>(action: impl Future<Output = Result<T, PageError>>) -> Result<(), Failure> {
    match timeout(limits::STEP_TIME, action).await {
        Ok(done) => Ok(done.map(drop)?),
        Err(_) => Err(Failure::Step(format!(
            "the page did not react within {} s",
            limits::STEP_TIME.as_secs()
        ))),
    }
}
