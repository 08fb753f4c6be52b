//! Tests of the request scheduler.

mod api;
mod bad_input;
mod crash;
mod page;
mod support;
mod virtual_time;
mod walk;
