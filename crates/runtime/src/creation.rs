//! Who creates objects, and how many they may create.
//!
//! An object is created by the commit of its first write; an object that is only read leaves nothing. That commit is
//! therefore where the limit is checked, with the [`Creator`] of the event whose poll it ends. The code that admits a
//! request sets the creator ([`asked_by`]), and everything that follows from the request inherits it: calls from object
//! to object, background tasks, messages of the WebSockets that it opens. What an object does on its own, because of
//! its alarm, has no creator and no limit.

pub use crate::creator::{CreationLimit, Creator};

use crate::{context, object::Object};

tokio::task_local! {
    static CREATOR: Creator;
}

/// Runs a future of the program; its calls of objects are on this creator's behalf. Tasks that it spawns are not
/// included.
pub async fn asked_by<F: Future>(creator: Creator, future: F) -> F::Output {
    CREATOR.scope(creator, future).await
}

/// The creator of the current future of the program, or of an object's current turn.
pub fn creator() -> Option<Creator> {
    match context::current() {
        Some(object) => object.creator(),
        None => CREATOR.try_get().ok(),
    }
}

/// The creator of messages sent by this object, or by the program if there is none.
pub(crate) fn of_sender(sender: Option<&Object>) -> Option<Creator> {
    match sender {
        Some(object) => object.creator(),
        None => CREATOR.try_get().ok(),
    }
}
