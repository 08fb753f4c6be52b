//! Entry points for the fuzzers. Not part of the public API: the feature `fuzzing` exposes them and changes nothing
//! else.

pub use crate::websocket::fuzzing::{Conversation, PeerInput, read_frames};
use crate::{Config, ConfigError, client::proxy_header};

/// The settings that a file with this text and these environment variables produce.
pub fn load_config(
    text: &str,
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<Config, ConfigError> {
    crate::config::load_text(text, variables.into_iter().collect())
}

/// The client named in the PROXY protocol header at the beginning of a connection, and the header's length in bytes.
pub async fn read_proxy_header(
    bytes: &[u8],
) -> std::io::Result<(Option<std::net::SocketAddr>, usize)> {
    let mut rest = bytes;
    let client = proxy_header::read(&mut rest).await?;
    Ok((client, bytes.len() - rest.len()))
}
