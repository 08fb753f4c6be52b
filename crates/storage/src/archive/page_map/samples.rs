//! Pages and changes for tests.

use super::followed::Followed;
use crate::delta;
use crate::ident::{Page, ZERO_PAGE};

pub(super) fn page(content: u8) -> Page {
    let mut page = ZERO_PAGE;
    page[100..200].fill(content);
    page
}

/// Follows a change of a page, in the entry with the number of the content.
pub(super) fn change(followed: &mut Followed, page_no: u32, content: u8, previous: Option<u8>) {
    let mut entry = Vec::new();
    let previous = previous.map(page);
    delta::encode(&mut entry, page_no, &page(content), previous.as_ref());
    let (change, _) = delta::Entry::decode(&entry).unwrap();
    followed.change(&change, u32::from(content));
}
