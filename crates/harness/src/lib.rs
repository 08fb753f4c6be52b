//! What acceptance tests share: the real binary as a child process ([`Server`]), an HTTP client ([`Client`]), a
//! headless browser ([`Browser`]), and numbers that a seed decides ([`Random`]).
//!
//! Everything here panics when something is not as a test needs it: a test ends where it fails. Whatever is started
//! ends when it is dropped.
#![forbid(unsafe_code)]

mod browser;
mod client;
mod random;
mod server;

pub use browser::{Browser, Page};
pub use client::{Answer, Broken, Client, Version};
pub use random::{Random, setting};
pub use server::{Program, Server, refused};
