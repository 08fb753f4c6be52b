//! Admission of transactions to the log: first come, first served.
//!
//! Two things are counted before a transaction is accepted: the bytes in memory that are not durable yet, those of the
//! group being written included, and the room in prepared segments. A refused transaction has a [`Ticket`] and is next when
//! those before it are served, so a large transaction is not passed by small ones for ever.

use std::collections::VecDeque;

/// A place in the queue for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// What a transaction lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// Prepared segments.
    Segments,
    /// Bytes that may wait for a sync.
    Unsynced,
    /// Pages that files may lack.
    Overlay,
}

pub(super) struct Room {
    /// Most bytes that are appended and not durable.
    most_unsynced: usize,
    /// Bytes of records that the largest segment holds.
    largest: u64,
    unsynced: usize,
    /// What is left in the segment being filled, counted as the provider fills it.
    left: u64,
    /// Bytes of records that each segment holds which is ready and not begun, in the order in which they are begun.
    segments: VecDeque<u64>,
    /// The segments that the first in the queue needs, if those which are missing are of the largest size.
    wanted: usize,
    /// Bytes of the first in the queue that those which are ready have no room for.
    missing: u64,
    /// What the first in the queue lacked at its last try.
    shortage: Shortage,
    queue: VecDeque<Ticket>,
    next_ticket: u64,
}

/// Where records come to lie.
struct Placed {
    /// What is left in the last segment with them in it.
    left: u64,
    /// The new segments that they need.
    segments: usize,
    /// Their bytes beyond the segments that are ready.
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

    /// Takes room for records of these lengths, or nothing at all and a place in the queue.
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

    /// What [`Self::take`] would lack. The first in the queue says here what it needs.
    pub(super) fn look(
        &mut self,
        ticket: Option<Ticket>,
        lengths: &[usize],
    ) -> Result<(), Shortage> {
        let first = self.queue.front().copied();
        if first.is_some() && first != ticket {
            // That of the first in the queue.
            return Err(self.shortage);
        }
        let placed = self.place(lengths);
        let bytes = lengths.iter().sum::<usize>();
        if placed.segments > self.segments.len() {
            self.wanted = placed.segments;
            self.missing = placed.missing;
            self.shortage = Shortage::Segments;
        } else if self.unsynced > 0 && self.unsynced + bytes > self.most_unsynced {
            // A transaction alone may pass the bound, or a large one could never be appended.
            self.shortage = Shortage::Unsynced;
        } else {
            return Ok(());
        }
        Err(self.shortage)
    }

    /// Where these records come to lie.
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

    /// Gives up a place in the queue. True if others wait.
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

    /// Releases bytes that are durable, or lost.
    pub(super) fn synced(&mut self, bytes: usize) {
        self.unsynced -= bytes;
    }

    /// Adds a segment that holds so many bytes of records.
    pub(super) fn add_segment(&mut self, capacity: u64) {
        self.segments.push_back(capacity);
    }

    /// The segments that are ready and not begun.
    pub(super) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Bytes of records that fit the segments that are there.
    pub(super) fn bytes(&self) -> u64 {
        self.left + self.segments.iter().sum::<u64>()
    }

    /// Bytes that the first in the queue lacks segments for.
    pub(super) fn missing(&self) -> u64 {
        self.missing
    }

    /// True if the first in the queue waits for more than one segment.
    pub(super) fn wants_segments_at_once(&self) -> bool {
        self.wanted > 1
    }

    /// True if so many segments should be prepared ahead, or the first in the queue needs more.
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
    fn nobody_passes_the_first_in_the_queue() {
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
