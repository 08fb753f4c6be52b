//! Admission of transactions to the log: first come, first served.
//!
//! Two resources are reserved before a transaction is accepted: bytes in memory that are not durable yet, including
//! those of the group being written, and capacity of prepared segments. A rejected transaction has a [`Ticket`] and its
//! turn comes after those before it, so small transactions cannot overtake a large one forever.

use std::collections::VecDeque;

/// A place in the queue for log space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// The resource that a transaction lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// Prepared segments.
    Segments,
    /// Bytes that may wait for a sync.
    Unsynced,
    /// Pages not yet written to object files.
    Overlay,
}

pub(super) struct Room {
    /// Most bytes that may be appended and not durable.
    most_unsynced: usize,
    /// Bytes of records that the largest segment holds.
    largest: u64,
    unsynced: usize,
    /// What is left in the segment being filled, as the provider fills it.
    left: u64,
    /// The capacity of each prepared segment, in the order of use.
    segments: VecDeque<u64>,
    /// The segments that the first in the queue needs, assuming that missing ones have the largest size.
    wanted: usize,
    /// Bytes of the first in the queue that do not fit the prepared segments.
    missing: u64,
    /// What the first in the queue lacked at its last try.
    shortage: Shortage,
    queue: VecDeque<Ticket>,
    next_ticket: u64,
}

/// Where records are placed.
struct Placed {
    /// What is left in the last segment after them.
    left: u64,
    /// The new segments that they need.
    segments: usize,
    /// Their bytes that do not fit the prepared segments.
    missing: u64,
}

impl Room {
    pub(super) fn new(most_unsynced: usize, largest: u64) -> Self {
        Self {
            most_unsynced,
            largest,
            unsynced: 0,
            left: 0,
            segments: VecDeque::new(),
            wanted: 0,
            missing: 0,
            shortage: Shortage::Segments,
            queue: VecDeque::new(),
            next_ticket: 0,
        }
    }

    /// Reserves space for records of these lengths, or reserves nothing and returns a place in the queue.
    pub(super) fn take(
        &mut self,
        ticket: &mut Option<Ticket>,
        lengths: &[usize],
    ) -> Result<(), Shortage> {
        if let Err(shortage) = self.look(*ticket, lengths) {
            if ticket.is_none() {
                let new = Ticket(self.next_ticket);
                self.next_ticket += 1;
                self.queue.push_back(new);
                *ticket = Some(new);
            }
            return Err(shortage);
        }
        let placed = self.place(lengths);
        self.left = placed.left;
        self.segments.drain(..placed.segments);
        self.unsynced += lengths.iter().sum::<usize>();
        self.leave(ticket);
        Ok(())
    }

    /// What [`Self::take`] would lack. Records what the first in the queue needs.
    pub(super) fn look(
        &mut self,
        ticket: Option<Ticket>,
        lengths: &[usize],
    ) -> Result<(), Shortage> {
        let first = self.queue.front().copied();
        if first.is_some() && first != ticket {
            // The shortage of the first in the queue.
            return Err(self.shortage);
        }
        let placed = self.place(lengths);
        let bytes = lengths.iter().sum::<usize>();
        if placed.segments > self.segments.len() {
            self.wanted = placed.segments;
            self.missing = placed.missing;
            self.shortage = Shortage::Segments;
        } else if self.unsynced > 0 && self.unsynced + bytes > self.most_unsynced {
            // A single transaction may exceed the limit, or a large one could never be appended.
            self.shortage = Shortage::Unsynced;
        } else {
            return Ok(());
        }
        Err(self.shortage)
    }

    /// Where these records would be placed.
    fn place(&self, lengths: &[usize]) -> Placed {
        let mut placed = Placed {
            left: self.left,
            segments: 0,
            missing: 0,
        };
        for &length in lengths {
            let length = length as u64;
            if length > placed.left {
                let next = self.segments.get(placed.segments);
                placed.left = next.copied().unwrap_or(self.largest);
                placed.segments += 1;
            }
            placed.left -= length;
            if placed.segments > self.segments.len() {
                placed.missing += length;
            }
        }
        placed
    }

    /// Gives up a place in the queue. Returns whether others wait.
    pub(super) fn leave(&mut self, ticket: &mut Option<Ticket>) -> bool {
        if let Some(ticket) = ticket.take() {
            if self.queue.front() == Some(&ticket) {
                (self.wanted, self.missing) = (0, 0);
            }
            self.queue.retain(|other| *other != ticket);
        }
        self.is_awaited()
    }

    /// True if a transaction waits for room.
    pub(super) fn is_awaited(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Releases bytes that are durable or lost.
    pub(super) fn synced(&mut self, bytes: usize) {
        self.unsynced -= bytes;
    }

    /// Adds a segment with this capacity, in bytes of records.
    pub(super) fn add_segment(&mut self, capacity: u64) {
        self.segments.push_back(capacity);
    }

    /// The number of prepared segments that have not been begun.
    pub(super) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Bytes of records that fit the available segments.
    pub(super) fn bytes(&self) -> u64 {
        self.left + self.segments.iter().sum::<u64>()
    }

    /// Bytes of the first in the queue that do not fit the prepared segments.
    pub(super) fn missing(&self) -> u64 {
        self.missing
    }

    /// True if the first in the queue waits for more than one segment.
    pub(super) fn wants_segments_at_once(&self) -> bool {
        self.wanted > 1
    }

    /// Returns whether `ahead` segments are not prepared yet, or the first in the queue needs more.
    pub(super) fn wants_segment(&self, ahead: usize) -> bool {
        self.segments.len() < ahead.max(self.wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(most_unsynced: usize) -> Room {
        let mut room = Room::new(most_unsynced, 1_000);
        for _ in 0..10 {
            room.add_segment(1_000);
        }
        room
    }

    #[test]
    fn a_transaction_over_the_bound_is_taken_when_nothing_else_is_unsynced() {
        let mut room = room(100);
        assert_eq!(room.take(&mut None, &[60]), Ok(()));
        let mut large = None;
        assert!(room.take(&mut large, &[150, 150]).is_err());
        room.synced(60);
        assert_eq!(room.take(&mut large, &[150, 150]), Ok(()));
        assert!(large.is_none());
    }

    #[test]
    fn no_waiter_passes_the_first_in_the_queue() {
        let mut room = room(100);
        let (mut large, mut small) = (None, None);
        assert_eq!(room.take(&mut None, &[60]), Ok(()));
        assert!(room.take(&mut large, &[100]).is_err());
        assert!(
            room.take(&mut small, &[10]).is_err(),
            "it passed the large one"
        );
        room.synced(60);
        assert!(
            room.take(&mut small, &[10]).is_err(),
            "it passed the large one"
        );
        assert_eq!(room.take(&mut large, &[100]), Ok(()));
        assert!(room.take(&mut small, &[10]).is_err());
        room.synced(100);
        assert_eq!(room.take(&mut small, &[10]), Ok(()));
    }

    #[test]
    fn records_lie_in_segments_of_different_sizes_as_they_come() {
        let mut room = Room::new(1_000_000, 4_000);
        for capacity in [500, 1_000, 2_000] {
            room.add_segment(capacity);
        }
        assert_eq!(room.take(&mut None, &[300]), Ok(()));
        assert_eq!((room.segments(), room.bytes()), (2, 3_200));
        // The rest of the first segment is too small for the second record, and stays empty.
        assert_eq!(room.take(&mut None, &[100, 900]), Ok(()));
        assert_eq!((room.segments(), room.bytes()), (1, 2_100));
        let mut large = None;
        assert_eq!(
            room.take(&mut large, &[900, 900, 900]),
            Err(Shortage::Segments)
        );
        assert!(room.wants_segment(0) && room.wants_segments_at_once());
        assert_eq!(room.missing(), 900);
        room.add_segment(1_000);
        assert_eq!(room.take(&mut large, &[900, 900, 900]), Ok(()));
        assert_eq!((room.missing(), room.bytes()), (0, 100));
    }

    #[test]
    fn who_gives_up_lets_the_next_one_go_and_wants_no_segments() {
        let mut room = Room::new(1_000_000, 1_000);
        let (mut large, mut small) = (None, None);
        assert!(room.take(&mut large, &[900; 7]).is_err());
        assert!(room.wants_segment(0));
        assert_eq!(room.take(&mut small, &[900]), Err(Shortage::Segments));
        assert!(room.leave(&mut large), "one is left");
        assert!(!room.wants_segment(0));
        room.add_segment(1_000);
        assert_eq!(room.take(&mut small, &[900]), Ok(()));
        assert!(!room.leave(&mut small));
    }
}
