//! Tests of flights and their seats.

mod api;
mod bad_input;
mod closing;
mod crash;
mod page;
mod support;
mod tour;
mod walk;
