//! Mutants: deliberate faults in the product, which test its tests. A test that has never caught anything proves nothing,
//! so each promise has mutants that break it in the code that keeps it, and a test must catch each of them.
//!
//! A mutant is a patch in a file of `verify/mutants`: what it breaks, the text that it replaces, and who must catch it
//! ([`Mutant`]). The product knows nothing of them. They are applied to a copy of the tree ([`tree`]), all at once, each
//! behind a [switch](mutant::on), so the copy is built once. Then each test runs with its mutant on, and must fail
//! ([`hunt`]); the simulation hunts for the mutants that are its own.
//!
//! Faults of a disk or a clock are no mutants: tests inject those with a faulty disk or clock.

pub mod binaries;
pub mod catalog;
pub mod hunt;
pub mod patch;
pub mod tree;

pub use catalog::{Edit, Mutant};
