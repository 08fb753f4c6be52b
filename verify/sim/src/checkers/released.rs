//! Nothing leaves an object before its writes are durable: everything shown outside of it is in the final state.
//!
//! This is checked from the receiver's side. Every message carries the length and the last value of its sender's list
//! at that time; if it had left too early, a power loss would have lost that value.

use super::lists::Lists;
use crate::history::{Event, Op};

pub(super) fn check(events: &[Event]) -> Result<(), String> {
    let lists = Lists::of(events);
    for event in events {
        match event {
            Event::Seen {
                object,
                version,
                last,
                by,
            } => {
                let Some(list) = lists.get(*object) else {
                    continue;
                };
                let found = (*version as usize)
                    .checked_sub(1)
                    .and_then(|at| list.values.get(at));
                if found != last.as_ref() {
                    return Err(format!(
                        "{by:?} showed that ledger {object} had {last:?} as value {version}, and now that is {found:?}"
                    ));
                }
            }
            Event::Began(id, op @ Op::Relay(from, value, to, other)) => {
                let (Some(here), Some(there)) = (lists.get(*from), lists.get(*to)) else {
                    continue;
                };
                if there.place(*other).is_some() && here.place(*value).is_none() {
                    return Err(format!(
                        "operation {id}, {op:?}: ledger {to} has {other}, which ledger {from} sent after a {value} that it has not"
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
