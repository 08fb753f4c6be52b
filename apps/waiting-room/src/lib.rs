//! A waiting room in front of a web application: a reverse proxy that makes an orderly queue when limits are reached.
//!
//! Visitors carry tickets, which are encrypted cookies. A visitor who is inside is let through without a look-up. Any
//! other visitor is admitted if there is a slot, or waits in the bucket of the minute in which they came. [`logic`]
//! decides, without a clock, a disk or a socket; [`objects`] store the decisions; [`room`] connects both; [`proxy`]
//! and [`pages`] face the visitors.
#![forbid(unsafe_code)]

pub mod logic;
pub mod objects;
pub mod pages;
pub mod proxy;
pub mod room;
pub mod settings;
pub mod simulation;
pub mod ticket;
