//! The end of an object that has deleted everything.
//!
//! When its connection closes, a record without pages ends the object. From then on it is as one that never was, and
//! the next checkpoint removes its file. If the record is lost in a crash, or has no room in the log, the object stays,
//! empty. A later object of the same id begins another life: its commits have higher numbers ([`CommitNo::first`]), and
//! the archive has both.
//!
//! [`CommitNo::first`]: crate::ident::CommitNo::first

use crate::encoding::Encoding;
use crate::engine::Engine;
use crate::error::Result;
use crate::ident::{Life, Lsn};
use crate::log::Refused;
use crate::log::record::{HEADER_BYTES, Header};
use crate::overlay::{Object, Pages};
use rustc_hash::FxHashMap;

impl Engine {
    /// Ends an object, whose connection is about to close. Does not wait for room in the log.
    pub(crate) fn end_object(&self, object: &Object) {
        match self.try_to_end(object) {
            Ok(()) | Err(Refused::Stale | Refused::NoRoom(_) | Refused::Moved) => {}
            Err(Refused::Failed(error)) => {
                tracing::warn!(object = %object.key, %error, "a deleted object keeps its file, which is empty");
            }
        }
    }

    fn try_to_end(&self, object: &Object) -> Result<(), Refused> {
        let log = &self.shared.log;
        loop {
            let now = self.commit_time().map_err(Refused::Failed)?;
            let mut pages = object.pages();
            if pages.size == 0 || pages.quarantined.is_some() {
                return Ok(());
            }
            let mut encoding = Encoding::take(log);
            let transaction = &mut encoding.transaction;
            transaction.time = now;
            transaction.full_image_horizon = log.full_image_horizon();
            transaction.tenure = object.tenure();
            transaction.bytes.resize(HEADER_BYTES, 0);
            transaction.lengths.push(HEADER_BYTES);
            self.last_record(object, &pages)
                .write(&mut transaction.bytes);
            let appended = match log.append(transaction) {
                Err(Refused::Stale) => continue,
                appended => appended?,
            };
            self.shared.count_append(appended.end.0 - appended.start.0);
            let before = pages.overlay.len();
            pages.overlay = FxHashMap::default();
            self.stored.changed(object.key, pages.size, 0);
            pages.size = 0;
            pages.commit = pages.commit.next();
            pages.newest = appended.end;
            pages.departures += 1;
            pages.ended = true;
            self.count_overlay(before, 0);
            return Ok(());
        }
    }

    fn last_record(&self, object: &Object, pages: &Pages) -> Header {
        Header {
            length: HEADER_BYTES,
            lsn: Lsn::ZERO,
            durable: Lsn::ZERO,
            epoch: self.shared.log.epoch,
            key: object.key,
            commit: pages.commit.next(),
            database_pages: 0,
            last_part: true,
            life: Life::Ends,
            replaces: false,
            alarm: None,
            entries: 0,
            unix_millis: 0,
            payload_crc: crc32c::crc32c(&[]),
        }
    }
}
