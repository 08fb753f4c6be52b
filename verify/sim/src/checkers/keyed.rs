//! A call with an idempotency key is applied once: a repetition gets the same answer.

use crate::history::Event;

pub(super) fn check(events: &[Event]) -> Result<(), String> {
    for event in events {
        if let Event::Differs(id, first, again) = event {
            return Err(format!(
                "operation {id} was answered with {first:?} and, under the same key, with {again:?}"
            ));
        }
    }
    Ok(())
}
