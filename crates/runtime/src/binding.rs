//! Bindings: a class and its options, under a name.

use std::any::TypeId;

use abide_storage::{NamespaceNo, ObjectKey};

use crate::{ClassOptions, ObjectId, id::IdKey};

/// A node's data about one binding.
pub(crate) struct Binding {
    /// Position in the node's list of bindings.
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) unique_key: String,
    pub(crate) no: NamespaceNo,
    pub(crate) ids: IdKey,
    pub(crate) class_name: String,
    /// The Rust type, if the class is one.
    pub(crate) native: Option<TypeId>,
    pub(crate) options: ClassOptions,
}

impl Binding {
    pub(crate) fn key(&self, id: ObjectId) -> ObjectKey {
        ObjectKey {
            namespace: self.no,
            id: *id.as_bytes(),
        }
    }
}
