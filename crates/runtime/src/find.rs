//! Finds an object by `Class/name`, `Class/id`, or an id. An id can be abbreviated to its first digits if they are
//! unique. If only one class has an object with a name, the name is enough.
//!
//! An id is derived from the class and the name, so no object is opened.

use std::{fmt, str::FromStr};

use abide_storage::{NamespaceNo, ObjectKey, Store};

use crate::{
    AnyStub, Error, ErrorKind, Node, ObjectId, Result, blocking::on_a_thread, limits::MIN_ID_PREFIX,
};

/// Objects listed in the error for an ambiguous text.
const LISTED: usize = 4;

/// An object of a data directory, found by the text that a person typed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundObject {
    /// The unique key of its class's namespace: by default the class name.
    pub class: String,
    /// Its name, if it was found by name.
    pub name: Option<String>,
    /// The key under which the store keeps it.
    pub key: ObjectKey,
    /// False if it has deleted everything, and only its history is left. Such an object is found by its whole name or id.
    pub is_stored: bool,
}

impl FoundObject {
    /// The object of a class with this name or id, whether or not anything is stored of it.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]: there is no such class, and the message names those that there are. [`ErrorKind::Input`]: the id
    /// is of another class, or the name is empty.
    pub fn in_class(store: &Store, class: &str, object: &str) -> Result<Self> {
        let mut classes = store.namespaces();
        let Some(at) = classes.iter().position(|(_, known)| known == class) else {
            return Err(Error::with_kind(
                ErrorKind::NotFound,
                format!(
                    "there is no class {class:?}; the classes are {}",
                    names(&classes)
                ),
            ));
        };
        let found = candidates(&[classes.swap_remove(at)], object).next();
        let found = found.filter(|found| !object.is_empty() && found.id().belongs_to(class));
        found.ok_or_else(|| {
            Error::with_kind(
                ErrorKind::Input,
                format!("{object:?} is neither a name nor an id of an object of class {class}"),
            )
        })
    }

    /// Finds the one matching object. Reads directories; for the first digits of an id it reads all of a class: not for
    /// a thread that runs objects.
    ///
    /// [`ErrorKind::NotFound`]: there is no such class or object. [`ErrorKind::Input`]: several objects match, and the
    /// message names some.
    pub fn find(store: &Store, text: &str) -> Result<Self> {
        let all = store.namespaces();
        let class = text.split_once('/').and_then(|(class, object)| {
            let known = all.iter().find(|(_, known)| known == class);
            Some((vec![known?.clone()], object))
        });
        // A name may contain a slash, too.
        let (classes, object) = class.unwrap_or_else(|| (all.clone(), text));
        let mut found = named(store, &classes, object)?;
        let is_prefix = object.len() >= MIN_ID_PREFIX
            && object.len() < 64
            && object.bytes().all(|digit| digit.is_ascii_hexdigit());
        if found.is_empty() && is_prefix {
            found = beginning(store, &classes, &object.to_ascii_lowercase())?;
        }
        if found.is_empty() {
            found = past(store, &classes, object);
        }
        match found.len() {
            0 => Err(missing(text, &all)),
            1 => Ok(found.remove(0)),
            several => {
                let mut listed: Vec<_> =
                    found.iter().take(LISTED).map(ToString::to_string).collect();
                if several > LISTED {
                    listed.push("…".to_owned());
                }
                Err(Error::with_kind(
                    ErrorKind::Input,
                    format!(
                        "{text:?} matches {several} objects: use one of {}",
                        listed.join(", ")
                    ),
                ))
            }
        }
    }

    /// Its id.
    pub fn id(&self) -> ObjectId {
        ObjectId::from_bytes(self.key.id)
    }
}

impl fmt::Display for FoundObject {
    /// `Class/name` or `Class/id`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{}/{}", self.class, name.escape_debug()),
            None => write!(f, "{}/{}", self.class, self.id()),
        }
    }
}

impl Node {
    /// Returns whether an object is stored. Reads a directory and opens no file. Needs tokio.
    pub async fn has_object(&self, object: &AnyStub) -> Result<bool> {
        let (store, key) = (self.store().clone(), object.key());
        on_a_thread(move || store.has_object(key)).await
    }

    /// Finds an object by text: see [`FoundObject::find`]. Needs tokio.
    pub async fn find_object(&self, text: &str) -> Result<FoundObject> {
        let (store, text) = (self.store().clone(), text.to_owned());
        on_a_thread(move || Ok(FoundObject::find(&store, &text))).await?
    }
}

fn missing(text: &str, classes: &[(NamespaceNo, String)]) -> Error {
    let mut why = format!(
        "there is no object {text:?}: use CLASS/NAME or CLASS/ID, as listed by `abide objects list`"
    );
    if let Some((class, _)) = text.split_once('/')
        && !classes.iter().any(|(_, known)| known == class)
    {
        why = format!("{why}; the classes are {}", names(classes));
    }
    Error::with_kind(ErrorKind::NotFound, why)
}

fn names(classes: &[(NamespaceNo, String)]) -> String {
    let names: Vec<_> = classes.iter().map(|(_, class)| class.as_str()).collect();
    names.join(", ")
}

/// The stored objects with this name, or this id.
fn named(
    store: &Store,
    classes: &[(NamespaceNo, String)],
    object: &str,
) -> Result<Vec<FoundObject>> {
    let mut found = Vec::new();
    for candidate in candidates(classes, object) {
        if store.has_object(candidate.key)? {
            found.push(candidate);
        }
    }
    Ok(found)
}

/// The objects with this name, or this id, of which only the history is left.
fn past(store: &Store, classes: &[(NamespaceNo, String)], object: &str) -> Vec<FoundObject> {
    candidates(classes, object)
        .filter(|candidate| store.has_history(candidate.key))
        .map(|candidate| FoundObject {
            is_stored: false,
            ..candidate
        })
        .collect()
}

/// The object of each class that would have this name, or this id.
fn candidates(
    classes: &[(NamespaceNo, String)],
    object: &str,
) -> impl Iterator<Item = FoundObject> {
    let id = ObjectId::from_str(object).ok();
    classes.iter().map(move |(namespace, class)| {
        let (id, name) = match id {
            Some(id) => (id, None),
            None => (ObjectId::from_name(class, object), Some(object.to_owned())),
        };
        FoundObject {
            class: class.clone(),
            name,
            key: ObjectKey {
                namespace: *namespace,
                id: *id.as_bytes(),
            },
            is_stored: true,
        }
    })
}

/// The objects whose ids begin with these digits.
fn beginning(
    store: &Store,
    classes: &[(NamespaceNo, String)],
    digits: &str,
) -> Result<Vec<FoundObject>> {
    let mut found = Vec::new();
    for (namespace, class) in classes {
        let mut keys = store.objects(*namespace)?;
        keys.retain(|key| key.id_hex().starts_with(digits));
        found.extend(keys.into_iter().map(|key| FoundObject {
            class: class.clone(),
            name: None,
            key,
            is_stored: true,
        }));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Arc};

    use abide_storage::{DiskOp, FaultyDisk, StoreOptions, errno};

    use super::*;

    fn store() -> (FaultyDisk, Store) {
        let disk = FaultyDisk::default();
        let store = Store::open(
            Arc::new(disk.clone()),
            Path::new("/data"),
            StoreOptions::small().manual(true),
        );
        (disk, store.unwrap())
    }

    fn write(store: &Store, class: &str, id: ObjectId) -> String {
        let key = ObjectKey {
            namespace: store.namespace(class).unwrap(),
            id: *id.as_bytes(),
        };
        let db = store.open_object(key).unwrap();
        db.kv_put("key", b"value").unwrap();
        db.commit().unwrap();
        id.to_string()
    }

    fn refused(store: &Store, text: &str) -> (ErrorKind, String) {
        let error = FoundObject::find(store, text).unwrap_err();
        (error.kind(), error.to_string())
    }

    #[test]
    fn an_object_is_found_by_name_id_or_the_first_digits_of_its_id() {
        let (_, store) = store();
        let ada = write(&store, "Kv", ObjectId::from_name("Kv", "ada"));
        write(&store, "Kv", ObjectId::from_name("Kv", "cafe"));
        let orders = write(&store, "Outbox", ObjectId::from_name("Outbox", "orders/eu"));
        let found = |text: &str| FoundObject::find(&store, text).unwrap();
        for text in ["Kv/ada", "ada"] {
            assert_eq!(found(text).id().to_string(), ada, "{text}");
            assert_eq!(found(text).to_string(), "Kv/ada");
        }
        let by_id = format!("Kv/{ada}");
        for text in [&*by_id, &ada, &by_id[..11], &ada[..8], &ada.to_uppercase()] {
            assert_eq!(found(text).to_string(), by_id, "{text}");
        }
        for text in ["Outbox/orders/eu", "orders/eu"] {
            assert_eq!(found(text).id().to_string(), orders, "{text}");
        }
        // Before it is the beginning of an id it is a name.
        assert_eq!(found("cafe").to_string(), "Kv/cafe");
    }

    #[test]
    fn what_is_ambiguous_or_missing_is_refused_with_what_to_write() {
        let (_, store) = store();
        write(&store, "Kv", ObjectId::from_name("Kv", "ada"));
        write(&store, "Outbox", ObjectId::from_name("Outbox", "ada"));
        for last in 0..2 {
            write(
                &store,
                "Kv",
                ObjectId::from_bytes([&[0xab; 31][..], &[last]].concat().try_into().unwrap()),
            );
        }
        let (kind, text) = refused(&store, "ada");
        assert_eq!(kind, ErrorKind::Input);
        assert!(text.contains("use one of Kv/ada, Outbox/ada"), "{text}");
        let (kind, text) = refused(&store, "abababab");
        assert_eq!(kind, ErrorKind::Input);
        assert!(text.contains("matches 2 objects"), "{text}");
        for missing in ["grace", "Kv/grace", "aba", &"0".repeat(64), "Kv/0000"] {
            let (kind, text) = refused(&store, missing);
            assert_eq!(kind, ErrorKind::NotFound);
            assert!(
                text.contains(missing) && text.contains("abide objects list"),
                "{text}"
            );
        }
        let (kind, text) = refused(&store, "Ledger/eu");
        assert_eq!(kind, ErrorKind::NotFound);
        assert!(text.contains("the classes are Kv, Outbox"), "{text}");
    }

    #[test]
    fn no_object_is_opened_to_find_one() {
        let (disk, store) = store();
        for name in ["ada", "grace", "barbara"] {
            write(&store, "Kv", ObjectId::from_name("Kv", name));
        }
        store.checkpoint().unwrap();
        let options = StoreOptions::small().manual(true);
        store.close().unwrap();
        drop(store);
        let store = Store::open(Arc::new(disk.clone()), Path::new("/data"), options).unwrap();
        disk.fail(&[DiskOp::Open], "/objects/", errno::EIO);
        let ada = FoundObject::find(&store, "ada").unwrap();
        let digits = &ada.id().to_string()[..10];
        assert_eq!(FoundObject::find(&store, digits).unwrap().key, ada.key);
        disk.clear();
    }
}
