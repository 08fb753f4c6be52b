//! The outcome of a page: its pictures, or why there are none.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::devtools::CallError;
use crate::limits;

/// Bounds of a page.
#[derive(Clone, Copy, Debug)]
pub struct PageLimits {
    /// From the first visit to the last picture.
    pub time: Duration,
    /// Bytes that one visit may load.
    pub bytes: u64,
}

/// What came of a page.
#[derive(Clone, Debug)]
pub struct Taken {
    /// What the page says of itself.
    pub about: About,
    /// The files, in the order of [`crate::request::Job::files`].
    pub pictures: Vec<Bytes>,
}

impl Taken {
    /// Adds the outcome of another visit. The page's title and texts are those of the first visit.
    pub(super) fn add(&mut self, other: Self) {
        self.pictures.extend(other.pictures);
        self.about.loaded_bytes += other.about.loaded_bytes;
        for blocked in other.about.blocked {
            if self.about.blocked.len() < limits::MAX_REFUSED
                && !self.about.blocked.contains(&blocked)
            {
                self.about.blocked.push(blocked);
            }
        }
    }
}

/// What is known of a page that was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its title.
    pub title: String,
    /// Its address, after redirects.
    pub final_url: String,
    /// The status of the document's response, if the page tells.
    pub status: Option<u16>,
    /// Texts that steps have read, in their order.
    pub texts: Vec<String>,
    /// Bytes that all visits have loaded.
    pub loaded_bytes: u64,
    /// Connections that the guard refused, such as `10.0.0.1:80`.
    pub blocked: Vec<String>,
    /// Milliseconds from the first visit to the last picture.
    pub took_millis: u64,
    /// True if a browser had to be started for it.
    pub cold_browser: bool,
}

/// Why there are no pictures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum PageError {
    /// The address may not be reached.
    #[error("The page cannot be opened: {0}.")]
    Forbidden(String),
    /// The address cannot be reached.
    #[error("The page cannot be opened: {0}.")]
    Unreachable(String),
    /// The page took too long.
    #[error(
        "The page was not done within {seconds} s, with all sizes and steps. Try again, ask for fewer sizes, or start the server with a higher --page-time."
    )]
    TooSlow {
        /// The bound.
        seconds: u64,
    },
    /// The page loaded too much.
    #[error("The page loads more than {bytes} bytes. Start the server with a higher --page-bytes.")]
    TooLarge {
        /// The bound.
        bytes: u64,
    },
    /// The pictures are too large.
    #[error(
        "The pictures have more than {bytes} bytes in all. Ask for fewer or smaller sizes, or for JPEG of a lower quality."
    )]
    PicturesTooLarge {
        /// The bound.
        bytes: usize,
    },
    /// The browser was killed for it.
    #[error(
        "The browser took more than {mib} MiB of memory with the pages that were open in it, and was ended. Ask for fewer pages or sizes at a time, or start the server with a higher --browser-memory."
    )]
    TooMuchMemory {
        /// The bound.
        mib: u64,
    },
    /// The page's process ended.
    #[error("The page crashed, or needs more memory than a page may have.")]
    Crashed,
    /// A step failed.
    #[error("Step {number} (`{name}`) failed: {reason}.")]
    Step {
        /// Which, from 1.
        number: usize,
        /// What kind of step.
        name: String,
        /// Why.
        reason: String,
    },
    /// The browser ended at the steps.
    #[error(
        "The browser ended while the steps were done. They are not repeated, because they may change something: check their effects first."
    )]
    Interrupted,
    /// The browser refused something.
    #[error("The browser cannot take the pictures: {0}.")]
    Refused(String),
    /// The browser has ended.
    #[error("The browser ended, and so did the one that replaced it.")]
    Gone,
}

impl From<CallError> for PageError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Gone => Self::Gone,
            CallError::Refused { .. } => Self::Refused(error.to_string()),
        }
    }
}

/// The state of the browser itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrowserHealth {
    /// The page is closed.
    Good,
    /// The browser did not close the page.
    Hung,
}
