//! A waiting room in front of a web application: a reverse proxy that makes an orderly queue when limits are reached.
//!
//! Visitors carry tickets, encrypted cookies. One who is inside is let through without anybody being asked. One who is not is let in if
//! there is a slot, or waits in the bucket of the minute in which they came. What is decided is decided in [`logic`], which knows no
//! clock, disk or socket; [`objects`] keep it; [`room`] carries it; [`proxy`] and [`pages`] are what visitors meet.
#![forbid(unsafe_code)]

pub mod logic;
pub mod objects;
pub mod pages;
pub mod proxy;
pub mod room;
pub mod settings;
pub mod simulation;
pub mod ticket;
