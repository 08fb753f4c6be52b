//! Adds a replacement to a run, from the run that was written before its commit.

use super::entry::{Entry, Head, Kind};
use super::run::RunReader;
use super::stream::Stream;
use crate::disk::Disk;
use crate::error::Result;
use crate::ident::{Life, Lsn, Position};
use crate::manifest::{ArchiveState, Replacement};
use std::path::Path;

use super::run::RunWriter;

/// Adds the replacement that a commit continues, as a snapshot between the commit before and this one. `head` is that of the
/// commit. Returns false if the archive does not have it.
pub(crate) fn add(
    disk: &dyn Disk,
    archive: &Path,
    state: &ArchiveState,
    head: &Head,
    writer: &mut RunWriter,
) -> Result<bool> {
    let mut known = state.replacements.iter();
    let Some(run) = known
        .find(|known| known.is_of(head.key, head.commit))
        .and_then(|known| known.run.as_ref())
    else {
        return Ok(false);
    };
    let mut reader = RunReader::open(disk, archive, run)?;
    let index = reader.find(head.key)?;
    let index = index.ok_or_else(|| reader.damaged("the object is not in it"))?;
    // The commit has more than one byte of the log, so this is after the commit before it.
    let lsn = Lsn(head.position.lsn.0.saturating_sub(1));
    let mut stream = Stream::object(reader.clone(), index)?;
    while let Some(entry) = stream.current() {
        let head = Head {
            commit: Replacement::before(head.commit),
            position: Position::at(head.position.generation, lsn),
            unix_millis: head.unix_millis,
            kind: Kind::Snapshot,
            life: Life::Continues,
            replaces: true,
            ..entry.head
        };
        let payload = entry.payload;
        writer.add(&Entry { head, payload })?;
        stream.advance()?;
    }
    Ok(true)
}
