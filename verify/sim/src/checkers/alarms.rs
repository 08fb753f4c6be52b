//! Alarms fire at least once and never early; an alarm that was deleted before it fired does not fire.

use std::collections::{BTreeMap, BTreeSet};

use super::lists::Lists;
use crate::history::{Event, Op, Outcome, Value};

pub(super) fn check(events: &[Event]) -> Result<(), String> {
    let lists = Lists::of(events);
    // The operation of each value on its object's alarm.
    let mut ops: BTreeMap<Value, &Op> = BTreeMap::new();
    let mut begun = BTreeMap::new();
    // The latest time of the wall clock after each alarm was set and before the clock was set again.
    let mut latest: BTreeMap<Value, i64> = BTreeMap::new();
    // The position of the newest acknowledged deletion of an object's alarm.
    let mut deleted = BTreeMap::new();
    // Alarms whose handler has begun, and those among them that were deleted afterwards: a running attempt is not
    // canceled, and is repeated if it fails.
    let mut fired = BTreeSet::new();
    let mut spared = BTreeSet::new();
    for event in events {
        match event {
            Event::Began(id, op @ (Op::Alarm(_, [value, _], ..) | Op::Cancel(_, value))) => {
                ops.insert(*value, op);
                latest.insert(*value, i64::MIN);
                begun.insert(*id, op);
            }
            Event::Clock(now) => {
                for latest in latest.values_mut() {
                    *latest = (*latest).max(*now);
                }
            }
            Event::Ended(id, Outcome::Placed(_)) => {
                if let Some(Op::Cancel(object, value)) = begun.get(id) {
                    let place = lists.get(*object).and_then(|list| list.place(*value));
                    let newest = deleted.entry(*object).or_insert(place);
                    *newest = place.max(*newest);
                    spared.extend(fired.iter().copied());
                }
            }
            Event::Rang {
                object,
                value,
                at,
                now,
            } => {
                // It may have been due before the clock was set back, and already been firing.
                let latest = latest.get(value).copied().unwrap_or(*now);
                if latest.max(*now) < *at {
                    return Err(format!(
                        "an alarm of ledger {object} went off at {now}, {} ms before its time",
                        at - now
                    ));
                }
                let set = lists.get(*object).and_then(|list| list.place(*value));
                fired.insert(*value);
                if let (Some(set), Some(Some(deleted))) = (set, deleted.get(object))
                    && set < *deleted
                    && !spared.contains(value)
                {
                    return Err(format!(
                        "the alarm that came with {value} of ledger {object} went off after its deletion"
                    ));
                }
            }
            _ => {}
        }
    }
    for (object, list) in lists.all() {
        let last = list.values.iter().rev().find_map(|value| ops.get(value));
        if let Some(op) = last
            && let Some((_, effect)) = op.effect()
            && list.place(effect).is_none()
        {
            return Err(format!(
                "the alarm of ledger {object} by {op:?} never went off to its end"
            ));
        }
    }
    Ok(())
}
