//! Tests of the harness, and checks of the whole workspace.

mod acs;
mod awaits;
mod ci;
mod doubles;
mod page;
mod supply_chain;
mod switches;
mod words;
