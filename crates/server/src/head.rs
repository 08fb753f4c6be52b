//! The memory charge of a request's head that has not arrived completely.
//!
//! Contract: what a connection has received of a head beyond [`limits::FREE_HEAD`], which the charge of the connection
//! covers, is charged until its request has ended: the parsed head refers to the buffer. While the budget is used up, a
//! connection with a longer head is closed. HTTP/2 itself bounds heads, below that length.
//!
//! The read that ends a head may have the beginning of its body, and so be longer than the head: it is never refused, only a
//! further one.

use std::{io, sync::Arc};

use abide_storage::{MemoryAccount, MemoryCharge, MemoryUse};

use crate::{
    activity::{Activity, Awaited},
    limits,
};

/// The head that a connection receives.
pub(crate) struct ArrivingHead {
    activity: Activity,
    /// `None` if memory is not counted.
    charge: Option<MemoryCharge>,
    budget: Option<abide_storage::MemoryBudget>,
    bytes: usize,
    /// It is complete: its request is open.
    is_complete: bool,
}

impl ArrivingHead {
    pub(crate) fn new(activity: Activity, memory: Option<&Arc<MemoryAccount>>) -> Self {
        Self {
            activity,
            charge: memory.map(|memory| memory.charge(MemoryUse::Connections, 0)),
            budget: memory.map(|memory| memory.budget().clone()),
            bytes: 0,
            is_complete: false,
        }
    }

    /// Notes that a request has begun or ended.
    pub(crate) fn observe(&mut self) {
        if self.bytes <= limits::FREE_HEAD {
            return;
        }
        let is_open = self.activity.awaited() != Awaited::Nothing;
        if self.is_complete && !is_open {
            self.release();
        }
        self.is_complete = is_open;
    }

    /// Charges bytes that have arrived. An error if there is no memory for them.
    pub(crate) fn arrived(&mut self, bytes: usize) -> io::Result<()> {
        if self.activity.awaited() != Awaited::Nothing {
            self.is_complete = true;
            return Ok(());
        }
        if self.is_complete {
            self.release();
        }
        let is_long = self.bytes > limits::FREE_HEAD;
        self.bytes += bytes;
        let charged = self.bytes.saturating_sub(limits::FREE_HEAD) as u64;
        let (Some(charge), Some(budget)) = (&mut self.charge, &self.budget) else {
            return Ok(());
        };
        if is_long && budget.is_over() {
            budget.count_refusal(MemoryUse::Connections);
            return Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                "the memory budget is used up; not reading the rest of the request's head",
            ));
        }
        if charged != charge.bytes() {
            charge.resize(charged);
        }
        Ok(())
    }

    fn release(&mut self) {
        self.bytes = 0;
        self.is_complete = false;
        if let Some(charge) = &mut self.charge {
            charge.resize(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use abide_storage::MemoryBudget;

    use super::*;

    #[test]
    fn the_read_that_makes_a_head_long_may_be_its_last() {
        let memory = MemoryBudget::new(1 << 20).account();
        let _other = memory.charge(MemoryUse::Bodies, 2 << 20);
        let mut head = ArrivingHead::new(Activity::new(), Some(&memory));
        // Such as a short head with the beginning of its body.
        head.arrived(limits::FREE_HEAD + 24).unwrap();
        let refused = head.arrived(1).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory);
    }
}
