//! Unacknowledged writes are whole or absent, and every value was written.

use std::collections::{BTreeMap, BTreeSet};

use super::lists::Lists;
use crate::history::{Event, Op, Outcome};

pub(super) fn check(events: &[Event]) -> Result<(), String> {
    let lists = Lists::of(events);
    let mut ops = BTreeMap::new();
    let mut sent = BTreeSet::new();
    for event in events {
        match event {
            Event::Torn(object, what) => {
                return Err(format!(
                    "the rows of ledger {object} do not fit together: {what}"
                ));
            }
            Event::Began(id, op) => {
                ops.insert(*id, op);
                sent.extend(op.written(&[]).map(|(object, value, _)| (object, value)));
                sent.extend(op.effect());
                check_op(&lists, op).map_err(|text| format!("operation {id}, {op:?}: {text}"))?;
            }
            Event::Said(_, object, value) => {
                sent.insert((*object, *value));
            }
            Event::Ended(id, Outcome::NotRun(why) | Outcome::Undone(why)) => {
                let Some(op) = ops.get(id) else { continue };
                for (object, value, _) in op.written(&[]) {
                    if lists
                        .get(object)
                        .is_some_and(|list| list.place(value).is_some())
                    {
                        return Err(format!(
                            "operation {id}, {op:?}, was said to have left nothing ({why}), and ledger {object} has {value}"
                        ));
                    }
                }
            }
            _ => {}
        }
    }
    for (object, list) in lists.all() {
        let mut seen = BTreeSet::new();
        for &value in &list.values {
            if !sent.contains(&(object, value)) {
                return Err(format!("ledger {object} has {value}, which was never sent"));
            }
            if !seen.insert(value) {
                return Err(format!("ledger {object} has {value} twice"));
            }
        }
    }
    Ok(())
}

/// Checks the effect of one operation.
fn check_op(lists: &Lists, op: &Op) -> Result<(), String> {
    let places: Vec<_> = op
        .written(&[])
        .map(|(object, value, _)| lists.get(object).map(|list| list.place(value)))
        .collect();
    let Some(places) = places.into_iter().collect::<Option<Vec<_>>>() else {
        return Ok(());
    };
    match op {
        Op::Append(..) => {
            let whole = places.windows(2).all(|pair| match pair {
                [Some(one), Some(next)] => one + 1 == *next,
                [one, next] => one.is_none() && next.is_none(),
                _ => true,
            });
            if whole {
                Ok(())
            } else {
                Err(format!("its one transaction is at {places:?}"))
            }
        }
        Op::Panic(..) | Op::Refused(..) if places != [None] => {
            Err("it was undone, and its value is there".to_owned())
        }
        // In order: the second cannot exist without the first, nor before it.
        Op::Pair(..) | Op::Alone(..) | Op::Tell(..)
            if places[1].is_some() && places[0] >= places[1] =>
        {
            Err(format!("its transactions are at {places:?}"))
        }
        Op::Alarm(object, [_, effect], ..) => {
            let effect = lists.get(*object).and_then(|list| list.place(*effect));
            if effect.is_none() || places[0] < effect {
                Ok(())
            } else {
                Err(format!(
                    "its alarm's value is at {effect:?}, and its own at {places:?}"
                ))
            }
        }
        _ => Ok(()),
    }
}
