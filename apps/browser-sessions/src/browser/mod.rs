//! Browsers: a pool of Chromium processes, driven through the Chrome `DevTools` Protocol.
//!
//! | module | noun |
//! |---|---|
//! | [`process`] | a Chromium process: its start, its end, and what an earlier run of the program left behind |
//! | [`memory`] | the bound of its memory |
//! | [`devtools`] | commands and events over a pipe |
//! | [`visit`] | the visits of a job, one for each size |
//! | `page` | one page: loading it and looking at it |
//! | [`outcome`] | the outcome of a page: pictures, or why there are none |
//! | `script` | the steps of a job, done on its page |
//! | [`pool`] | which session has which browser; waiting, replacing, closing |

pub mod devtools;
pub mod memory;
pub mod outcome;
mod page;
pub mod pool;
pub mod process;
mod script;
pub mod visit;
