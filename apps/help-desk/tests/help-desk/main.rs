//! Tests of the help desk: its API, what takes time, and the real program.

mod api;
mod clock;
mod crash;
mod page;
mod support;
