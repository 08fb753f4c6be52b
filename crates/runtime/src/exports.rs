//! Exporting all objects of a running node as of one moment, and importing objects, for operators.

use abide_storage::{
    Afterwards, Bookmark, Cut, Import, Incoming, NamespaceNo, ObjectKey, Store, TimelinesEnd,
};

use crate::{
    AnyStub, Error, ErrorKind, Node, ObjectId, Result, blocking::on_a_thread, envelope::Purpose,
    limits::MAX_LISTED,
};

/// An object of a cut, as [`Node::cut_objects`] lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedObject {
    /// The unique key of its class's namespace.
    pub class: String,
    /// The object.
    pub id: ObjectId,
    /// Its newest commit at the cut. `None` if its history does not have that: it is quarantined.
    pub bookmark: Option<Bookmark>,
}

/// The object after which a page of a cut begins: its class's unique key, and its id.
pub type CutPosition = (String, ObjectId);

/// Some of the objects of a cut, as [`Node::cut_objects`] returns them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CutListing {
    /// The objects.
    pub objects: Vec<ListedObject>,
    /// The next page begins after this object. `None` on the last page.
    pub next: Option<CutPosition>,
}

impl Node {
    /// A cut: the present end of the log, at which all objects can be read while they are written, created and deleted. Needs
    /// tokio, and takes a checkpoint.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the archive is off, or does not have every object yet.
    pub async fn cut(&self) -> Result<Cut> {
        let store = self.store().clone();
        on_a_thread(move || store.cut()).await
    }

    /// The first objects of a cut after one, of one class or of all, in the order of their keys. A page has at least one, except
    /// the last, and at most [`MAX_LISTED`]. [`Node::database`] has the database of each at its bookmark. Needs tokio.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if history of the cut was lost, or dropped because it had expired: take another cut.
    /// [`ErrorKind::NotFound`] if there is no such class.
    pub async fn cut_objects(
        &self,
        cut: Cut,
        class: Option<&str>,
        after: Option<CutPosition>,
        limit: usize,
    ) -> Result<CutListing> {
        let store = self.store().clone();
        let limit = limit.clamp(1, MAX_LISTED);
        let namespace = class.map(|class| number_of(&store, class)).transpose()?;
        let after = match after {
            None => None,
            Some((class, id)) => Some(ObjectKey {
                namespace: number_of(&store, &class)?,
                id: *id.as_bytes(),
            }),
        };
        on_a_thread(move || {
            let page = store.cut_objects(&cut, namespace, after, limit)?;
            let classes = store.namespaces();
            let place = |key: ObjectKey| {
                let known = classes.iter().find(|(number, _)| *number == key.namespace);
                let class = known.map_or_else(String::new, |(_, class)| class.clone());
                (class, ObjectId::from_bytes(key.id))
            };
            let listed = page.objects.iter().map(|object| {
                let (class, id) = place(object.key);
                let bookmark = object.bookmark;
                ListedObject {
                    class,
                    id,
                    bookmark,
                }
            });
            Ok(CutListing {
                objects: listed.collect(),
                next: page.next.map(place),
            })
        })
        .await
    }

    /// A database on its way into the node, for [`Node::import`]. Writing to it may wait for the disk: not on a thread of tokio.
    ///
    /// # Errors
    /// The disk cannot be written.
    pub fn incoming(&self) -> Result<Incoming> {
        Ok(self.store().incoming()?)
    }

    /// Creates an object from a database: one that was exported, or made by another program. `source` is the SHA-256 of what it
    /// comes from. Its timelines are above `above`, the position of its export. It is [dormant](crate::Ctx::is_dormant) until it
    /// is [activated](Self::activate), unless it replaces an original that is gone ([`Afterwards::Act`]). Durable when it returns.
    /// Needs tokio.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the object exists, or cannot have this database; the message says why. [`ErrorKind::Limit`],
    /// [`ErrorKind::NoSpace`]. Nothing has changed in these cases.
    pub async fn import(
        &self,
        object: &AnyStub,
        database: Incoming,
        source: [u8; 32],
        above: Option<TimelinesEnd>,
        afterwards: Afterwards,
    ) -> Result<()> {
        object.checked_id()?;
        let (key, name) = (object.key(), object.name().map(str::to_owned));
        let work = move |store: &Store| {
            let import = Import {
                name: name.as_deref(),
                source,
                above,
                afterwards,
            };
            store.import(key, database, &import)
        };
        object.held_for(Purpose::Import, work).await
    }
}

/// The number of a class.
fn number_of(store: &Store, class: &str) -> Result<NamespaceNo> {
    let classes = store.namespaces();
    let found = classes.iter().find(|(_, known)| known == class);
    found.map(|(number, _)| *number).ok_or_else(|| {
        let known: Vec<_> = classes.iter().map(|(_, known)| &**known).collect();
        Error::with_kind(
            ErrorKind::NotFound,
            format!(
                "there is no class {class:?}; the classes are {}",
                known.join(", ")
            ),
        )
    })
}
