//! Who waits for a call, as far as a closed gate is concerned.
//!
//! An object that calls itself, directly or through others, normally does not deadlock: its gate is open at an `await`.
//! Inside `block_concurrency_while`, however, the call could start only when the block has ended, and the block waits
//! for the call. Calls made inside a block, and the calls that follow from them, therefore carry the chain of their
//! callers; an object that finds its own block in the chain rejects the call. Other calls carry nothing.
//!
//! A caller counts once it has polled the call: a caller that does not wait for the answer may call anything. Blocks
//! that wait for each other by separate calls form no chain; the block's time limit ends them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use abide_storage::ObjectKey;

use crate::{gate::Token, limits::MAX_CALL_CHAIN};

/// A task that made a call, and the tasks that wait for it.
pub(crate) struct Link {
    pub(crate) object: ObjectKey,
    pub(crate) task: Token,
    awaited: AtomicBool,
    before: Option<Arc<Link>>,
    /// The length of the chain, including this link.
    length: usize,
}

impl Link {
    /// Adds a task to the chain of its waiters. `None` if the chain is too long to be followed.
    pub(crate) fn new(
        object: ObjectKey,
        task: Token,
        before: Option<Arc<Self>>,
    ) -> Option<Arc<Self>> {
        let length = before.as_ref().map_or(0, |before| before.length) + 1;
        (length <= MAX_CALL_CHAIN).then(|| {
            Arc::new(Self {
                object,
                task,
                awaited: AtomicBool::new(false),
                before,
                length,
            })
        })
    }

    /// Records that the task waits for the call's answer.
    pub(crate) fn wait(&self) {
        self.awaited.store(true, Ordering::Relaxed);
    }

    /// The number of calls between here and a matching task, if each of them is waited for.
    pub(crate) fn calls_since(&self, fits: impl Fn(&Self) -> bool) -> Option<usize> {
        let mut link = Some(self);
        let mut calls = 1;
        while let Some(current) = link.filter(|link| link.awaited.load(Ordering::Relaxed)) {
            if fits(current) {
                return Some(calls);
            }
            calls += 1;
            link = current.before.as_deref();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use abide_storage::NamespaceNo;

    use super::*;

    fn link(number: u8, before: Option<&Arc<Link>>) -> Arc<Link> {
        let object = ObjectKey {
            namespace: NamespaceNo(1),
            id: [number; 32],
        };
        Link::new(object, Token(number.into()), before.map(Arc::clone)).unwrap()
    }

    #[test]
    fn a_chain_ends_at_an_unawaited_call() {
        let first = link(1, None);
        let second = link(2, Some(&first));
        let is_first = |link: &Link| link.task == Token(1);
        second.wait();
        assert_eq!(second.calls_since(is_first), None);
        first.wait();
        assert_eq!(second.calls_since(is_first), Some(2));
        assert_eq!(second.calls_since(|link| link.task == Token(3)), None);
    }

    #[test]
    fn a_chain_has_an_end() {
        let object = link(1, None).object;
        let longest = (1..MAX_CALL_CHAIN).fold(link(1, None), |before, _| {
            Link::new(object, Token(1), Some(before)).unwrap()
        });
        assert!(Link::new(object, Token(1), Some(longest)).is_none());
    }
}
