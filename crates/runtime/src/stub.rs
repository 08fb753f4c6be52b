//! Stubs: handles on objects, from wherever one stands.
//!
//! A stub is a name and an address; making one wakes nobody. [`Stub<T>`] dereferences to the struct that
//! `#[durable_object]` generated, whose methods `#[rpc]` generated, so `stub.assign_seat(a, b).await` needs no
//! trait in scope.

use std::{borrow::Cow, fmt, marker::PhantomData, ops::Deref, sync::Arc};

use abide_storage::{ObjectKey, limits::MAX_IDEMPOTENCY_KEY_BYTES};
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::oneshot;

use crate::{
    Call, Encoding, Error, ErrorKind, Event, ObjectClass, ObjectId, Remote, Reply, Request,
    Response, Result, body, creation,
    envelope::{Envelope, Mailbox, Replier},
    limits::MAX_NAME_BYTES,
    namespace::Binding,
    router::RouterHandle,
    rpc,
};

/// A handle on an object of any class.
#[derive(Clone)]
pub struct AnyStub {
    router: RouterHandle,
    binding: Arc<Binding>,
    id: ObjectId,
    name: Option<Arc<str>>,
    idempotency_key: Option<Arc<str>>,
}

impl AnyStub {
    pub(crate) fn new(
        router: RouterHandle,
        binding: Arc<Binding>,
        id: ObjectId,
        name: Option<Arc<str>>,
    ) -> Self {
        Self {
            router,
            binding,
            id,
            name,
            idempotency_key: None,
        }
    }

    /// The object's id.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// The name that the stub was made from, if it was.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Sends an HTTP request to the object. Its URI reaches the object as it is.
    ///
    /// Inside an object the request's body passes the output gate like everything else: what is ready goes with
    /// the request, the rest is sent by a background task of the calling object, each frame once what was
    /// written before it is durable.
    pub fn fetch(&self, request: Request) -> Call<Response> {
        let decode = Reply::into_response;
        let request = match self.router.sender() {
            Ok(None) => Ok(request),
            Ok(Some(caller)) => {
                let (parts, body) = request.into_parts();
                body::gated(&caller, body).map(|body| Request::from_parts(parts, body))
            }
            Err(error) => Err(error),
        };
        match request {
            Ok(request) => self.send(Event::Fetch(Box::new(request)), decode),
            Err(error) => Call::failed(error, decode),
        }
    }

    /// Sends an operator's request to a component of the object, such as its outbox, as [`State::serve_operations`](crate::State::serve_operations)
    /// describes. The error is [`ErrorKind::NotFound`] if the object has no such component.
    pub fn operate(&self, component: impl Into<String>, request: Request) -> Call<Response> {
        let event = Event::Operation {
            component: Some(component.into()),
            request: Box::new(request),
        };
        self.send(event, Reply::into_response)
    }

    /// The names of the object's components that operators can ask, as a JSON array of strings.
    pub fn components(&self) -> Call<Response> {
        let event = Event::Operation {
            component: None,
            request: Box::default(),
        };
        self.send(event, Reply::into_response)
    }

    /// Calls a method by name; `args` is a tuple.
    pub fn call<R: DeserializeOwned>(
        &self,
        method: impl Into<Cow<'static, str>>,
        args: &(impl Serialize + ?Sized),
    ) -> Call<R> {
        let decode: fn(Reply) -> Result<R> =
            |reply| rpc::decode("the result", &reply.into_result()?);
        let args = rpc::encode("the arguments", args);
        self.send_call(method.into(), args, Encoding::Cbor, decode)
    }

    /// Calls a method by name, with the text of a JSON array of arguments; gives the text of the result. A method's
    /// `Result` is `{"Ok":…}` or `{"Err":…}`.
    pub fn call_json(&self, method: impl Into<Cow<'static, str>>, args: Vec<u8>) -> Call<Vec<u8>> {
        let args = rpc::check_size("the arguments", &args).map(|()| args);
        self.send_call(method.into(), args, Encoding::Json, Reply::into_result)
    }

    /// The same stub, whose next call is applied once, however often it is sent: the object remembers the result
    /// under the key, with the method's last writes, and answers with it when the same call comes again. Another call
    /// with the key is refused, so each needs a key of its own, and a repetition needs the same. A key has 1 to 255
    /// bytes; it is forgotten after 24 hours.
    #[must_use = "the key is for calls on the stub that this returns"]
    pub fn with_idempotency_key(&self, key: impl Into<String>) -> Self {
        Self {
            idempotency_key: Some(key.into().into()),
            ..self.clone()
        }
    }

    fn send_call<R>(
        &self,
        method: Cow<'static, str>,
        args: Result<Vec<u8>>,
        encoding: Encoding,
        decode: fn(Reply) -> Result<R>,
    ) -> Call<R> {
        let prepared = args.and_then(|args| {
            let idempotency_key = self
                .idempotency_key
                .as_deref()
                .map(checked_key)
                .transpose()?;
            Ok(Event::Rpc {
                method,
                args,
                encoding,
                idempotency_key,
            })
        });
        match prepared {
            Ok(event) => self.send(event, decode),
            Err(error) => Call::failed(error, decode),
        }
    }

    /// The id, if it is one of the namespace. A name that may be one proves it; a bare id may come from anywhere.
    pub(crate) fn checked_id(&self) -> Result<ObjectId> {
        self.name.as_deref().map_or(Ok(()), check_name)?;
        if self.name.is_none() && !self.binding.ids.owns(&self.id) {
            return Err(Error::with_kind(
                ErrorKind::Input,
                format!(
                    "object id {} is not of namespace `{}`",
                    self.id, self.binding.name
                ),
            ));
        }
        Ok(self.id)
    }

    /// The place of its class among the node's.
    pub(crate) fn binding_index(&self) -> usize {
        self.binding.index
    }

    /// The stub of the object of the same class with this name.
    pub(crate) fn sibling(&self, name: &str) -> Self {
        Self {
            router: self.router.clone(),
            binding: Arc::clone(&self.binding),
            id: self.binding.ids.named(name),
            name: Some(name.into()),
            idempotency_key: None,
        }
    }

    pub(crate) fn key(&self) -> ObjectKey {
        self.binding.key(self.id)
    }

    pub(crate) fn worker(&self) -> &Arc<Mailbox> {
        self.router.worker_of(&self.id)
    }

    fn send<R>(&self, event: Event, decode: fn(Reply) -> Result<R>) -> Call<R> {
        let sender = self.checked_id().and_then(|_| self.router.sender());
        let sender = match sender {
            Ok(sender) => sender,
            Err(error) => return Call::failed(error, decode),
        };
        let worker = self.worker();
        let (answer, receiver) = oneshot::channel();
        let link = sender.as_ref().and_then(|caller| caller.link());
        let weight = event.weight();
        let envelope = Envelope {
            binding: self.binding.index,
            id: self.id,
            name: self.name.clone(),
            event,
            replier: Replier::new(answer, worker, weight),
            chain: link.clone(),
            creator: creation::of_sender(sender.as_deref()),
            from_outside: sender.is_none(),
        };
        match self.router.send(sender, worker, envelope) {
            Ok(()) => Call::waiting(receiver, decode, link),
            Err(error) => Call::failed(error, decode),
        }
    }
}

/// Refuses what is no name of an object.
fn check_name(name: &str) -> Result<()> {
    let (kind, why) = match name.len() {
        0 => (
            ErrorKind::Input,
            "an object's name is not empty: give it one".to_owned(),
        ),
        1..=MAX_NAME_BYTES => return Ok(()),
        bytes => (
            ErrorKind::Limit,
            format!("the object's name has {bytes} bytes; {MAX_NAME_BYTES} is the most"),
        ),
    };
    Err(Error::with_kind(kind, why))
}

fn checked_key(key: &str) -> Result<String> {
    if (1..=MAX_IDEMPOTENCY_KEY_BYTES).contains(&key.len()) {
        return Ok(key.to_owned());
    }
    Err(Error::with_kind(
        ErrorKind::Input,
        format!(
            "an idempotency key has 1 to {MAX_IDEMPOTENCY_KEY_BYTES} bytes, not {}",
            key.len()
        ),
    ))
}

impl fmt::Debug for AnyStub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stub")
            .field("binding", &self.binding.name)
            .field("id", &self.id)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A handle on an object of class `T`.
pub struct Stub<T: ObjectClass> {
    remote: T::Remote,
    class: PhantomData<fn() -> T>,
}

impl<T: ObjectClass> Stub<T> {
    pub(crate) fn new(stub: AnyStub) -> Self {
        Self {
            remote: T::Remote::wrap(stub),
            class: PhantomData,
        }
    }

    /// The object's id.
    pub fn id(&self) -> ObjectId {
        self.remote.stub().id()
    }

    /// The name that the stub was made from, if it was.
    pub fn name(&self) -> Option<&str> {
        self.remote.stub().name()
    }

    /// Sends an HTTP request to the object, as [`AnyStub::fetch`] does.
    pub fn fetch(&self, request: Request) -> Call<Response> {
        self.remote.stub().fetch(request)
    }

    /// The same stub, whose next call is applied once, as [`AnyStub::with_idempotency_key`] says.
    #[must_use = "the key is for calls on the stub that this returns"]
    pub fn with_idempotency_key(&self, key: impl Into<String>) -> Self {
        Self::new(self.remote.stub().with_idempotency_key(key))
    }

    /// The same stub without its type.
    pub fn untyped(&self) -> &AnyStub {
        self.remote.stub()
    }
}

impl<T: ObjectClass> Deref for Stub<T> {
    type Target = T::Remote;

    fn deref(&self) -> &T::Remote {
        &self.remote
    }
}

impl<T: ObjectClass> Clone for Stub<T> {
    fn clone(&self) -> Self {
        Self {
            remote: self.remote.clone(),
            class: PhantomData,
        }
    }
}

impl<T: ObjectClass> fmt::Debug for Stub<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.untyped().fmt(f)
    }
}
