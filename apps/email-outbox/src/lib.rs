//! A durable outbox of e-mails, with a page.
//!
//! One object ([`Mails`]) holds the queue. Composing a mail enqueues it in the transaction that answers the browser; a
//! list of recipients is kept first and becomes mails a batch at a time. The outbox sends them, through Azure
//! Communication Services or a mail server, and the pages show it as it happens: every change is pushed to them as
//! HTML, also while the object sleeps between two attempts.
#![forbid(unsafe_code)]

mod api;
mod assets;
mod draft;
mod http;
mod list;
mod mail;
mod mails;
mod overview;
mod pages;
mod request;
mod sender;

pub use draft::{Draft, Invalid, MAX_RECIPIENTS};
pub use http::router;
pub use list::{Lists, Mailing, Progress};
pub use mail::Mail;
pub use mails::{Composed, Mails};
pub use overview::Overview;
pub use sender::{Author, Sender, classic, registry};
