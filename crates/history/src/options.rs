//! How an uploader works.

use std::time::Duration;

use crate::{Error, Probe, Store};

/// The settings of an uploader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The shortest time between two uploads. The default is 10 seconds. Besides one put for each part of a run, an upload makes a put
    /// and a listing, and deletes what is no longer needed; without changes there is none.
    pub interval: Duration,
    /// How often the tail of the log is shipped, if it has grown: a put each time. `None`: never. The default is a second.
    pub ship: Option<Duration>,
    /// Ships each part as soon as it is durable, because someone waits for it. Needs a store that refuses to create what exists. The
    /// default is to wait for [`Self::ship`].
    pub eager: bool,
    /// How long the store keeps what the newest manifest no longer lists: longer than a download takes, so that none loses its runs.
    /// The default is a day.
    pub keep: Duration,
    /// The longest object; a longer run is stored in parts of this length. The default is 16 MiB. At most 5 GiB, and a run has at
    /// most 65,536 parts.
    pub part: u64,
    /// Parts under way at once, each in memory, and twice if it is encrypted. The default is 4.
    pub at_once: usize,
    /// After how many uploaded bytes of a copy that is not complete a manifest says what is there, so that the next start of the
    /// process continues from it. The default is 1 GiB.
    pub stage: u64,
    /// How often the source is asked for its version. The default is a second.
    pub poll: Duration,
    /// The longest wait after failures in a row. The default is a minute.
    pub patience: Duration,
    /// Takes the history over if it belongs to another directory. The default is to refuse.
    pub take_over: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(10),
            ship: Some(Duration::from_secs(1)),
            eager: false,
            keep: Duration::from_hours(24),
            part: 16 << 20,
            at_once: 4,
            stage: 1 << 30,
            poll: Duration::from_secs(1),
            patience: Duration::from_mins(1),
            take_over: false,
        }
    }
}

impl Options {
    /// Refuses to promise what a store cannot keep.
    pub(crate) fn must_suit(&self, probe: Probe, store: &Store) -> Result<(), Error> {
        if !self.eager || probe.refuses_overwrites {
            return Ok(());
        }
        let location = store.location();
        Err(Error::Configuration(format!(
            "{location} replaces objects that exist, so another node could take the history over without this one noticing it: it \
             cannot acknowledge commits only once they are there. Use another store, or ship the log without waiting for it"
        )))
    }
}
