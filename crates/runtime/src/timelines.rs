//! The timelines of objects on a running node, for operators. No code of an object runs.

use tokio::sync::oneshot;

use crate::{
    AnyNamespace, AnyStub, Error, ErrorKind, Node, ObjectId, Result, Timeline, TimelineCause,
    envelope::{Known, Message, TimelineQuestion},
    limits::TIMELINES_READ,
};

/// The timeline of an object, as [`Node::timeline`] returns it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TimelineListing {
    /// The unique key of its class's namespace.
    pub class: String,
    /// The object.
    pub id: ObjectId,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its present timeline.
    pub timeline: Timeline,
    /// The unique key of the class of the object that it was forked from; `None` if it is no fork, or the node does not have
    /// that class.
    pub origin_class: Option<String>,
    /// Whether it does nothing unasked until it is activated.
    pub dormant: bool,
}

/// Some of the dormant objects of a node, as [`Node::dormant`] returns them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DormantPage {
    /// The objects.
    pub objects: Vec<TimelineListing>,
    /// After which object the next page begins: its class and id. `None` on the last page.
    pub next: Option<(String, ObjectId)>,
}

impl Node {
    /// The timeline of an object. It is not started for that.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if it is not stored; [`ErrorKind::Overloaded`] while it is being restored.
    pub async fn timeline(&self, object: &AnyStub) -> Result<TimelineListing> {
        let (row, name) = object.known_timeline().await?;
        let timeline = Timeline::new(&row);
        let origin = match timeline.cause() {
            TimelineCause::Forked { origin, .. } => self.env().any_object(origin).ok(),
            _ => None,
        };
        Ok(TimelineListing {
            class: object.unique_key().to_owned(),
            id: object.id(),
            name,
            timeline,
            origin_class: origin.map(|origin| origin.unique_key().to_owned()),
            dormant: row.dormant,
        })
    }

    /// The dormant objects after one, given by its class's unique key and its id, in the order of classes and ids. It
    /// opens each object's database: a page examines a limited number of objects, and may be empty although another
    /// follows. Quarantined objects are left out. Needs tokio.
    ///
    /// # Errors
    /// If the node is stopping, or a directory cannot be read.
    pub async fn dormant(&self, after: Option<(String, ObjectId)>) -> Result<DormantPage> {
        let mut classes = self.env().namespaces();
        classes.sort_by(|a, b| a.unique_key().cmp(b.unique_key()));
        classes.dedup_by(|a, b| a.unique_key() == b.unique_key());
        let (mut objects, mut left) = (Vec::new(), TIMELINES_READ);
        for class in classes {
            let key = class.unique_key().to_owned();
            let first = after.as_ref().filter(|(class, _)| *class >= key);
            if first.is_some_and(|(class, _)| *class > key) {
                continue;
            }
            for id in written(class.clone()).await? {
                if first.is_some_and(|(_, known)| id <= *known) {
                    continue;
                }
                match self.timeline(&class.get(id)).await {
                    Ok(found) if found.dormant => objects.push(found),
                    Ok(_) => {}
                    // It is gone, or listed by `abide quarantined`.
                    Err(error)
                        if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => {}
                    Err(error) => return Err(error),
                }
                left -= 1;
                if left == 0 {
                    let next = Some((key, id));
                    return Ok(DormantPage { objects, next });
                }
            }
        }
        Ok(DormantPage {
            objects,
            next: None,
        })
    }
}

impl AnyStub {
    /// The name with which the object is stored, if it has one. The object is not started for that.
    ///
    /// # Errors
    /// As [`Node::timeline`].
    pub(crate) async fn stored_name(&self) -> Result<Option<String>> {
        Ok(self.known_timeline().await?.1)
    }

    async fn known_timeline(&self) -> Result<Known> {
        self.checked_id()?;
        let (tell, told) = oneshot::channel();
        self.worker().send(Message::Timeline(TimelineQuestion {
            binding: self.binding_index(),
            id: self.id(),
            tell,
        }))?;
        told.await.unwrap_or_else(|_| Err(Error::stopping()))
    }
}

async fn written(class: AnyNamespace) -> Result<Vec<ObjectId>> {
    match tokio::task::spawn_blocking(move || class.written()).await {
        Ok(written) => written,
        Err(error) => Err(Error::with_kind(ErrorKind::Io, error.to_string())),
    }
}
