//! Hydration in the background, in batches.

use super::write::Written;
use crate::archive::index::IndexEntry;
use crate::catalog;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::hydration::{BYTES, Pass};
use crate::ident::{NamespaceNo, ObjectKey};
use crate::limits::PAGE_BYTES;
use crate::manifest::HydrationState;
use crate::parallel;
use crate::sync::Mutex;

impl Engine {
    /// Writes the files of the next batch of cold objects. Returns how many bytes they have; `None` if all objects have their
    /// files, or the store is being closed.
    ///
    /// # Errors
    /// As [`Engine::hydrate`]. A later call tries again.
    pub(crate) fn hydrate_batch(&self) -> Result<Option<u64>> {
        // Without threads, a commit may need maintenance in the middle of anything.
        let Some(mut pass) = self.hydration.pass.try_lock() else {
            return Ok(None);
        };
        let next = self.hydration.next();
        if next == BYTES || self.archive.is_stopping() {
            return Ok(None);
        }
        if !pass.is_listed {
            let cold = self.cold_objects().with_first_byte(next as u8)?;
            pass.left = cold.into_values().collect();
            pass.is_listed = true;
        }
        let batch = pass.batch();
        let pages = batch.iter().map(|newest| u64::from(newest.newest.pages));
        let bytes = pages.sum::<u64>() * PAGE_BYTES as u64;
        if !self.archive.has_room_for(bytes) {
            *pass = Pass::default();
            return Err(Error::new(
                ErrorKind::NoSpace,
                "the disk has no room for them beside commits",
            ));
        }
        if batch.is_empty() {
            *pass = Pass::default();
            self.end_part(next as u8)?;
            return Ok(Some(0));
        }
        let hydrated = self.hydrate_all(&batch);
        // Those that could not be written, or that others write at this moment, are found when the part is listed again.
        if pass.left.is_empty() || hydrated.is_err() {
            *pass = Pass::default();
        }
        hydrated.map(|()| Some(bytes))
    }

    /// Writes these files, as far as it can.
    fn hydrate_all(&self, batch: &[IndexEntry]) -> Result<()> {
        let failed = |error| Error::io("syncing the object files", &error);
        // Opened before the writes, to report the errors of all of them.
        let objects = self.shared.dir.join("objects");
        let barrier = self.shared.disk.barrier(&objects).map_err(failed)?;
        let (written, failure) = (Mutex::new(Vec::new()), Mutex::new(None));
        parallel::for_each(self.shared.parallel_threads(), batch, |newest| {
            match self.hydrate_one(newest) {
                Ok(file) => written.lock().extend(file),
                // It does not prevent the others.
                Err(error) => drop(failure.lock().replace(error)),
            }
            Ok(())
        })?;
        let written = written.into_inner();
        if !written.is_empty() {
            barrier.wait().map_err(failed)?;
            self.put_in_place(&written)?;
        }
        failure.into_inner().map_or(Ok(()), Err)
    }

    fn hydrate_one(&self, newest: &IndexEntry) -> Result<Option<Written<'_>>> {
        // Not while another thread writes it.
        let Some(claim) = self.hydration.claims.try_claim(newest.key) else {
            return Ok(None);
        };
        if self.archive.is_stopping() || self.cold(newest.key)?.is_none() {
            return Ok(None);
        }
        let written = self.write_cold(claim, newest)?;
        // The file is closed: there may be many.
        Ok(written.map(|(written, _)| written))
    }

    /// All objects whose ids begin with this byte have their files.
    fn end_part(&self, byte: u8) -> Result<()> {
        let mut is_last = false;
        self.shared.publish(|manifest| {
            manifest.hydration = manifest.hydration.and_then(HydrationState::advanced);
            is_last = manifest.hydration.is_none();
            let lack = |key: ObjectKey| manifest.hydration.is_some_and(|of| of.may_lack(key));
            let is_cold = |key: &String| ObjectKey::parse(key).is_some_and(lack);
            manifest.large.retain(is_cold);
        })?;
        self.hydration.has_ended(byte);
        // Who has seen the manifest before may still look for them.
        self.hydration.claims.wait_for(|key| key.id[0] == byte);
        self.remove_rest(byte);
        if is_last {
            tracing::info!(
                objects = self.hydration.written(),
                "every object of the restored directory has its file"
            );
            self.archive.request_compaction();
        }
        Ok(())
    }

    /// Removes what hydration has left beside the files of objects. It is never read again.
    fn remove_rest(&self, byte: u8) {
        let disk = &*self.shared.disk;
        let namespaces = self.shared.catalog.current().namespaces.len() as u32;
        for namespace in (1..=namespaces).map(NamespaceNo) {
            let Some(dir) = self.shared.catalog.namespace_dir(namespace) else {
                continue;
            };
            let names = self.names_in_part(namespace, byte).unwrap_or_default();
            for name in names.iter().filter(|name| catalog::is_of_hydration(name)) {
                let path = dir.join(hex::encode([byte])).join(name);
                if let Err(error) = disk.remove(&path) {
                    tracing::warn!(path = %path.display(), %error, "cannot remove an unneeded file");
                }
            }
        }
    }
}
