//! Tests of the e-mail outbox.

mod api;
mod crash;
mod lists;
mod page;
mod secrets;
mod support;
mod sweep;
mod ticks;
mod walk;
