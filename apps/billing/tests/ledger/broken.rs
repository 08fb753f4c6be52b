//! The tests are tested.
