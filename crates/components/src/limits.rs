//! The limits of the components, each with the source of its number.

#[cfg(feature = "outcomes")]
pub mod outcomes {
    //! Limits of objects with outcomes.
    pub use crate::outcomes::limits::*;
}

#[cfg(feature = "party")]
pub mod party {
    //! Limits of rooms for the clients of `PartyKit`.
    pub use crate::party::limits::*;
}

#[cfg(feature = "patterns")]
pub mod patterns {
    //! Limits of the patterns.
    pub use crate::patterns::limits::*;
}

#[cfg(feature = "projection")]
pub mod projection {
    //! Limits of read models and their feeds.
    pub use crate::projection::limits::*;
}

#[cfg(feature = "queue")]
pub mod queue {
    //! Limits of queues.
    pub use crate::queue::limits::*;
}

#[cfg(feature = "schedule")]
pub mod schedule {
    //! Limits of schedules.
    pub use crate::schedule::limits::*;
}

#[cfg(feature = "workflow")]
pub mod workflow {
    //! Limits of workflows.
    pub use crate::workflow::limits::*;
}

#[cfg(feature = "yjs")]
pub mod yjs {
    //! Limits of documents.
    pub use crate::yjs::limits::*;
}
