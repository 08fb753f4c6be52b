//! Why a request to a room is refused.

use abide::{Error, Response, http::StatusCode, server::ApiError};
use axum::response::IntoResponse;
use thiserror::Error;

use super::limits::{MAX_ID_BYTES, MAX_ROOM_BYTES, MAX_URI_BYTES};

/// Why a client was not connected. Nothing changed.
#[derive(Clone, Debug, Error)]
pub enum PartyError {
    /// There is no party of this name.
    #[error("There is no party {party}. The parties are: {known}.")]
    NoParty {
        /// What was asked for.
        party: String,
        /// The names that there are.
        known: String,
    },
    /// The room's name.
    #[error("A room's name has 1 to {MAX_ROOM_BYTES} bytes and no control characters.")]
    InvalidRoom,
    /// The connection's id.
    #[error(
        "A connection's id, the query parameter _pk, has 1 to {MAX_ID_BYTES} bytes and no control characters."
    )]
    InvalidId,
    /// The address.
    #[error("The path and query of a connection have at most {MAX_URI_BYTES} bytes.")]
    LongAddress,
    /// The room has as many connections as it may.
    #[error("The room is full: it takes {limit} connections. Try again when a client has left.")]
    Full {
        /// How many it takes.
        limit: usize,
    },
    /// The object failed.
    #[error(transparent)]
    Object(#[from] Error),
}

impl PartyError {
    /// The answer for the client: a status, and JSON that says why.
    pub fn into_response(self) -> Response {
        ApiError::from(self).into_response()
    }
}

impl From<PartyError> for ApiError {
    fn from(error: PartyError) -> Self {
        let text = error.to_string();
        match error {
            PartyError::NoParty { .. } => Self::not_found("no_such_party", text),
            PartyError::InvalidRoom => Self::bad_request("invalid_room", text),
            PartyError::InvalidId => Self::bad_request("invalid_connection_id", text),
            PartyError::LongAddress => {
                Self::new(StatusCode::URI_TOO_LONG, "address_too_long", text)
            }
            PartyError::Full { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "room_full", text).retry_soon()
            }
            PartyError::Object(error) => error.into(),
        }
    }
}

abide_component::error_kinds!(PartyError {
    NoParty => NotFound,
    InvalidRoom | InvalidId | LongAddress => Input,
    Full => Overloaded,
});
