//! A socket's messages keep their order, in both directions, and none is skipped before the socket ends; at the end
//! every socket of an object has received the same last one.

use std::collections::BTreeMap;

use super::lists::Lists;
use crate::history::{Event, ObjectNo, SocketNo, Value};

pub(super) fn check(events: &[Event]) -> Result<(), String> {
    let lists = Lists::of(events);
    let mut heard: BTreeMap<SocketNo, u32> = BTreeMap::new();
    let mut open: BTreeMap<SocketNo, (ObjectNo, u32)> = BTreeMap::new();
    let mut said: BTreeMap<(SocketNo, ObjectNo), Vec<Value>> = BTreeMap::new();
    for event in events {
        match event {
            Event::Heard(socket, object, casts) => {
                open.insert(*socket, (*object, *casts));
                let before = heard.insert(*socket, *casts);
                if before.is_some_and(|before| before + 1 != *casts) {
                    return Err(format!(
                        "socket {socket} of ledger {object} got broadcast {casts} after {before:?}"
                    ));
                }
            }
            Event::Closed(socket) => drop(open.remove(socket)),
            Event::Died(_) => open.clear(),
            // By now everything has had time to arrive.
            Event::Disk(_) => {
                let mut last: BTreeMap<ObjectNo, u32> = BTreeMap::new();
                for (object, casts) in open.values() {
                    let most = last.entry(*object).or_default();
                    *most = (*most).max(*casts);
                }
                let behind = open
                    .iter()
                    .find(|(_, (object, casts))| last.get(object) != Some(casts));
                if let Some((socket, (object, casts))) = behind {
                    return Err(format!(
                        "the last broadcast that socket {socket} of ledger {object} got is {casts}, and others got {last:?}"
                    ));
                }
            }
            Event::Said(socket, object, value) => {
                said.entry((*socket, *object)).or_default().push(*value);
            }
            _ => {}
        }
    }
    for ((socket, object), values) in said {
        let Some(list) = lists.get(object) else {
            continue;
        };
        let places: Vec<_> = values.iter().map(|value| list.place(*value)).collect();
        let ordered = places.windows(2).all(|pair| match pair {
            [Some(one), Some(next)] => one < next,
            [None, Some(_)] => false,
            _ => true,
        });
        if !ordered {
            return Err(format!(
                "socket {socket} sent {values:?} to ledger {object}, which has them at {places:?}"
            ));
        }
    }
    Ok(())
}
