//! Tests of games and their rooms.

mod hub;
mod lives;
mod page;
mod rooms;
mod support;
mod walk;
