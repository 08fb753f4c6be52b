//! Shared parts of acceptance tests: the real binary as a child process ([`Server`]), an HTTP client ([`Client`]), a
//! headless browser ([`Browser`]) and what it finds wrong with a page ([`axe`]), the commands of the tour ([`Tour`]), seeded random numbers ([`Random`]), and fakes of external services: a mail server
//! ([`SmtpServer`]), a mail API ([`AcsServer`]) and a receiver of requests ([`Receiver`]), which fail on demand, or a
//! closed port ([`Nobody`]). Also a real `PostgreSQL` server ([`Postgres`]) that can be killed.
//!
//! Tests wait as long as necessary: [`run`], [`until`] and [`in_time`] abort only hanging tests.
//!
//! Everything here panics when something is not as a test requires. Everything that is started ends when it is dropped.
#![forbid(unsafe_code)]

mod acs;
mod axe;
mod browser;
mod client;
mod command;
mod environment;
mod http_double;
mod listener;
mod nobody;
mod patience;
mod postgres;
mod random;
mod receiver;
mod record;
mod seeds;
mod server;
mod smtp;
mod tour;
mod walk;

pub use acs::{AcsCourse, AcsEnd, AcsMail, AcsMischief, AcsOptions, AcsPoll, AcsSend, AcsServer};
pub use axe::axe;
pub use browser::{Browser, Page};
pub use client::{Answer, Broken, Client, Version};
pub use command::printed;
pub use environment::neutral;
pub use http_double::Received;
pub use mail_parser;
pub use nobody::Nobody;
pub use patience::{PATIENCE, PATIENCE_VARIABLE, in_time, run, until};
pub use postgres::Postgres;
pub use random::{Random, setting};
pub use receiver::{Receiver, ReceiverAct};
pub use seeds::on_all_cores;
pub use server::{Program, Server, refused};
pub use smtp::{Mail, SmtpAct, SmtpServer, SmtpStage};
pub use tour::Tour;
pub use walk::{WalkTokens, assert_private, walk};
