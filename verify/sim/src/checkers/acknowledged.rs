//! Acknowledged writes survive: every acknowledged write is in the final state, at the acknowledged position.

use std::collections::BTreeMap;

use super::lists::Lists;
use crate::history::{Event, Outcome};

pub(super) fn check(events: &[Event]) -> Result<(), String> {
    let lists = Lists::of(events);
    let mut ops = BTreeMap::new();
    for event in events {
        match event {
            Event::Began(id, op) => {
                ops.insert(*id, op);
            }
            Event::Ended(id, Outcome::Placed(places)) => {
                let Some(op) = ops.get(id) else {
                    return Err(format!("operation {id} was answered and never sent"));
                };
                for (object, value, place) in op.written(places) {
                    let Some(list) = lists.get(object) else {
                        continue;
                    };
                    let found = list.place(value);
                    if found.is_none() || place.is_some_and(|place| Some(place) != found) {
                        return Err(format!(
                            "operation {id}, {op:?}, was acknowledged at {places:?}, and ledger {object} has {value} at {found:?}"
                        ));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}
