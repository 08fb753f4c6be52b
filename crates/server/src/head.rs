//! The memory charge of a request's head that has not arrived completely.
//!
//! Contract: what a connection has received of a head beyond [`limits::FREE_HEAD`], which the charge of the connection
//! covers, is charged until its request has ended: the parsed head refers to the buffer. While the budget is used up, a
//! connection with a longer head is closed. HTTP/2 itself bounds heads, below that length.

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
        self.bytes += bytes;
        let charged = self.bytes.saturating_sub(limits::FREE_HEAD) as u64;
        let (Some(charge), Some(budget)) = (&mut self.charge, &self.budget) else {
            return Ok(());
        };
        if charged > 0 && budget.is_over() {
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
