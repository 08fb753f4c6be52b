//! Tests of the chat.

mod crash;
mod page;
mod rooms;
mod support;
mod walk;
