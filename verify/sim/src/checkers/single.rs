//! An object has one instance at a time: once another was created, no code of an earlier one runs.

use std::collections::BTreeMap;

use crate::history::Event;

pub(super) fn check(events: &[Event]) -> Result<(), String> {
    let mut newest = BTreeMap::new();
    for event in events {
        match event {
            Event::Made(object, instance) => {
                newest.insert(*object, *instance);
            }
            Event::Ran(object, instance) => {
                let newest = newest.get(object);
                if newest != Some(instance) {
                    return Err(format!(
                        "instance {instance} of ledger {object} ran, and the newest is {newest:?}"
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
