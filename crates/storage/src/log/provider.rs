//! The durability provider: makes groups of records durable.
//!
//! The log gathers records, assigns their positions and passes them on group by group, always in order and one group at
//! a time. [`super::local::LocalSegments`] writes them to this machine's disk.

use crate::ident::Lsn;
use std::io;
use std::time::Duration;

/// Records that become durable together.
pub(crate) struct Group<'a> {
    /// The position of the first record.
    pub(crate) first: Lsn,
    /// The transactions, each with its records in sequence.
    pub(crate) buffers: &'a [Vec<u8>],
    /// The length of each record of all transactions.
    pub(crate) lengths: &'a [usize],
}

impl<'a> Group<'a> {
    /// The records, in order.
    pub(crate) fn records(&self) -> impl Iterator<Item = &'a [u8]> {
        let mut buffers = self.buffers.iter();
        let mut rest: &'a [u8] = &[];
        self.lengths.iter().map_while(move |&length| {
            while rest.is_empty() {
                rest = buffers.next()?;
            }
            let (record, others) = rest.split_at(length);
            rest = others;
            Some(record)
        })
    }
}

/// Makes groups durable, in order.
pub(crate) trait Durability: Send {
    /// Returns when the group is durable, with the time it waited for the disk sync. After an error the group may or may not
    /// be durable, which only recovery can tell, and the provider is not called again.
    fn append(&mut self, group: &Group<'_>) -> io::Result<Duration>;
}
