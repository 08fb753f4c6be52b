//! A slate shows its newest value, or none if it was erased since. Once it has left memory it exists exactly if it has one.
//!
//! Every value is written once, but all erasures leave the same state. So whatever is read needs a cause: an operation that
//! may have happened, began before the read ended, and was not followed by another state before the read began. A read
//! is evidence for later ones.

use std::collections::BTreeMap;

use crate::history::{Event, Op, OpId, Outcome, SlateNo, Value};

pub(super) fn check(events: &[Event]) -> Result<(), String> {
    let acts = acts(events);
    for read in acts.iter().filter(|act| act.kind == Kind::Found) {
        let Act { slate, state, .. } = *read;
        let others = || acts.iter().filter(|act| act.slate == slate);
        let is_past = |act: &Act| {
            others().any(|later| {
                later.kind != Kind::Possible
                    && later.state != state
                    && act.ended < later.began
                    && later.ended < read.began
            })
        };
        let may_cause = |act: &Act| {
            act.kind != Kind::Found && act.state == state && act.began < read.ended && !is_past(act)
        };
        if !others().any(may_cause) && (state.is_some() || is_past(&Act::BEFORE_ALL)) {
            return Err(format!(
                "slate {slate} shows {state:?}, which is not its newest state"
            ));
        }
    }
    check_alarms(events)?;
    check_existence(events)
}

/// A state that a slate was in at some moment between two events.
#[derive(Clone, Copy)]
struct Act {
    slate: SlateNo,
    state: Option<Value>,
    began: usize,
    ended: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Written or erased, perhaps.
    Possible,
    /// Written or erased.
    Certain,
    /// Read.
    Found,
}

impl Act {
    /// Every slate begins empty.
    const BEFORE_ALL: Self = Self {
        slate: 0,
        state: None,
        began: 0,
        ended: 0,
        kind: Kind::Certain,
    };
}

fn acts(events: &[Event]) -> Vec<Act> {
    let mut acts = Vec::new();
    let mut open: BTreeMap<OpId, Act> = BTreeMap::new();
    for (event, at) in events.iter().zip(1..) {
        let act = |slate, state, kind| Act {
            slate,
            state,
            began: at,
            ended: at,
            kind,
        };
        match event {
            Event::Began(id, Op::Write(slate, value, _)) => {
                open.insert(*id, act(*slate, Some(*value), Kind::Possible));
            }
            Event::Began(id, Op::Erase(slate)) => {
                open.insert(*id, act(*slate, None, Kind::Possible));
            }
            Event::Began(id, Op::Look(slate)) => {
                open.insert(*id, act(*slate, None, Kind::Found));
            }
            // Whether it is kept is seen later.
            Event::Wiped(slate) => acts.push(act(*slate, None, Kind::Possible)),
            Event::Shows(of, state) => acts.push(act(*of, *state, Kind::Found)),
            Event::Ended(id, outcome) => {
                let Some(act) = open.get(id).copied() else {
                    continue;
                };
                let (state, kind) = match outcome {
                    Outcome::Done => (act.state, Kind::Certain),
                    Outcome::State(state) => (*state, Kind::Found),
                    Outcome::NotRun(_) | Outcome::Undone(_) => {
                        open.remove(id);
                        continue;
                    }
                    _ => continue,
                };
                open.remove(id);
                acts.push(Act {
                    state,
                    kind,
                    ended: at,
                    ..act
                });
            }
            // What has not happened by now never does.
            Event::Died(_) => acts.extend(unanswered(&mut open, at)),
            _ => {}
        }
    }
    acts.extend(unanswered(&mut open, usize::MAX));
    acts
}

fn unanswered(open: &mut BTreeMap<OpId, Act>, ended: usize) -> Vec<Act> {
    let open = std::mem::take(open).into_values();
    open.filter(|act| act.kind == Kind::Possible)
        .map(|act| Act { ended, ..act })
        .collect()
}

/// A value that an alarm was to erase is not there at the end.
fn check_alarms(events: &[Event]) -> Result<(), String> {
    for event in events {
        if let Event::Began(_, Op::Write(slate, value, Some(_))) = event
            && events.contains(&Event::Shows(*slate, Some(*value)))
        {
            return Err(format!("the alarm never erased {value} of slate {slate}"));
        }
    }
    Ok(())
}

/// What is known of a slate's existence once it has left memory.
#[derive(Clone, Copy, Default)]
struct Fate {
    /// Operations that are not answered.
    open: u32,
    /// The last operation was an erasure, and none is open.
    erased: bool,
    found: Option<bool>,
}

fn check_existence(events: &[Event]) -> Result<(), String> {
    let mut fates: BTreeMap<SlateNo, Fate> = BTreeMap::new();
    let mut begun = BTreeMap::new();
    for event in events {
        match event {
            Event::Began(id, Op::Write(slate, ..) | Op::Erase(slate)) => {
                let fate = fates.entry(*slate).or_default();
                let erases = matches!(event, Event::Began(_, Op::Erase(_)));
                // Concurrent operations may come after it.
                begun.insert(*id, (*slate, erases && fate.open == 0));
                fate.open += 1;
                (fate.erased, fate.found) = (false, None);
            }
            Event::Ended(id, outcome) => {
                let Some((slate, erases)) = begun.remove(id) else {
                    continue;
                };
                let fate = fates.entry(slate).or_default();
                fate.open -= 1;
                fate.erased = erases && fate.open == 0 && *outcome == Outcome::Done;
            }
            Event::Wiped(slate) => {
                let fate = fates.entry(*slate).or_default();
                (fate.erased, fate.found) = (fate.open == 0, None);
            }
            // An object whose end was lost, or had no room in the log, stays until it is erased again.
            Event::Healed => fates.values_mut().for_each(|fate| fate.erased = false),
            Event::Died(_) => {
                begun.clear();
                for fate in fates.values_mut() {
                    (fate.open, fate.erased) = (0, false);
                }
            }
            Event::Exists {
                slate,
                found,
                listed,
            } => {
                let fate = fates.entry(*slate).or_default();
                if found != listed {
                    return Err(format!(
                        "slate {slate}: found by its name {found}, listed {listed}"
                    ));
                }
                if fate.erased && *found {
                    return Err(format!("slate {slate} was erased, and still exists"));
                }
                if fate.found.is_some_and(|before| before != *found) {
                    return Err(format!(
                        "slate {slate} exists: {found}, and nothing has happened to it since that was {}",
                        !found
                    ));
                }
                fate.found = Some(*found);
            }
            Event::Shows(slate, Some(value)) => {
                let found = fates.get(slate).and_then(|fate| fate.found);
                if found == Some(false) {
                    return Err(format!("slate {slate} has {value}, and does not exist"));
                }
            }
            Event::Smudged(slate) => {
                return Err(format!("slate {slate} mixes a value with bytes of another"));
            }
            _ => {}
        }
    }
    Ok(())
}
