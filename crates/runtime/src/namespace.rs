//! Namespaces: all objects of one class under one binding.

use std::{fmt, marker::PhantomData, sync::Arc};

use abide_storage::NamespaceNo;

use crate::{
    AnyStub, Error, ErrorKind, ObjectClass, ObjectId, Result, Stub, binding::Binding,
    handle::RouterHandle,
};

/// The objects under one binding, whatever their class.
#[derive(Clone)]
pub struct AnyNamespace {
    pub(crate) router: RouterHandle,
    binding: Arc<Binding>,
}

impl AnyNamespace {
    pub(crate) fn new(router: RouterHandle, binding: Arc<Binding>) -> Self {
        Self { router, binding }
    }

    /// The binding's name.
    pub fn binding(&self) -> &str {
        &self.binding.name
    }

    /// The class's name.
    pub fn class(&self) -> &str {
        self.binding.class_name.as_str()
    }

    /// The key that ids are derived from.
    pub fn unique_key(&self) -> &str {
        &self.binding.unique_key
    }

    /// The number of this namespace in the store.
    pub fn number(&self) -> NamespaceNo {
        self.binding.no
    }

    /// The id of the object with this name: always the same.
    pub fn id_from_name(&self, name: &str) -> ObjectId {
        self.binding.ids.named(name)
    }

    /// A new unique id.
    pub fn unique_id(&self) -> ObjectId {
        self.binding.ids.unique(&*self.router.randomness)
    }

    /// Parses an id's 64 hex digits. Rejects other text, and ids of another namespace.
    pub fn parse_id(&self, text: &str) -> Result<ObjectId> {
        let id: ObjectId = text.parse()?;
        self.check(&id)?;
        Ok(id)
    }

    /// The stub of the object with this id. A foreign id fails when the stub is called.
    pub fn get(&self, id: ObjectId) -> AnyStub {
        AnyStub::new(self.router.clone(), Arc::clone(&self.binding), id, None)
    }

    /// The stub of the object with this name.
    pub fn get_by_name(&self, name: &str) -> AnyStub {
        let id = self.id_from_name(name);
        AnyStub::new(
            self.router.clone(),
            Arc::clone(&self.binding),
            id,
            Some(name.into()),
        )
    }

    fn check(&self, id: &ObjectId) -> Result<()> {
        if self.binding.ids.owns(id) {
            return Ok(());
        }
        Err(Error::with_kind(
            ErrorKind::Input,
            format!(
                "object id {id} does not belong to namespace `{}`: use the namespace (unique key) that created it",
                self.binding.name
            ),
        ))
    }
}

impl fmt::Debug for AnyNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Namespace")
            .field("binding", &self.binding())
            .field("class", &self.class())
            .finish()
    }
}

/// The objects of a Rust class under one binding.
pub struct Namespace<T> {
    any: AnyNamespace,
    class: PhantomData<fn() -> T>,
}

impl<T: ObjectClass> Namespace<T> {
    pub(crate) fn new(any: AnyNamespace) -> Self {
        Self {
            any,
            class: PhantomData,
        }
    }

    /// The binding's name.
    pub fn binding(&self) -> &str {
        self.any.binding()
    }

    /// The id of the object with this name: always the same.
    pub fn id_from_name(&self, name: &str) -> ObjectId {
        self.any.id_from_name(name)
    }

    /// A new unique id.
    pub fn unique_id(&self) -> ObjectId {
        self.any.unique_id()
    }

    /// Parses an id's 64 hex digits. Rejects other text, and ids of another namespace.
    pub fn parse_id(&self, text: &str) -> Result<ObjectId> {
        self.any.parse_id(text)
    }

    /// The stub of the object with this id. A foreign id fails when the stub is called.
    pub fn get(&self, id: ObjectId) -> Stub<T> {
        Stub::new(self.any.get(id))
    }

    /// The stub of the object with this name.
    pub fn get_by_name(&self, name: &str) -> Stub<T> {
        Stub::new(self.any.get_by_name(name))
    }

    /// The same namespace without its type.
    pub fn untyped(&self) -> &AnyNamespace {
        &self.any
    }
}

impl<T> Clone for Namespace<T> {
    fn clone(&self) -> Self {
        Self {
            any: self.any.clone(),
            class: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Namespace<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.any.fmt(f)
    }
}
