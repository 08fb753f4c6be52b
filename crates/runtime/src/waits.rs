//! What a suspended task waits for, as far as the runtime can tell: the clock, an answer of another object, or a request
//! that has left the node. [`Node::settle`](crate::Node::settle) asks.
//!
//! Counted only on a clock that a test moves: elsewhere a task has no [`Waits`], and nothing is counted.

use std::{
    cell::{Cell, RefCell},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

thread_local! {
    /// Of the task that is polled now.
    static CURRENT: RefCell<Option<Arc<Waits>>> = const { RefCell::new(None) };
    /// A sleep was polled, and continues.
    static SLEEPS: Cell<bool> = const { Cell::new(false) };
}

/// The pending waits of one task, by kind.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    clock: AtomicUsize,
    objects: AtomicUsize,
    servers: AtomicUsize,
}

/// What a wait ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// A moment of the clock.
    Clock,
    /// The answer of another object.
    Object,
    /// The answer of another server.
    Server,
}

impl Waits {
    fn count(&self, wait_for: WaitFor) -> &AtomicUsize {
        match wait_for {
            WaitFor::Clock => &self.clock,
            WaitFor::Object => &self.objects,
            WaitFor::Server => &self.servers,
        }
    }

    /// What keeps a task with these waits busy; `None` if it rests until the clock moves.
    pub(crate) fn unrest(&self) -> Option<&'static str> {
        if self.include(WaitFor::Server) {
            return Some("waits for another server");
        }
        let rests = self.include(WaitFor::Clock) || self.include(WaitFor::Object);
        (!rests).then_some("runs")
    }

    /// True if the task waits for this.
    fn include(&self, wait_for: WaitFor) -> bool {
        self.count(wait_for).load(Ordering::Relaxed) > 0
    }

    /// Polls `poll` and attributes its waits to this task.
    pub(crate) fn observe<R>(waits: Option<&Arc<Self>>, poll: impl FnOnce() -> R) -> R {
        match waits {
            Some(waits) => with_current(Some(Arc::clone(waits)), poll),
            None => poll(),
        }
    }
}

/// A pending wait of the task that polled it last. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Wait {
    waits: Arc<Waits>,
    wait_for: WaitFor,
}

impl Wait {
    /// Notes that the current task waits. Called at each poll, because a future may move from task to task.
    pub(crate) fn note(wait: &mut Option<Self>, wait_for: WaitFor) {
        if wait_for == WaitFor::Clock {
            SLEEPS.set(true);
        }
        CURRENT.with_borrow(|current| {
            let is_noted = match (&*wait, current) {
                (Some(wait), Some(current)) => {
                    wait.wait_for == wait_for && Arc::ptr_eq(&wait.waits, current)
                }
                (None, None) => true,
                _ => false,
            };
            if is_noted {
                return;
            }
            *wait = current.as_ref().map(|waits| {
                waits.count(wait_for).fetch_add(1, Ordering::Relaxed);
                Self {
                    waits: Arc::clone(waits),
                    wait_for,
                }
            });
        });
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.waits
            .count(self.wait_for)
            .fetch_sub(1, Ordering::Relaxed);
    }
}

/// A part of a task that runs beside others, such as one of several requests that a task has in flight. For
/// [`Node::settle`](crate::Node::settle) each such part is a task: one that waits for something outside the node, such
/// as a socket, is waited for, although another part waits for the clock.
pub fn own_waits<F: Future>(part: F) -> OwnWaits<F> {
    OwnWaits {
        part: Box::pin(part),
        waits: Arc::default(),
        wait: None,
    }
}

/// The future of [`own_waits`].
#[derive(Debug)]
pub struct OwnWaits<F> {
    part: Pin<Box<F>>,
    waits: Arc<Waits>,
    /// The wait of the task for this part.
    wait: Option<Wait>,
}

impl<F: Future> Future for OwnWaits<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let part = &mut *self;
        let is_observed = CURRENT.with_borrow(Option::is_some);
        let waits = is_observed.then_some(&part.waits);
        let polled = Waits::observe(waits, || part.part.as_mut().poll(cx));
        match (&polled, part.waits.unrest()) {
            (Poll::Ready(_), _) => part.wait = None,
            (Poll::Pending, None) => Wait::note(&mut part.wait, WaitFor::Clock),
            (Poll::Pending, Some(_)) => Wait::note(&mut part.wait, WaitFor::Server),
        }
        polled
    }
}

/// Polls something whose waits are not those of the current task.
pub(crate) fn unobserved<R>(poll: impl FnOnce() -> R) -> R {
    let sleeps = SLEEPS.get();
    let result = with_current(None, poll);
    SLEEPS.set(sleeps);
    result
}

/// Polls something, and tells whether a sleep continues in it.
pub(crate) fn sleeps<R>(poll: impl FnOnce() -> R) -> (R, bool) {
    let before = SLEEPS.replace(false);
    let result = poll();
    (result, SLEEPS.replace(before))
}

fn with_current<R>(waits: Option<Arc<Waits>>, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<Arc<Waits>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let _restore = Restore(CURRENT.replace(waits));
    f()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_belongs_to_the_task_that_polled_it_last_until_it_is_dropped() {
        let (first, second) = (Arc::new(Waits::default()), Arc::new(Waits::default()));
        let mut wait = None;
        for _ in 0..2 {
            Waits::observe(Some(&first), || Wait::note(&mut wait, WaitFor::Clock));
        }
        assert!(first.include(WaitFor::Clock) && !first.include(WaitFor::Object));
        Waits::observe(Some(&second), || Wait::note(&mut wait, WaitFor::Clock));
        assert!(!first.include(WaitFor::Clock) && second.include(WaitFor::Clock));
        drop(wait);
        assert!(!second.include(WaitFor::Clock));
    }

    #[test]
    fn a_part_that_waits_for_something_unknown_keeps_its_task_busy() {
        let waits = Arc::new(Waits::default());
        let mut sleep = None;
        let mut unknown = own_waits(std::future::pending::<()>());
        let mut cx = Context::from_waker(std::task::Waker::noop());
        Waits::observe(Some(&waits), || {
            Wait::note(&mut sleep, WaitFor::Clock);
            assert_eq!(waits.unrest(), None);
            assert!(Pin::new(&mut unknown).poll(&mut cx).is_pending());
        });
        assert!(waits.unrest().is_some());
        drop(unknown);
        assert_eq!(waits.unrest(), None);
        let clock = crate::clock::TestClock::new();
        let mut naps = own_waits(crate::clock::Clock::sleep_until(
            &clock,
            std::time::Duration::MAX,
        ));
        Waits::observe(Some(&waits), || {
            assert!(Pin::new(&mut naps).poll(&mut cx).is_pending());
        });
        drop(sleep);
        assert_eq!(waits.unrest(), None);
    }

    #[test]
    fn a_time_limit_is_no_wait_of_the_task() {
        let waits = Arc::new(Waits::default());
        let mut wait = None;
        let note = || unobserved(|| Wait::note(&mut wait, WaitFor::Clock));
        let ((), sleeps) = sleeps(|| Waits::observe(Some(&waits), note));
        assert!(!sleeps && !waits.include(WaitFor::Clock) && wait.is_none());
    }
}
