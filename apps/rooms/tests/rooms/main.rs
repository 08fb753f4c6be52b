//! Tests of rooms with documents.

mod crash;
mod measure;
mod node;
mod page;
mod rooms;
mod support;
mod walk;
