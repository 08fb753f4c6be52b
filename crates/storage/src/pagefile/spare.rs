//! Page images that commits have replaced, kept by each thread for reuse: an allocation of this size is slow.

use crate::ident::Page;
use std::cell::RefCell;
use std::sync::Arc;

/// The most that a thread keeps.
const MAX: usize = 64;

thread_local! {
    static PAGES: RefCell<Vec<Arc<Page>>> = const { RefCell::new(Vec::new()) };
}

/// A page with this content.
pub(super) fn page(content: &Page) -> Arc<Page> {
    let spare = PAGES.with_borrow_mut(Vec::pop);
    match spare {
        Some(mut page) => {
            // There is no other holder, so this copies into it.
            *Arc::make_mut(&mut page) = *content;
            page
        }
        None => Arc::new(*content),
    }
}

/// Keeps a page, unless a checkpoint is still writing it.
pub(super) fn keep(mut page: Arc<Page>) {
    if Arc::get_mut(&mut page).is_some() {
        PAGES.with_borrow_mut(|pages| {
            if pages.len() < MAX {
                pages.push(page);
            }
        });
    }
}
