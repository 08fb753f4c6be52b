//! The limits that a program or a client can reach, each with the source of its number: first those of objects, then a module
//! for each component. The guide "Limits" is a table of all of them, and of the settings that change them.

#[doc(inline)]
pub use abide_core::limits::*;

#[cfg(feature = "component")]
pub mod component {
    //! Limits that components share.
    #[doc(inline)]
    pub use abide_component::limits::*;
}
#[cfg(feature = "outcomes")]
#[doc(inline)]
pub use abide_components::limits::outcomes;
#[cfg(feature = "party")]
#[doc(inline)]
pub use abide_components::limits::party;
#[cfg(feature = "patterns")]
#[doc(inline)]
pub use abide_components::limits::patterns;
#[cfg(feature = "projection")]
#[doc(inline)]
pub use abide_components::limits::projection;
#[cfg(feature = "queue")]
#[doc(inline)]
pub use abide_components::limits::queue;
#[cfg(feature = "schedule")]
#[doc(inline)]
pub use abide_components::limits::schedule;
#[cfg(feature = "workflow")]
#[doc(inline)]
pub use abide_components::limits::workflow;
#[cfg(feature = "yjs")]
#[doc(inline)]
pub use abide_components::limits::yjs;

#[cfg(feature = "outbox")]
pub mod outbox {
    //! Limits of outboxes.
    #[doc(inline)]
    pub use abide_outbox::limits::*;

    pub mod handlers {
        //! Limits of the built-in handlers.
        #[doc(inline)]
        pub use abide_outbox::handlers::limits::*;
    }
}
