//! What the fuzzers reach into. No part of the public API: the feature `fuzzing` shows it, and changes nothing else.

pub use crate::websocket::fuzzing::{Conversation, PeerInput, read_frames};
use crate::{Config, ConfigError};

/// The settings that a file with this text and these environment variables make.
pub fn load_config(
    text: &str,
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<Config, ConfigError> {
    crate::config::load_text(text, variables.into_iter().collect())
}
