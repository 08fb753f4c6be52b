//! Calls with an idempotency key: applied once, however often they are sent.
//!
//! The result is remembered in the object's own database, by the poll in which the method ends and therefore in the
//! transaction of its last writes: a crash leaves both or neither. A method that writes, waits and writes again starts
//! over if the object was reset in between; its writes before the wait were already committed.

use std::{cell::Cell, future::poll_fn, rc::Rc};

use abide_storage::{KeyedCall, ObjectDb, Remembered};
use sha2::{Digest, Sha256};

use super::{Confirmation, Object};
use crate::{Encoding, Error, ErrorKind, Event, Instance, LocalFuture, Reply, Result};

impl Object {
    /// Passes an event to the instance, unless it is for a component or repeats an earlier call.
    pub(super) fn deliver(
        self: &Rc<Self>,
        instance: &dyn Instance,
        event: Event,
    ) -> LocalFuture<Result<Reply>> {
        let event = match event {
            Event::Operation { component, request } => {
                return self.operate(component.as_deref(), *request);
            }
            Event::Activation(how) => {
                let was_dormant = self.is_dormant();
                let activated = self.activate(how).map(|()| Reply::Done);
                // A refusal is not the class's.
                let activated = if was_dormant {
                    activated
                } else {
                    activated.map_err(Error::of_call)
                };
                return Box::pin(std::future::ready(activated));
            }
            Event::Create => {
                let created = self.write(Confirmation::Confirmed, ObjectDb::store_constructed);
                return Box::pin(std::future::ready(created.map(|()| Reply::Done)));
            }
            // It was told before this event began.
            Event::Timeline(_) => return Box::pin(std::future::ready(Ok(Reply::Done))),
            Event::Alarm(info) => match self.handle_alarm() {
                Some(handled) => return handled,
                None => Event::Alarm(info),
            },
            event => event,
        };
        let Event::Rpc {
            method,
            args,
            encoding,
            idempotency_key: Some(key),
        } = &event
        else {
            return instance.deliver(event);
        };
        let call = Call {
            object: Rc::clone(self),
            key: key.clone(),
            method: method.clone().into_owned(),
            fingerprint: fingerprint(method, args, *encoding),
        };
        match call.enter() {
            Ok(None) => {}
            Ok(Some(reply)) => return Box::pin(std::future::ready(Ok(reply))),
            Err(error) => return Box::pin(std::future::ready(Err(error.of_call()))),
        }
        let call = RunningCall(call);
        let mut delivered = instance.deliver(event);
        Box::pin(async move {
            let forget = Rc::new(Cell::new(false));
            let result = poll_fn(|cx| {
                // Polls of an object's tasks do not nest.
                let polled = &call.0.object.keyed_poll;
                polled.replace(Some(Rc::clone(&forget)));
                let result = delivered.as_mut().poll(cx);
                polled.replace(None);
                result
            })
            .await;
            if !forget.get() {
                call.0.leave(&result);
            }
            result
        })
    }

    /// Prevents the call of the current poll from being remembered, if it has a key.
    pub(crate) fn forget_call(&self) {
        if let Some(forget) = &*self.keyed_poll.borrow() {
            forget.set(true);
        }
    }
}

struct Call {
    object: Rc<Object>,
    key: String,
    method: String,
    fingerprint: [u8; 32],
}

impl Call {
    /// Marks the call as running, or returns the answer of the same call made earlier.
    fn enter(&self) -> Result<Option<Reply>> {
        if let Some(running) = self.object.keyed.borrow().get(&self.key) {
            return Err(if *running == self.fingerprint {
                Error::with_kind(
                    ErrorKind::InProgress,
                    "a call with this idempotency key is still running: retry later to get its result",
                )
            } else {
                reused()
            });
        }
        let now = self.object.worker.router.clock.unix_millis();
        match self.object.read(|db| db.remembered(&self.key, now))? {
            None => {
                let mut running = self.object.keyed.borrow_mut();
                running.insert(self.key.clone(), self.fingerprint);
                Ok(None)
            }
            Some(Remembered { fingerprint, .. }) if fingerprint != self.fingerprint => {
                Err(reused())
            }
            Some(Remembered {
                result: Some(result),
                ..
            }) => Ok(Some(Reply::Rpc(result))),
            Some(_) => Err(Error::with_kind(
                ErrorKind::NoResult,
                "the call with this idempotency key was applied, but its result was too large to keep or \
                 could not be sent: read its effects",
            )),
        }
    }

    /// Remembers how the call ended. If that fails, the turn fails: its writes must not be kept without it.
    fn leave(&self, result: &Result<Reply>) {
        let kept = match result {
            Ok(Reply::Rpc(result)) => Some(result.as_slice()),
            // It did not reach the method.
            Err(error) if matches!(error.kind(), ErrorKind::Decode | ErrorKind::NotFound) => return,
            _ => None,
        };
        let now = self.object.worker.router.clock.unix_millis();
        let call = KeyedCall {
            key: &self.key,
            method: &self.method,
            fingerprint: &self.fingerprint,
        };
        let remembered = self
            .object
            .write(Confirmation::Confirmed, |db| db.remember(call, kept, now));
        if let Err(error) = remembered {
            self.object.reset_after_turn(error);
        }
    }
}

/// A running call, until this is dropped.
struct RunningCall(Call);

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.object.keyed.borrow_mut().remove(&self.0.key);
    }
}

fn reused() -> Error {
    Error::with_kind(
        ErrorKind::KeyReused,
        "this idempotency key belongs to another call: a new call needs a new key",
    )
}

fn fingerprint(method: &str, args: &[u8], encoding: Encoding) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update((method.len() as u64).to_le_bytes());
    hash.update(method);
    hash.update([encoding as u8]);
    hash.update(args);
    hash.finalize().into()
}
