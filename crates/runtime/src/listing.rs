//! The stored objects of a namespace: page by page, or one that must exist. No code of an object runs.

use abide_storage::ObjectKey;

use crate::{
    AnyNamespace, AnyStub, ErrorKind, Namespace, ObjectClass, ObjectId, Result, Stub,
    blocking::on_a_thread, limits::MAX_LISTED,
};

/// Some of a namespace's stored objects, as [`Namespace::list`] returns them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ObjectPage<S> {
    /// The objects, in the order of their ids. Each has its name, if it was ever called by one.
    pub objects: Vec<S>,
    /// The next page begins after this one. `None` on the last page.
    pub next: Option<ObjectId>,
}

impl<S> ObjectPage<S> {
    fn map<R>(self, f: impl FnMut(S) -> R) -> ObjectPage<R> {
        ObjectPage {
            objects: self.objects.into_iter().map(f).collect(),
            next: self.next,
        }
    }
}

impl AnyNamespace {
    /// The ids of the stored objects, in order. Reads directories: not for hot paths.
    ///
    /// The first write of some may not be durable yet. Inside a handler, the object's later messages wait until it is;
    /// a program must be aware that a power failure may undo the creation of an object that it finds here.
    pub fn written(&self) -> Result<Vec<ObjectId>> {
        self.read(|| self.router.store.objects(self.number()))
            .map(ids)
    }

    /// The stub of the object with this name if the object is stored; see [`Namespace::get_existing`].
    pub fn get_existing(&self, name: &str) -> Result<Option<AnyStub>> {
        let stub = self.get_by_name(name);
        stub.checked_id()?;
        let is_stored = self.read(|| self.router.store.has_object(stub.key()))?;
        Ok(is_stored.then_some(stub))
    }

    /// A page of the stored objects; see [`Namespace::list`].
    pub async fn list(&self, after: Option<ObjectId>, limit: usize) -> Result<ObjectPage<AnyStub>> {
        self.router.sender()?;
        let limit = limit.clamp(1, MAX_LISTED);
        let (store, number) = (self.router.store.clone(), self.number());
        let after = after.map(|id| *id.as_bytes());
        // One more tells whether another page follows.
        let found = on_a_thread(move || store.objects_after(number, after, limit + 1)).await?;
        let mut ids = ids(found);
        let has_more = ids.len() > limit;
        ids.truncate(limit);
        let next = ids.last().copied().filter(|_| has_more);
        let mut objects = Vec::with_capacity(ids.len());
        for id in ids {
            let stub = self.get(id);
            let name = match stub.stored_name().await {
                Ok(name) => name,
                // It is gone.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                // It is quarantined, is being restored, or cannot be read: the others are listed all the same.
                Err(_) => None,
            };
            objects.push(name.map_or(stub, |name| self.get_by_name(&name)));
        }
        self.has_read()?;
        Ok(ObjectPage { objects, next })
    }

    /// Reads the store, whose commits may not be durable.
    fn read<R>(&self, read: impl FnOnce() -> abide_storage::Result<R>) -> Result<R> {
        self.router.sender()?;
        let found = read()?;
        self.has_read()?;
        Ok(found)
    }

    /// What the present object sends from here on waits until all that has been read is durable.
    fn has_read(&self) -> Result<()> {
        if let Some(object) = self.router.sender()? {
            object.has_seen(self.router.store.appended());
        }
        Ok(())
    }
}

fn ids(keys: Vec<ObjectKey>) -> Vec<ObjectId> {
    keys.into_iter()
        .map(|key| ObjectId::from_bytes(key.id))
        .collect()
}

impl<T: ObjectClass> Namespace<T> {
    /// The stub of the object with this name if the object is stored, without creating or starting it. One that has called
    /// [`delete_all`](crate::Storage::delete_all) is stored until it leaves memory. Reads a directory: not for hot paths.
    ///
    /// The object's first write may not be durable yet. Inside a handler, the present object's later messages wait until it is.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] or [`ErrorKind::Limit`] if no object can have this name; otherwise a disk error.
    ///
    /// ```
    /// # use abide_runtime as abide;
    /// # fn example<Room: abide::ObjectClass>(env: &abide::Env, name: &str) -> abide::Result<()> {
    /// match env.object::<Room>().get_existing(name)? {
    ///     Some(room) => println!("{name} has the id {}", room.id()),
    ///     None => println!("there is no room {name}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_existing(&self, name: &str) -> Result<Option<Stub<T>>> {
        Ok(self.untyped().get_existing(name)?.map(Stub::new))
    }

    /// The first `limit` stored objects after one, in the order of their ids: with their names, which are read from
    /// memory or from their files. A page has at least one and at most [`MAX_LISTED`]. No object is started. Reads directories, and opens the
    /// file of each object that is not in memory: not for hot paths. Needs tokio.
    ///
    /// An object that is created while pages are read may be missing. One that is quarantined, being restored, or cannot be
    /// read is listed without its name. Inside a handler, the present object's later messages wait until all that it has seen is durable.
    ///
    /// # Errors
    /// A disk error of reading the directories, or that the node is stopping.
    ///
    /// ```
    /// # use abide_runtime as abide;
    /// # async fn example<Room: abide::ObjectClass>(env: &abide::Env) -> abide::Result<()> {
    /// let mut after = None;
    /// loop {
    ///     let page = env.object::<Room>().list(after, 100).await?;
    ///     for room in &page.objects {
    ///         println!("{}", room.name().unwrap_or("a room without a name"));
    ///     }
    ///     after = page.next;
    ///     if after.is_none() {
    ///         break;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list(&self, after: Option<ObjectId>, limit: usize) -> Result<ObjectPage<Stub<T>>> {
        Ok(self.untyped().list(after, limit).await?.map(Stub::new))
    }
}
