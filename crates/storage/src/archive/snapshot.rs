//! Writing a snapshot: every page of an object as a chain of entries, all of them full images.

use super::entry::{Entry, Head, Kind};
use super::run::RunWriter;
use crate::delta;
use crate::error::Result;
use crate::ident::Page;
use crate::limits::{MAX_RECORD_PAYLOAD, PAGE_BYTES};

/// Adds the snapshot of an object as of the commit in `head`, whose pages `page` gives by their numbers.
pub(crate) fn add(
    writer: &mut RunWriter,
    head: Head,
    mut page: impl FnMut(u32) -> Result<Page>,
) -> Result<()> {
    let mut head = Head {
        kind: Kind::Snapshot,
        first: true,
        entries: 0,
        ..head
    };
    let mut payload = Vec::new();
    for page_no in 1..=head.database_pages {
        delta::encode(&mut payload, page_no, &page(page_no)?, None);
        head.entries += 1;
        head.last = page_no == head.database_pages;
        if head.last || payload.len() >= MAX_RECORD_PAYLOAD - PAGE_BYTES {
            writer.add(&Entry {
                head,
                payload: &payload,
            })?;
            payload.clear();
            head.entries = 0;
            head.first = false;
        }
    }
    Ok(())
}
