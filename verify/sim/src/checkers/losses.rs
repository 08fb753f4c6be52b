//! What is lost with a machine is a suffix of what was committed, and nothing of what was reported as copied.
//!
//! The positions of commits are not visible from outside, but their order is: an operation that was answered before another one was
//! sent has lower positions. So if the second one is there, the first one is.

use std::{borrow::Cow, collections::BTreeMap};

use super::lists::Lists;
use crate::history::{Event, Op, OpId, Outcome, ProcessEnd, SenderNo, Value};

pub(super) fn check(events: &[Event]) -> Result<(), String> {
    let found = Found::in_the_end(events);
    let mut begun = BTreeMap::new();
    let mut answered: Vec<Answered<'_>> = Vec::new();
    let mut log = Log::default();
    for (event, at) in events.iter().zip(0..) {
        log.see(event, at);
        match event {
            Event::Began(id, op) => {
                begun.insert(*id, (op, at));
            }
            Event::Ended(id, Outcome::Placed(_) | Outcome::Done) => {
                if let Some((op, _)) = begun.get(id) {
                    answered.push(Answered { id: *id, op, at });
                }
            }
            Event::Died(ProcessEnd::Loss) => {
                let missing = |answered: &&Answered<'_>| found.lacks_some(answered.op);
                let Some(first) = answered.iter().find(missing) else {
                    begun.clear();
                    answered.clear();
                    log = Log::default();
                    continue;
                };
                let Answered { id, op, at } = first;
                if *at < log.copied {
                    return Err(format!(
                        "operation {id}, {op:?}, was answered before what was reported as copied, and is not there"
                    ));
                }
                let later = begun
                    .iter()
                    .find(|(_, (later, sent))| sent > at && found.has_some(later));
                if let Some((later, (what, _))) = later {
                    return Err(format!(
                        "operation {id}, {op:?}, was answered before operation {later}, {what:?}, was sent, and only the latter is there"
                    ));
                }
                begun.clear();
                answered.clear();
                log = Log::default();
            }
            _ => {}
        }
    }
    Ok(())
}

/// What was answered.
struct Answered<'a> {
    id: OpId,
    op: &'a Op,
    at: usize,
}

/// What is known of the log of one machine.
#[derive(Default)]
struct Log {
    /// What was durable when.
    durable: Vec<(u64, usize)>,
    /// Everything that was acknowledged before this event is copied.
    copied: usize,
}

impl Log {
    fn see(&mut self, event: &Event, at: usize) {
        match event {
            Event::Durable(end) => self.durable.push((*end, at)),
            Event::Copied(position) => {
                let copied = self.durable.iter().rfind(|(end, _)| end <= position);
                self.copied = copied.map_or(0, |(_, at)| *at).max(self.copied);
            }
            _ => {}
        }
    }
}

/// What is there in the end.
struct Found {
    lists: Lists,
    posted: BTreeMap<SenderNo, Vec<Value>>,
}

impl Found {
    fn in_the_end(events: &[Event]) -> Self {
        let posted = events.iter().filter_map(|event| match event {
            Event::Posted(sender, messages) => {
                let values = messages.iter().map(|message| message.value);
                Some((*sender, values.collect()))
            }
            _ => None,
        });
        Self {
            lists: Lists::of(events),
            posted: posted.collect(),
        }
    }

    /// Whether each value that an operation writes is there, as far as that is known.
    fn each(&self, op: &Op) -> Vec<bool> {
        let sent = |sender: &SenderNo, values: &[Value]| {
            let Some(posted) = self.posted.get(sender) else {
                return Vec::new();
            };
            values.iter().map(|value| posted.contains(value)).collect()
        };
        match op {
            Op::Post(sender, _, value, ..) => sent(sender, &[*value]),
            Op::Circulate(sender, values) => sent(sender, values),
            op => op
                .written(&[])
                .filter_map(|(object, value, _)| {
                    Some(self.lists.get(object)?.place(value).is_some())
                })
                .collect(),
        }
    }

    fn has_some(&self, op: &Op) -> bool {
        self.each(op).contains(&true)
    }

    fn lacks_some(&self, op: &Op) -> bool {
        self.each(op).contains(&false)
    }
}

/// The history without what was observed after the last position that a lost machine reported as copied, unless it awaited the copy:
/// that may be lost, and happen again.
pub(super) fn without_lost(events: &[Event]) -> Cow<'_, [Event]> {
    if !events.contains(&Event::Copies(false)) {
        return Cow::Borrowed(events);
    }
    let mut kept = Vec::new();
    let mut log = Log::default();
    let mut first = 0;
    for (event, at) in events.iter().zip(0..) {
        log.see(event, at - first);
        kept.push(event.clone());
        if *event == Event::Died(ProcessEnd::Loss) {
            let seen_again = &events[at..];
            let certain = first + log.copied;
            let uncertain = kept.split_off(kept.len() - (at + 1 - certain).min(kept.len()));
            kept.extend(
                uncertain
                    .into_iter()
                    .filter_map(|event| doubt(event, seen_again)),
            );
            (log, first) = (Log::default(), at + 1);
        }
    }
    Cow::Owned(kept)
}

/// What is known by an event if its effect may be lost.
fn doubt(event: Event, later: &[Event]) -> Option<Event> {
    match event {
        Event::Ended(
            id,
            Outcome::Placed(_) | Outcome::Done | Outcome::List(_) | Outcome::State(_),
        ) => {
            let why = "the machine was lost".to_owned();
            Some(Event::Ended(id, Outcome::Unknown(why)))
        }
        Event::Seen { .. } | Event::Heard(..) | Event::Tried(..) | Event::Differs(..) => None,
        // It has its effect again, or its message is lost; otherwise only the report of it may have been late.
        Event::Took(sender, value) => {
            let again = later.contains(&event);
            let is_known = later.iter().any(|event| {
                matches!(event, Event::Posted(of, messages) if *of == sender
                    && messages.iter().any(|message| message.value == value))
            });
            (is_known && !again).then_some(event)
        }
        event => Some(event),
    }
}
