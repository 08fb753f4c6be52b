//! Suspects: messages that were in flight when the process crashed, as the other components have them.

pub(super) use abide_component::suspects::Suspects;
