//! The transactions of the next group.

use super::{Transaction, record};
use crate::ident::Lsn;
use crate::limits::{COPIED_TRANSACTION_BYTES, SHARED_BUFFER_BYTES};

/// Transactions that become durable together.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) first: Lsn,
    pub(super) bytes: usize,
    pub(super) buffers: Vec<Vec<u8>>,
    pub(super) lengths: Vec<usize>,
}

impl Batch {
    /// Takes a transaction's bytes. No transaction is split over two buffers.
    pub(super) fn push(&mut self, transaction: &mut Transaction, spare: &mut Vec<Vec<u8>>) {
        let bytes = &mut transaction.bytes;
        self.bytes += bytes.len();
        self.lengths.extend_from_slice(&transaction.lengths);
        if bytes.len() > COPIED_TRANSACTION_BYTES {
            let empty = spare.pop().unwrap_or_default();
            self.buffers.push(std::mem::replace(bytes, empty));
            return;
        }
        match self.buffers.last_mut() {
            Some(last) if last.capacity() - last.len() >= bytes.len() => {
                last.extend_from_slice(bytes);
            }
            _ => {
                let mut shared = spare.pop().unwrap_or_default();
                shared.reserve(SHARED_BUFFER_BYTES);
                shared.extend_from_slice(bytes);
                self.buffers.push(shared);
            }
        }
        bytes.clear();
    }

    /// Writes into each record its position, and the durable LSN before the group.
    pub(super) fn stamp(&mut self, durable: Lsn) {
        let mut lsn = self.first;
        let mut lengths = self.lengths.iter();
        for buffer in &mut self.buffers {
            let mut at = 0;
            while at < buffer.len()
                && let Some(&length) = lengths.next()
            {
                record::stamp(&mut buffer[at..], lsn, durable);
                lsn = lsn.advance(length);
                at += length;
            }
        }
    }

    pub(super) fn end(&self) -> Lsn {
        self.first.advance(self.bytes)
    }

    /// Clears the batch, and returns the buffers that are small enough to be reused.
    pub(super) fn clear(&mut self) -> Vec<Vec<u8>> {
        self.bytes = 0;
        self.lengths.clear();
        let mut kept = std::mem::take(&mut self.buffers);
        kept.retain(|buffer| buffer.capacity() <= SHARED_BUFFER_BYTES);
        kept.iter_mut().for_each(Vec::clear);
        kept
    }
}
