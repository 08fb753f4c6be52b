//! Writes a snapshot: every page of an object as a chain of entries with full images.

use super::entry::{Entry, Head, Kind};
use super::run::RunWriter;
use crate::delta;
use crate::error::Result;
use crate::ident::{Life, Page};
use crate::limits::{MAX_RECORD_PAYLOAD, PAGE_BYTES};

/// Adds the snapshot of an object as of the commit in `head`. `page` returns a page by its number.
pub(crate) fn add(
    writer: &mut RunWriter,
    head: Head,
    page: impl FnMut(u32) -> Result<Page>,
) -> Result<()> {
    let head = Head {
        kind: Kind::Snapshot,
        life: Life::Continues,
        replaces: false,
        ..head
    };
    add_pages(writer, head, 1..=head.database_pages, page)
}

/// Adds full images of these pages of an object, in this order, as one chain of entries.
pub(crate) fn add_pages(
    writer: &mut RunWriter,
    head: Head,
    numbers: impl IntoIterator<Item = u32>,
    mut page: impl FnMut(u32) -> Result<Page>,
) -> Result<()> {
    let mut head = Head {
        first: true,
        entries: 0,
        ..head
    };
    let mut payload = Vec::new();
    let mut numbers = numbers.into_iter().peekable();
    while let Some(page_no) = numbers.next() {
        delta::encode(&mut payload, page_no, &page(page_no)?, None);
        head.entries += 1;
        head.last = numbers.peek().is_none();
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
