//! Projections: from objects on an in-memory disk to read models in SQLite and `PostgreSQL`.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod feed;
mod host;
mod models;
mod postgres;
mod rebuild;
mod sqlite;
mod support;
mod timelines;
mod troubles;
