//! The memory charge of messages from when an object sends them until their peers have received them.

use std::sync::{Arc, Weak};

use abide_storage::{MemoryAccount, MemoryCharge, MemoryUse};
use bytes::Bytes;

use crate::limits::{COUNTED_CONTENT, GATED_OVERHEAD};

/// The memory charge of one frame while it is held.
pub(crate) struct FrameCharge {
    _frame: MemoryCharge,
    /// Shared by the frames of one message to many sockets.
    _content: Option<Arc<MemoryCharge>>,
}

/// The message last sent on a worker: if it goes to many sockets, its content exists once and is charged once.
#[derive(Default)]
pub(crate) struct Sent {
    address: usize,
    length: usize,
    content: Weak<MemoryCharge>,
}

impl Sent {
    pub(crate) fn charge(&mut self, content: &Bytes, memory: &Arc<MemoryAccount>) -> FrameCharge {
        let frame = |bytes: usize| memory.charge(MemoryUse::Sockets, bytes as u64);
        if content.len() < COUNTED_CONTENT {
            return FrameCharge {
                _frame: frame(GATED_OVERHEAD + content.len()),
                _content: None,
            };
        }
        let address = content.as_ptr().addr();
        let is_last = (address, content.len()) == (self.address, self.length);
        // As long as a frame holds it, the address belongs to the same content.
        let shared = self.content.upgrade().filter(|_| is_last);
        let content = shared.unwrap_or_else(|| {
            let charge = Arc::new(frame(content.len()));
            *self = Self {
                address,
                length: content.len(),
                content: Arc::downgrade(&charge),
            };
            charge
        });
        FrameCharge {
            _frame: frame(GATED_OVERHEAD),
            _content: Some(content),
        }
    }
}

#[cfg(test)]
mod tests {
    use abide_storage::MemoryBudget;

    use super::*;

    #[test]
    fn a_message_to_many_sockets_is_counted_once_and_its_frames_singly() {
        let memory = MemoryBudget::unlimited().account();
        let used = || memory.used(MemoryUse::Sockets) as usize;
        let mut sent = Sent::default();
        let message = Bytes::from(vec![7; 100_000]);
        let frames: Vec<_> = (0..10)
            .map(|_| sent.charge(&message.clone(), &memory))
            .collect();
        assert_eq!(used(), 100_000 + 10 * GATED_OVERHEAD);
        let other = sent.charge(&Bytes::from(vec![7; 100_000]), &memory);
        assert_eq!(used(), 200_000 + 11 * GATED_OVERHEAD);
        let small = sent.charge(&Bytes::from_static(b"small"), &memory);
        assert_eq!(used(), 200_005 + 12 * GATED_OVERHEAD);
        drop((frames, small));
        assert_eq!(used(), 100_000 + GATED_OVERHEAD);
        drop(other);
        assert_eq!(used(), 0);
    }
}
