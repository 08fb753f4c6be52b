//! What the fuzzers reach into. No part of the public API: the feature `fuzzing` shows it, and changes nothing else.

pub use crate::websocket::fuzzing::{Conversation, PeerInput, read_frames};
use crate::{Config, ConfigError, client::proxy_header};

/// The settings that a file with this text and these environment variables make.
pub fn load_config(
    text: &str,
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<Config, ConfigError> {
    crate::config::load_text(text, variables.into_iter().collect())
}

/// Whom the header of the PROXY protocol at the beginning of a connection names, and how many bytes it has.
pub async fn read_proxy_header(
    bytes: &[u8],
) -> std::io::Result<(Option<std::net::SocketAddr>, usize)> {
    let mut rest = bytes;
    let client = proxy_header::read(&mut rest).await?;
    Ok((client, bytes.len() - rest.len()))
}
