//! Each object's history is linearizable.
//!
//! Every value is appended once, so the final list is the one order of all writes that took effect, as in Kingsbury and
//! Alvaro, "Elle" (VLDB 2020). A history is then linearizable exactly if every list that was read is a prefix of the
//! final one, and no operation took effect before one that had ended when it began.

use std::collections::BTreeMap;

use super::lists::Lists;
use crate::history::{Event, ObjectNo, Op, OpId, Outcome};

pub(super) fn check(events: &[Event]) -> Result<(), String> {
    let lists = Lists::of(events);
    let mut begun: BTreeMap<OpId, (&Op, BTreeMap<ObjectNo, usize>)> = BTreeMap::new();
    // A lower bound for each list's length when an operation begins, from the operations that have ended.
    let mut floors: BTreeMap<ObjectNo, usize> = BTreeMap::new();
    for event in events {
        match event {
            Event::Began(id, op) => {
                for (object, value, _) in op.written(&[]) {
                    let floor = floors.get(&object).copied().unwrap_or(0);
                    let place = lists.get(object).and_then(|list| list.place(value));
                    if place.is_some_and(|place| place < floor) {
                        return Err(format!(
                            "operation {id}, {op:?}: {value} is at {place:?} of ledger {object}, which had {floor} values when it began"
                        ));
                    }
                }
                if let Op::Alone(object, values) = op
                    && let Some(list) = lists.get(*object)
                    && let [Some(one), Some(next)] = values.map(|value| list.place(value))
                    && one + 1 != next
                {
                    return Err(format!(
                        "operation {id}, {op:?}: others came between its values, which are at {one} and {next}"
                    ));
                }
                begun.insert(*id, (op, floors.clone()));
            }
            Event::Said(socket, object, value) => {
                let floor = floors.get(object).copied().unwrap_or(0);
                let place = lists.get(*object).and_then(|list| list.place(*value));
                if place.is_some_and(|place| place < floor) {
                    return Err(format!(
                        "{value}, sent over socket {socket}, is at {place:?} of ledger {object}, which had {floor} values before"
                    ));
                }
            }
            Event::Ended(id, outcome) => {
                let Some((op, before)) = begun.get(id) else {
                    continue;
                };
                match (op, outcome) {
                    (Op::Read(object), Outcome::List(values)) => {
                        let floor = before.get(object).copied().unwrap_or(0);
                        if values.len() < floor {
                            return Err(format!(
                                "operation {id} read {} values of ledger {object}, which had {floor} when it began",
                                values.len()
                            ));
                        }
                        if let Some(list) = lists.get(*object)
                            && !list.values.starts_with(values)
                        {
                            return Err(format!(
                                "operation {id} read {values:?} of ledger {object}, which is not a prefix of {:?}",
                                list.values
                            ));
                        }
                        raise(&mut floors, *object, values.len());
                    }
                    (_, Outcome::Placed(places)) => {
                        for (object, value, _) in op.written(places) {
                            let place = lists.get(object).and_then(|list| list.place(value));
                            if let Some(place) = place {
                                raise(&mut floors, object, place + 1);
                            }
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn raise(floors: &mut BTreeMap<ObjectNo, usize>, object: ObjectNo, to: usize) {
    let floor = floors.entry(object).or_default();
    *floor = to.max(*floor);
}
