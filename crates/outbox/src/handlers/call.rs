//! Kind `call`: a call of another object of this node.
//!
//! Contract: the receiver remembers the idempotency key with the call's last writes, so a repeated call is answered and
//! not applied: exactly once, for a method that makes its writes without an `await` between them. It forgets keys after
//! 24 hours, and beyond 100,000 keys, or 64 MiB of keys and results, the oldest earlier. So a call whose response was
//! lost is retried for [`limits::MAX_CALL_AGE`] and then becomes a dead letter that says so. An object that accepts
//! more keyed calls than that, or larger results, between a lost response and the next attempt can apply the call
//! again; methods that outboxes call should return little.

use abide::{Error, ErrorKind, JsonResult};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{json, limits};
use crate::{Deliver, Delivery, Failure, Submitted};

/// A call as a message.
///
/// ```
/// use abide::{outbox::handlers::{CallDelivery, ObjectCall}, outbox::{Deliver, Outbox, OutboxError, Registry}};
///
/// let registry = Registry::new().with(CallDelivery);
///
/// fn pay(outbox: &Outbox) -> Result<(), OutboxError> {
///     let call = ObjectCall::new("Account", "ada", "deposit", &(100,))?;
///     CallDelivery::enqueue(outbox, &call)?;
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectCall {
    /// The binding of the object's class.
    pub binding: String,
    /// The object's name.
    pub name: String,
    /// The method.
    pub method: String,
    /// A JSON array of its arguments.
    pub args: Box<RawValue>,
}

impl ObjectCall {
    /// A call; `args` is a tuple.
    pub fn new(
        binding: impl Into<String>,
        name: impl Into<String>,
        method: impl Into<String>,
        args: &(impl Serialize + ?Sized),
    ) -> abide::Result<Self> {
        Ok(Self {
            binding: binding.into(),
            name: name.into(),
            method: method.into(),
            args: json(args)?,
        })
    }
}

/// Makes [`ObjectCall`]s. A method's `Err` makes a dead letter, unless it is temporary: an [`abide::Error`] of a kind
/// that is [retryable](Error::retryable), or a value with a field `retryable` that is true. Such a call is retried with
/// another key, because the receiver remembers the `Err` under the first. A method that returns one must have changed
/// nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallDelivery;

impl Deliver for CallDelivery {
    type Payload = ObjectCall;

    const KIND: &'static str = "call";

    fn check(&self, call: &ObjectCall) -> Result<(), String> {
        for (what, text) in [("binding", &call.binding), ("method", &call.method)] {
            if text.is_empty() {
                return Err(format!("the call has no {what}"));
            }
        }
        if !call.args.get().starts_with('[') {
            return Err("the arguments are not a JSON array".to_owned());
        }
        Ok(())
    }

    /// The object: a stuck one delays no other.
    fn destination(&self, call: &ObjectCall) -> String {
        let object = format!("{}/{}", call.binding, call.name);
        abide_component::texts::cut(object, crate::limits::MAX_DESTINATION_BYTES)
    }

    fn summary(&self, call: &ObjectCall) -> String {
        format!("{}/{}.{}", call.binding, call.name, call.method)
    }

    async fn submit(&self, delivery: &Delivery, call: &ObjectCall) -> Result<Submitted, Failure> {
        let age = delivery.now().saturating_sub(delivery.first_attempt_at());
        if delivery.unknown() && age > abide_component::numbers::millis(limits::MAX_CALL_AGE) {
            return Err(Failure::permanent(
                "the answer was lost, and the object no longer remembers whether it has applied the call: look at the \
                 object, then discard this, or edit it, which sends it as another call",
            ));
        }
        let namespace = delivery.env().any_namespace(&call.binding);
        let result = namespace
            .map_err(|error| failure(&error))?
            .get_by_name(&call.name)
            .with_idempotency_key(delivery.idempotency_key())
            .call_json(call.method.clone(), call.args.get().into())
            .await;
        match result {
            Ok(result) => match JsonResult::read(&result) {
                Some(JsonResult::Err(error)) => Err(said_no(error)),
                _ => Ok(Submitted::Done),
            },
            // Its result is not needed here.
            Err(error) if error.kind() == ErrorKind::NoResult && !error.remote() => {
                Ok(Submitted::Done)
            }
            Err(error) => Err(failure(&error)),
        }
    }
}

/// The `Err` of a method's `Result`.
fn said_no(error: &RawValue) -> Failure {
    #[derive(Deserialize)]
    struct Said<'a> {
        #[serde(default)]
        retryable: bool,
        #[serde(borrow)]
        kind: Option<&'a RawValue>,
    }
    let text = format!("the method returned an error: {}", told(error));
    match serde_json::from_str(error.get()) {
        Ok(Said {
            retryable: true,
            kind: Some(kind),
        }) if kind.get() == "\"Overloaded\"" => Failure::throttled(text, None).remembered(),
        Ok(Said {
            retryable: true, ..
        }) => Failure::refused(text).remembered(),
        _ => Failure::permanent(text),
    }
}

/// The same, as a text for people.
fn told(error: &RawValue) -> String {
    let known: Option<Error> = serde_json::from_str(error.get()).ok();
    known.map_or_else(|| error.get().to_owned(), |error| error.to_string())
}

/// The failure that an error of a call means.
fn failure(error: &Error) -> Failure {
    let text = error.message();
    if error.remote() {
        // The object itself says so; a later attempt may succeed.
        return if Error::with_kind(error.kind(), "").retryable() {
            Failure::refused(text).remembered()
        } else {
            Failure::permanent(text)
        };
    }
    match error.kind() {
        // The object is overloaded: others may not be.
        ErrorKind::Overloaded => Failure::throttled(text, None),
        // An earlier attempt is still running; its result answers the next one.
        ErrorKind::InProgress => Failure::temporary(text),
        ErrorKind::NotFound
        | ErrorKind::Decode
        | ErrorKind::Input
        | ErrorKind::Limit
        | ErrorKind::KeyReused
        | ErrorKind::Damaged => Failure::permanent(text),
        _ if error.retryable() || error.kind() == ErrorKind::Deadlock => Failure::refused(text),
        _ => Failure::temporary(text),
    }
}
