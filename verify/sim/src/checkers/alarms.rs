//! Alarms go off at least once and never before their time; one that was deleted before it went off does not.

use std::collections::{BTreeMap, BTreeSet};

use super::lists::Lists;
use crate::history::{Event, Op, Outcome, Value};

pub(super) fn check(events: &[Event]) -> Result<(), String> {
    let lists = Lists::of(events);
    // What each value did to its object's alarm.
    let mut ops: BTreeMap<Value, &Op> = BTreeMap::new();
    let mut begun = BTreeMap::new();
    // The latest that the wall clock said since each was set and before the clock was set again.
    let mut latest: BTreeMap<Value, i64> = BTreeMap::new();
    // The place of the newest deletion of an object's alarm that has been acknowledged.
    let mut deleted = BTreeMap::new();
    // Alarms whose handler has begun, and those of them that were deleted after that: an attempt that runs is not taken back, and
    // is repeated if it breaks.
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
                // It may have been due before the clock was set back, and already on its way.
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
