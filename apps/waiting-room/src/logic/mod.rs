//! What a waiting room decides, without a clock, a disk or a socket.
//!
//! In the order in which numbers flow: [`report`] of each data centre → [`merge`] into one state of the room → [`slots`] that are
//! free → [`history`] divides them between data centres → [`queue`] gives them to those who wait → [`division`] between the workers
//! of a data centre. [`plan`] is all of it for one data centre and minute; [`wait`] is what visitors are told.
#![allow(
    missing_docs,
    reason = "the fields are described where their meaning is not their name"
)]

pub mod bucket;
pub mod division;
pub mod history;
pub mod merge;
pub mod minute;
pub mod plan;
pub mod queue;
pub mod report;
pub mod slots;
pub mod wait;
