//! The environment: gives code outside and inside of objects access to other objects and shared values.

use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    fmt,
    rc::Rc,
    sync::Arc,
};

use crate::{
    AnyNamespace, AnyStub, Call, Class, Ctx, Error, ErrorKind, Instance, Namespace, ObjectClass,
    ObjectId, Request, Response, Result, Timestamp,
    binding::Binding,
    clock::Clock,
    fetch,
    handle::RouterHandle,
    holder::Holder,
    object::Object,
    random::Randomness,
    router::{Phase, Router},
};

/// The typed values that a program shares with its objects.
pub(crate) type Values = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

/// The bindings of a node and the program's shared values. Clones are cheap and share the same environment.
///
/// An environment given to an object, and the namespaces and stubs created from it, call other objects only inside
/// handlers. In a task or thread started by a handler the call fails, because no output gate would hold it.
#[derive(Clone)]
pub struct Env {
    inner: Arc<Inner>,
    holder: Holder,
}

struct Inner {
    router: Arc<Router>,
    bindings: Arc<[Arc<Binding>]>,
    /// The class of each binding.
    classes: Box<[Arc<dyn Class>]>,
    values: Values,
}

impl Env {
    pub(crate) fn new(
        router: Arc<Router>,
        bindings: Arc<[Arc<Binding>]>,
        classes: Box<[Arc<dyn Class>]>,
        values: Values,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                router,
                bindings,
                classes,
                values,
            }),
            holder: Holder::Program,
        }
    }

    /// The same environment, for objects.
    pub(crate) fn for_objects(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            holder: Holder::Object,
        }
    }

    /// Creates the instance of an object. This is the environment for objects.
    pub(crate) fn instantiate(&self, object: &Rc<Object>) -> Result<Box<dyn Instance>> {
        let ctx = Ctx::new(Rc::clone(object), self.clone());
        self.inner.classes[object.binding.index].instantiate(ctx, self.clone())
    }

    /// All bindings.
    pub(crate) fn bindings(&self) -> &[Arc<Binding>] {
        &self.inner.bindings
    }

    /// The namespace of a class that is registered once.
    ///
    /// # Panics
    /// If the class is not registered, or is registered under several bindings; [`try_object`](Self::try_object) returns an
    /// error instead.
    #[track_caller]
    pub fn object<T: ObjectClass>(&self) -> Namespace<T> {
        match self.try_object() {
            Ok(objects) => objects,
            Err(error) => panic!("{}", error.message()),
        }
    }

    /// The namespace of a class that is registered once.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the class is not registered; [`ErrorKind::Input`] if it is registered under several
    /// bindings: use [`namespace`](Self::namespace) to select one.
    pub fn try_object<T: ObjectClass>(&self) -> Result<Namespace<T>> {
        let mut bindings = self.of_class::<T>();
        let (kind, why) = match (bindings.next(), bindings.next()) {
            (Some(binding), None) => return Ok(self.wrap(binding)),
            (None, _) => (
                ErrorKind::NotFound,
                format!(
                    "{} is not registered: add `.object::<{0}>()` to the host; it has {}",
                    T::NAME,
                    self.known()
                ),
            ),
            (Some(first), Some(second)) => (
                ErrorKind::Input,
                format!(
                    "{} is registered as `{}` and as `{}`: select one with `env.namespace::<{0}>(\"{1}\")`",
                    T::NAME,
                    first.name,
                    second.name
                ),
            ),
        };
        Err(Error::with_kind(kind, why))
    }

    /// The namespace of a class under a binding.
    pub fn namespace<T: ObjectClass>(&self, binding: &str) -> Result<Namespace<T>> {
        let found = self.find(binding)?;
        if found.native != Some(TypeId::of::<T>()) {
            return Err(Error::with_kind(
                ErrorKind::NotFound,
                format!(
                    "binding `{binding}` is of class {}, not {}",
                    found.class_name.as_str(),
                    T::NAME
                ),
            ));
        }
        Ok(self.wrap(found))
    }

    /// The namespace under a binding, whatever its class.
    pub fn any_namespace(&self, binding: &str) -> Result<AnyNamespace> {
        let found = self.find(binding)?;
        Ok(self.wrap_any(found))
    }

    /// The object with this id, whatever its class: an id belongs to one.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if it is of no class of this node.
    pub fn any_object(&self, id: ObjectId) -> Result<AnyStub> {
        let owner = self.inner.bindings.iter().find(|known| known.ids.owns(&id));
        let owner = owner.ok_or_else(|| {
            Error::with_kind(
                ErrorKind::NotFound,
                format!(
                    "object id {id} belongs to no class of this node; it has {}",
                    self.known()
                ),
            )
        })?;
        Ok(self.wrap_any(owner).get(id))
    }

    /// All namespaces, in the order in which they were registered.
    pub fn namespaces(&self) -> Vec<AnyNamespace> {
        let bindings = self.inner.bindings.iter();
        bindings.map(|binding| self.wrap_any(binding)).collect()
    }

    /// A value that the program registered with the builder's `with`.
    pub fn get<C: Send + Sync + 'static>(&self) -> Option<Arc<C>> {
        let value = self.inner.values.get(&TypeId::of::<C>())?;
        Arc::clone(value).downcast().ok()
    }

    /// The value that [`get`](Self::get) returns, or an error that names the missing type.
    pub fn require<C: Send + Sync + 'static>(&self) -> Result<Arc<C>> {
        self.get().ok_or_else(|| {
            let name = type_name::<C>();
            Error::with_kind(
                ErrorKind::NotFound,
                format!("the environment has no {name}: add it with `.with(…)`"),
            )
        })
    }

    /// Sends an HTTP request to another server; its URI is a complete URL. The response's body is streamed from the
    /// network.
    ///
    /// Inside an object the request leaves through the output gate, once the object's earlier writes are durable; so
    /// does each part of a body that is not ready immediately. It is sent whether or not the returned future is
    /// awaited. A program that must know that a request arrived keeps it in storage until then, and retries it.
    pub fn fetch(&self, request: Request) -> Call<Response> {
        fetch::fetch(&RouterHandle::new(&self.inner.router, self.holder), request)
    }

    /// The time of the node's clock, which a test can move.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_unix_millis(self.clock().unix_millis().cast_signed())
    }

    /// The node's clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.router.clock
    }

    /// Fills the buffer with random bytes that cannot be predicted, such as those of a session's id. In a simulation
    /// they follow from its seed.
    pub fn fill_random(&self, buffer: &mut [u8]) {
        self.randomness().fill(buffer);
    }

    /// Returns whether the node is stopping: running handlers may finish, and work that can wait for the next start
    /// should not begin.
    pub fn is_stopping(&self) -> bool {
        self.inner.router.phase() != Phase::Running
    }

    pub(crate) fn router(&self) -> &Arc<Router> {
        &self.inner.router
    }

    /// The node's randomness.
    pub(crate) fn randomness(&self) -> &dyn Randomness {
        &*self.inner.router.randomness
    }

    fn of_class<T: ObjectClass>(&self) -> impl Iterator<Item = &Arc<Binding>> {
        self.inner
            .bindings
            .iter()
            .filter(|binding| binding.native == Some(TypeId::of::<T>()))
    }

    fn find(&self, binding: &str) -> Result<&Arc<Binding>> {
        self.inner
            .bindings
            .iter()
            .find(|known| known.name == binding)
            .ok_or_else(|| {
                Error::with_kind(
                    ErrorKind::NotFound,
                    format!(
                        "there is no binding `{binding}`; this node has {}",
                        self.known()
                    ),
                )
            })
    }

    fn known(&self) -> String {
        if self.inner.bindings.is_empty() {
            return "none".to_owned();
        }
        self.inner
            .bindings
            .iter()
            .map(|known| format!("`{}`", known.name))
            .collect::<Vec<_>>()
            .join(", ")
    }

    fn wrap<T: ObjectClass>(&self, binding: &Arc<Binding>) -> Namespace<T> {
        Namespace::new(self.wrap_any(binding))
    }

    fn wrap_any(&self, binding: &Arc<Binding>) -> AnyNamespace {
        let router = RouterHandle::new(&self.inner.router, self.holder);
        AnyNamespace::new(router, Arc::clone(binding))
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env")
            .field("bindings", &self.known())
            .finish_non_exhaustive()
    }
}
