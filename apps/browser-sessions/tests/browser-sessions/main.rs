//! Tests of browser sessions.

mod api;
mod crash;
mod failure;
mod guard;
mod page;
mod site;
mod steps;
mod store;
mod support;
mod visits;
mod walk;
