//! Files without names.

use super::SimDisk;
use crate::disk::DiskFile;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file without a name. A crash leaves nothing of it, so its writes do not count as changes of the disk; they do take
/// space.
pub(super) struct SimTemporary {
    disk: SimDisk,
    data: Mutex<Vec<u8>>,
}

impl SimTemporary {
    pub(super) fn new(disk: SimDisk) -> Self {
        Self {
            disk,
            data: Mutex::default(),
        }
    }

    fn data(&self) -> MutexGuard<'_, Vec<u8>> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resize(&self, data: &mut Vec<u8>, len: usize) -> io::Result<()> {
        let mut state = self.disk.state();
        state.alive()?;
        state.grow(data.len(), len)?;
        data.resize(len, 0);
        Ok(())
    }
}

impl DiskFile for SimTemporary {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.state().alive()?;
        let data = self.data();
        let start = (offset as usize).min(data.len());
        let end = (start + buf.len()).min(data.len());
        buf[..end - start].copy_from_slice(&data[start..end]);
        Ok(end - start)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (start, mut data) = (offset as usize, self.data());
        let len = data.len().max(start + bytes.len());
        self.resize(&mut data, len)?;
        data[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.state().alive()?;
        Ok(self.data().len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.resize(&mut self.data(), len as usize)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.state().alive()
    }
}

impl Drop for SimTemporary {
    fn drop(&mut self) {
        let len = self.data().len() as u64;
        let mut state = self.disk.state();
        state.used = state.used.saturating_sub(len);
    }
}
