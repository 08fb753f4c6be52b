//! Forks: the state of an object at a moment becomes another object, of the same or another class.

use abide_storage::ObjectKey;

use crate::{
    AnyStub, Env, Error, ErrorKind, Moment, Node, ObjectClass, ObjectId, Result, Snapshot, Stub,
    creation, creator::Creator, envelope::Purpose,
};

/// The object that another one is forked to: one that was never written, or that exists and is empty.
///
/// A name (`&str` or `String`) is that of an object of the same class; a [`Stub`] or [`AnyStub`] is an object of any class of
/// the node, by name or by id.
///
/// An object is *empty* if it has no table, view, trigger, index, key and alarm, no requested restore, and its `user_version` is
/// 0. Its name, its timeline and the results of its calls with an idempotency key do not count; nor do tables that its constructor
/// has created, as long as nothing is stored. [`Storage::delete_all`](crate::Storage::delete_all) empties an object.
#[derive(Clone, Debug)]
pub struct ForkTarget(Target);

#[derive(Clone, Debug)]
enum Target {
    Sibling(String),
    Object(AnyStub),
}

impl From<&str> for ForkTarget {
    fn from(name: &str) -> Self {
        Self(Target::Sibling(name.to_owned()))
    }
}

impl From<String> for ForkTarget {
    fn from(name: String) -> Self {
        Self(Target::Sibling(name))
    }
}

impl From<&String> for ForkTarget {
    fn from(name: &String) -> Self {
        name.as_str().into()
    }
}

impl From<AnyStub> for ForkTarget {
    fn from(object: AnyStub) -> Self {
        Self(Target::Object(object))
    }
}

impl From<&AnyStub> for ForkTarget {
    fn from(object: &AnyStub) -> Self {
        object.clone().into()
    }
}

impl<T: ObjectClass> From<Stub<T>> for ForkTarget {
    fn from(object: Stub<T>) -> Self {
        object.untyped().into()
    }
}

impl<T: ObjectClass> From<&Stub<T>> for ForkTarget {
    fn from(object: &Stub<T>) -> Self {
        object.untyped().into()
    }
}

impl ForkTarget {
    /// The object, if `origin` can be forked to it.
    fn of(self, origin: &AnyStub) -> Result<AnyStub> {
        let to = match self.0 {
            Target::Sibling(name) => origin.sibling(&name),
            Target::Object(to) => to,
        };
        to.checked_id()?;
        let refused = if !to.router().is_of_same_node(origin.router()) {
            "an object cannot be forked to one of another node: use a stub of this node"
        } else if to.key() == origin.key() {
            "an object cannot be forked to itself: restore it to that state instead"
        } else {
            return Ok(to);
        };
        Err(Error::with_kind(ErrorKind::Input, refused))
    }
}

impl Node {
    /// Gives the object `to` the content that `object` had at a moment: a new object of the same class if `to` is a name, or any
    /// object of the node that is new or empty, also of another class ([`ForkTarget`]). It is
    /// [dormant](crate::Ctx::is_dormant) until it is [activated](Self::activate). Returns its id. Durable when it returns, and whole
    /// or absent after a crash; `object` is not affected.
    ///
    /// Events of `to` that wait, or arrive in the meantime, wait until the fork is complete, and find it. If `to` is in memory
    /// it is reset: its running handlers are aborted, and their callers get an error ([`Error::object_reset`]).
    ///
    /// # Errors
    /// As [`Node::bookmark`]; [`ErrorKind::Input`] if `to` is not empty: it then stays as it is and is not reset, unless it was
    /// not in memory. [`ErrorKind::Overloaded`] while `to` is being restored or forked to; [`ErrorKind::NoSpace`].
    pub async fn fork(
        &self,
        object: &AnyStub,
        at: impl Into<Moment>,
        to: impl Into<ForkTarget>,
    ) -> Result<ObjectId> {
        let at = at.into();
        let from = at.checked_key(object)?;
        let to = to.into().of(object)?;
        fork(from, at, &to, None).await
    }
}

impl Env {
    /// Makes another object from a snapshot: as [`Node::fork`], also from an object's code. The fork is dormant until it is
    /// activated, for example with [`AnyStub::activate`]. A name in `to` is that of an object of the same class as the
    /// snapshot's object.
    ///
    /// Inside an object the fork begins once the object's earlier writes are durable, so a snapshot of the present state can be
    /// forked at once. An object that is created so counts as one that the current client creates.
    ///
    /// # Errors
    /// As [`Node::fork`]; [`ErrorKind::NotFound`] if the node has no class of the snapshot's object;
    /// [`ErrorKind::TooManyCreated`].
    pub async fn fork(&self, snapshot: Snapshot, to: impl Into<ForkTarget>) -> Result<ObjectId> {
        let object = self.any_object(snapshot.object())?;
        let to = to.into().of(&object)?;
        let (durable, creator) = {
            let sender = object.router().sender()?;
            let creator = creation::of_sender(sender.as_deref());
            let durable = match &sender {
                Some(caller) => {
                    to.worker().admit()?;
                    Some(caller.when_durable()?)
                }
                None => {
                    to.worker().admit_from_outside()?;
                    None
                }
            };
            (durable, creator)
        };
        if let Some(durable) = durable {
            durable.await.map_err(|_| Error::log_failed())?;
        }
        fork(object.key(), snapshot.into(), &to, creator).await
    }
}

async fn fork(
    from: ObjectKey,
    at: Moment,
    to: &AnyStub,
    creator: Option<Creator>,
) -> Result<ObjectId> {
    let (key, name) = (to.key(), to.name().map(str::to_owned));
    to.held_for(Purpose::Fork(creator), move |store| {
        let at = at.find(store, from)?;
        store.fork(from, &at, key, name.as_deref())
    })
    .await?;
    Ok(to.id())
}
