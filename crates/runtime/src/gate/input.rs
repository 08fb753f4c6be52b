//! The input gate: which of an object's tasks may run.
//!
//! Storage is synchronous, so most of the time the gate has nothing to do. `block_concurrency_while` closes it: from
//! then on only the task that holds it is polled. All others park in arrival order, and arriving events wait in the
//! object's queue.
//!
//! A task that holds the gate may close it again: the inner task then goes first (the holders are a stack). If two
//! tasks need the gate and neither was created by the holder, they hold it in turn.
//!
//! This type only decides: [`open`](InputGate::open) returns the wakers for the caller to wake.

use std::{collections::VecDeque, task::Waker};

/// A task of an object. Numbers increase, so they also order tasks by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Token(pub(crate) u64);

#[derive(Debug, Default)]
pub(crate) struct InputGate {
    holders: Vec<Token>,
    next: VecDeque<Token>,
    parked: VecDeque<(Token, Waker)>,
}

impl InputGate {
    pub(crate) fn is_open(&self) -> bool {
        self.holders.is_empty()
    }

    pub(crate) fn may_run(&self, token: Token) -> bool {
        self.holders.last().is_none_or(|holder| *holder == token)
    }

    /// Returns whether the gate is closed for this task.
    pub(crate) fn is_held_by(&self, token: Token) -> bool {
        self.holders.contains(&token)
    }

    /// Closes the gate for all but `token`, a task created by task `by`.
    pub(crate) fn close(&mut self, token: Token, by: Token) {
        if self.holders.last().is_none_or(|holder| *holder == by) {
            self.holders.push(token);
        } else {
            self.next.push_back(token);
        }
    }

    /// Task `token` no longer needs the gate. Returns the wakers, in order.
    pub(crate) fn open(&mut self, token: Token) -> Vec<Waker> {
        self.holders.retain(|holder| *holder != token);
        self.next.retain(|waiting| *waiting != token);
        if self.holders.is_empty() {
            self.holders.extend(self.next.pop_front());
        }
        match self.holders.last() {
            None => self.parked.drain(..).map(|(_, waker)| waker).collect(),
            Some(holder) => match self.parked.iter().position(|(parked, _)| parked == holder) {
                Some(at) => self
                    .parked
                    .remove(at)
                    .map(|(_, waker)| waker)
                    .into_iter()
                    .collect(),
                None => Vec::new(),
            },
        }
    }

    /// Records a task that was woken while it may not run.
    pub(crate) fn park(&mut self, token: Token, waker: &Waker) {
        match self.parked.iter_mut().find(|(parked, _)| *parked == token) {
            Some((_, known)) => known.clone_from(waker),
            None => self.parked.push_back((token, waker.clone())),
        }
    }

    /// Forgets all tasks: the object is gone.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Mutex},
        task::Wake,
    };

    use super::*;

    const A: Token = Token(1);
    const B: Token = Token(2);
    const C: Token = Token(3);
    const D: Token = Token(4);

    struct Note(Token, Arc<Mutex<Vec<Token>>>);

    impl Wake for Note {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }

    fn wake(wakers: Vec<Waker>, log: &Arc<Mutex<Vec<Token>>>) -> Vec<Token> {
        wakers.into_iter().for_each(Waker::wake);
        std::mem::take(&mut log.lock().unwrap())
    }

    #[test]
    fn an_open_gate_lets_all_tasks_run() {
        let gate = InputGate::default();
        assert!(gate.is_open() && gate.may_run(A) && gate.may_run(B));
    }

    #[test]
    fn a_closed_gate_lets_only_its_holder_run_and_wakes_the_others_in_order() {
        let log = Arc::default();
        let waker = |token| Waker::from(Arc::new(Note(token, Arc::clone(&log))));
        let mut gate = InputGate::default();
        gate.close(B, A);
        assert!(!gate.is_open() && gate.may_run(B) && !gate.may_run(A));
        gate.park(C, &waker(C));
        gate.park(A, &waker(A));
        gate.park(C, &waker(C));
        assert_eq!(wake(gate.open(B), &log), [C, A]);
        assert!(gate.is_open());
    }

    #[test]
    fn a_holder_may_close_the_gate_again_and_resumes_after_the_inner_task() {
        let log = Arc::default();
        let mut gate = InputGate::default();
        gate.close(B, A);
        gate.close(C, B);
        assert!(gate.may_run(C) && !gate.may_run(B));
        gate.park(A, &Waker::from(Arc::new(Note(A, Arc::clone(&log)))));
        gate.park(B, &Waker::from(Arc::new(Note(B, Arc::clone(&log)))));
        assert_eq!(wake(gate.open(C), &log), [B]);
        assert!(gate.may_run(B) && !gate.may_run(A));
        assert_eq!(wake(gate.open(B), &log), [A]);
    }

    #[test]
    fn two_tasks_closing_the_gate_from_one_poll_hold_it_one_after_the_other() {
        let mut gate = InputGate::default();
        gate.close(B, A);
        gate.close(C, A);
        assert!(gate.may_run(B) && !gate.may_run(C));
        assert!(gate.open(B).is_empty());
        assert!(gate.may_run(C) && !gate.may_run(D));
        gate.open(C);
        assert!(gate.is_open());
    }
}
