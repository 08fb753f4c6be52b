//! Tests of comments on blogs.

mod api;
mod crash;
mod one_transaction;
mod page;
mod secrets;
mod support;
mod walk;
