//! Who makes objects, and how many they may make.
//!
//! An object is made by the commit of its first write; one that is only read leaves nothing. So that commit is where a limit is
//! asked, with the [`Creator`] of the event whose poll it ends: whoever admits a request says who that is
//! ([`asked_by`]), and what the request leads to passes it on: calls from object to object, background tasks, messages of
//! the WebSockets that it opens. What an object does by itself, because of its alarm, has no creator and no limit.

use std::{net::IpAddr, time::Duration};

use crate::{context, object::Object};

/// On whose behalf something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creator {
    /// The client's address.
    pub client: IpAddr,
    /// What stands for the token that it has sent, if it has sent one.
    pub token: Option<u64>,
}

/// How many objects each creator may make.
pub trait CreationLimit: Send + Sync + 'static {
    /// Counts an object that is about to be made; or says why it must not be, and how long to wait.
    fn admit(&self, creator: &Creator) -> Result<(), (String, Duration)>;
}

tokio::task_local! {
    static CREATOR: Creator;
}

/// Runs a future of the program; what it asks of objects is on this creator's behalf. A task that it spawns is not part of it.
pub async fn asked_by<F: Future>(creator: Creator, future: F) -> F::Output {
    CREATOR.scope(creator, future).await
}

/// On whose behalf the current future of the program runs, or the current turn of an object.
pub fn creator() -> Option<Creator> {
    match context::current() {
        Some(object) => object.creator(),
        None => CREATOR.try_get().ok(),
    }
}

/// The same for what this object sends, or the program if it is none.
pub(crate) fn of_sender(sender: Option<&Object>) -> Option<Creator> {
    match sender {
        Some(object) => object.creator(),
        None => CREATOR.try_get().ok(),
    }
}
