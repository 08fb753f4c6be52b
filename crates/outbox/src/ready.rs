//! An in-memory cache of the messages that wait for an attempt: the first of each line of a destination, so a pass that
//! takes some of them reads nothing.
//!
//! Contract: the rows are authoritative. The statement that claims a message found here checks its row; if row and
//! memory differ, the destination is read again. So memory may hold messages that no longer wait: they were canceled,
//! have expired, or their transaction was rolled back. It never lacks one before the point where a line is cut off:
//! whatever enters a line is added here, or its destination is forgotten, and all are forgotten when a turn is rolled
//! back.

use std::collections::{HashMap, VecDeque};

use super::{limits, turns};

/// A message that waits: when it is due, and its id.
pub(super) type Place = (i64, i64);

/// The cached lines of destinations.
#[derive(Debug, Default)]
pub(super) struct Ready(HashMap<String, Lines>);

/// The lines of a destination, as of [`turns`].
#[derive(Debug, Default)]
pub(super) struct Lines([Line; turns::LINES]);

/// The first messages of a line, in order.
#[derive(Debug, Default)]
struct Line {
    first: VecDeque<Place>,
    /// Whether the line may continue in the table.
    is_cut: bool,
}

impl Ready {
    pub(super) fn lines(&mut self, destination: &str) -> Option<&mut Lines> {
        self.0.get_mut(destination)
    }

    /// True if the lines of a destination are cached.
    pub(super) fn learn(&mut self, destination: &str, lines: Lines) {
        if self.0.len() >= limits::KNOWN_DESTINATIONS {
            self.0.clear();
        }
        self.0.insert(destination.to_owned(), lines);
    }

    /// A message has entered a line.
    pub(super) fn add(&mut self, destination: &str, line: usize, place: Place) {
        if let Some(lines) = self.0.get_mut(destination) {
            lines.0[line].add(place);
        }
    }

    pub(super) fn forget(&mut self, destination: &str) {
        self.0.remove(destination);
    }

    pub(super) fn forget_all(&mut self) {
        self.0.clear();
    }
}

impl Lines {
    /// Stores what was read of the lines: the first `most` of each, with the line's number.
    pub(super) fn read(found: Vec<(usize, i64, i64)>, most: usize) -> Self {
        let mut lines = Self::default();
        for (line, at, id) in found {
            lines.0[line].first.push_back((at, id));
        }
        for line in &mut lines.0 {
            line.is_cut = line.first.len() >= most;
        }
        lines
    }

    /// The first due messages of each line, at most `most`; `None` if not all due messages are in memory.
    pub(super) fn due(&self, now: i64, most: usize) -> Option<[VecDeque<i64>; turns::LINES]> {
        let mut due: [VecDeque<i64>; turns::LINES] = Default::default();
        for (line, due) in self.0.iter().zip(&mut due) {
            let first = line.first.iter().take(most);
            due.extend(first.take_while(|(at, _)| *at <= now).map(|(_, id)| id));
            if line.is_cut && due.len() == line.first.len() && due.len() < most {
                return None;
            }
        }
        Some(due)
    }

    /// The first of those without an attempt, at most this many of each priority.
    pub(super) fn never_tried(&self, most: usize) -> impl Iterator<Item = i64> {
        let lines = self.0.iter().step_by(2);
        let first = lines.flat_map(move |line| line.first.iter().take(most));
        first.map(|(_, id)| *id)
    }

    /// Removes messages that no longer wait. They are among the first.
    pub(super) fn remove(&mut self, taken: &[i64]) {
        for line in &mut self.0 {
            let among = line.first.iter().take(taken.len());
            if among.clone().any(|(_, id)| taken.contains(id)) {
                line.first.retain(|(_, id)| !taken.contains(id));
            }
        }
    }

    /// Whether memory holds the first of each line, if one waits there.
    pub(super) fn are_enough(&self) -> bool {
        let is_unknown = |line: &Line| line.is_cut && line.first.is_empty();
        !self.0.iter().any(is_unknown)
    }

    /// When the first is due, if one waits. Memory must hold the first of each line.
    pub(super) fn first_due(&self) -> Option<i64> {
        let first = self.0.iter().filter_map(|line| line.first.front());
        first.map(|(at, _)| *at).min()
    }
}

impl Line {
    fn add(&mut self, place: Place) {
        match self.first.back() {
            // The usual case: it comes after all others.
            Some(last) if *last < place => {
                if self.is_cut {
                    return;
                }
                self.first.push_back(place);
            }
            None if self.is_cut => return,
            _ => match self.first.binary_search(&place) {
                Ok(_) => return,
                Err(at) => self.first.insert(at, place),
            },
        }
        if self.first.len() > limits::MAX_READY {
            self.first.truncate(limits::MAX_READY);
            self.is_cut = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Act {
        Enter(usize, i64),
        /// Time goes by, and this many are taken.
        Take(i64, usize),
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            (0..turns::LINES, 0..400_i64).prop_map(|(line, at)| Act::Enter(line, at)),
            (0..20_i64, 1..6_usize).prop_map(|(time, most)| Act::Take(time, most)),
        ]
    }

    proptest! {
        #[test]
        fn memory_says_what_the_rows_say_or_that_it_does_not_know(
            acts in prop::collection::vec(act(), 1..300),
            most_read in 6_usize..20,
        ) {
            let mut rows: [BTreeSet<Place>; turns::LINES] = Default::default();
            let mut ready = Ready::default();
            let (mut now, mut id) = (0, 0);
            for act in acts {
                match act {
                    Act::Enter(line, at) => {
                        id += 1;
                        rows[line].insert((at, id));
                        ready.add("bob", line, (at, id));
                    }
                    Act::Take(time, most) => {
                        now += time;
                        let truth = rows.each_ref().map(|line| {
                            let due = line.iter().filter(|(at, _)| *at <= now);
                            due.take(most).map(|(_, id)| *id).collect::<VecDeque<i64>>()
                        });
                        let known = ready.lines("bob").and_then(|lines| lines.due(now, most));
                        if let Some(known) = &known {
                            prop_assert_eq!(known, &truth);
                        } else {
                            let all = rows.iter().enumerate();
                            let found = all.flat_map(|(number, line)| {
                                line.iter().take(most_read).map(move |(at, id)| (number, *at, *id))
                            });
                            ready.learn("bob", Lines::read(found.collect(), most_read));
                        }
                        let lines = ready.lines("bob").expect("they were read");
                        let taken: Vec<i64> = truth.iter().flatten().copied().take(most).collect();
                        lines.remove(&taken);
                        for line in &mut rows {
                            line.retain(|(_, id)| !taken.contains(id));
                        }
                        if lines.are_enough() {
                            let all = rows.iter().filter_map(|line| line.first());
                            prop_assert_eq!(lines.first_due(), all.map(|(at, _)| *at).min());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_line_that_grows_is_cut_off() {
        let mut ready = Ready::default();
        ready.learn("bob", Lines::read(Vec::new(), 8));
        for id in 0..10_000 {
            ready.add("bob", 0, (5, id));
        }
        let lines = ready.lines("bob").expect("it is known");
        assert_eq!(lines.0[0].first.len(), limits::MAX_READY);
        assert!(lines.due(5, limits::MAX_READY + 1).is_none());
        assert!(
            lines
                .due(4, 1)
                .expect("none is due")
                .iter()
                .all(VecDeque::is_empty)
        );
    }
}
