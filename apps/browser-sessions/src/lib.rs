//! Browsers that stay open between requests, and the screenshots that they take.
//!
//! ```text
//! client ─▶ http ─▶ BrowserSession (object) ─▶ Browsers (pool) ── CDP over a pipe ──▶ Chromium
//!                     │   │  ▲ alarm: idle time        │                                 │ every connection
//!                     │   │  └── closes the browser ──▶│            policy ◀── PageProxy ◀┘
//!                     │   └─▶ Pictures: a directory or S3                       │
//!                     └─ rows: which screenshots there are                      └─▶ web
//! ```
//!
//! A session is a durable object ([`BrowserSession`]): it remembers its screenshots, and its alarm decides how long its browser
//! stays open. The browser is a process of this machine and so belongs to this process ([`browser::pool`]): when that ends,
//! so does the browser, and the session's next request starts another.
#![forbid(unsafe_code)]

mod assets;
pub mod browser;
mod error;
pub mod guard;
mod http;
pub mod limits;
mod pages;
pub mod pictures;
pub mod request;
mod session;

pub use error::SessionError;
pub use http::router;
pub use session::{BrowserSession, Deleted, IdleTime, List, Picture, Shot, ShotState, Status};
