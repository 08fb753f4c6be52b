//! What a worker knows of an object's timeline, in memory or in its database. No code of the object runs.

use std::rc::Rc;

use abide_storage::ObjectDb;

use super::Object;
use crate::{
    Error, ErrorKind, ObjectId, Result,
    envelope::{Known, TimelineQuestion},
    worker::Worker,
};

impl Worker {
    pub(crate) fn tell_timeline(&self, question: TimelineQuestion) {
        let known = self.known_timeline(question.binding, question.id);
        self.mailbox
            .guard("the waker of an operator's request", || {
                // The caller may be gone.
                let _ = question.tell.send(known);
            });
    }

    /// The timeline of an object in memory, or that in its database.
    fn known_timeline(&self, binding: usize, id: ObjectId) -> Result<Known> {
        let key = self.bindings[binding].key(id);
        let object: Option<Rc<Object>> = self.objects.borrow().get(&key).map(Rc::clone);
        if let Some(object) = object {
            if object.is_held() {
                return Err(Error::with_kind(
                    ErrorKind::Overloaded,
                    "the object is being restored: retry when the restore is complete",
                ));
            }
            if let Some(known) = object.open_timeline()? {
                return Ok(known);
            }
        }
        if !self.store.has_object(key)? {
            let text = format!("there is no object {id}: nothing of it is stored");
            return Err(Error::with_kind(ErrorKind::NotFound, text));
        }
        let db = self.store.open_object(key)?;
        Ok(read(&db)?)
    }
}

/// The timeline and the name in an object's database.
pub(super) fn read(db: &ObjectDb) -> abide_storage::Result<Known> {
    let (name, row) = db.identity()?;
    Ok((row, name))
}
