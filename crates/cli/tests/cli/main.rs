//! Tests of `abide`, the program.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod access;
mod alarms;
mod amplification;
mod backup;
mod cluster;
mod components;
mod crash;
mod embedded;
mod encrypted;
mod exports;
mod front;
mod https;
mod imports;
mod new;
mod other_stores;
mod outbox;
mod page;
mod past;
mod power_loss;
mod projection;
mod proof;
mod recovery;
mod repair;
mod schedule;
mod secrets;
mod shipped;
mod standby;
mod tools;
mod tour;
mod walk;
