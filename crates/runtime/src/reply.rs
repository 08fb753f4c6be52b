//! Requests, and the replies of objects, whatever language their class is written in.

use axum_core::body::Body;

use crate::{Error, ErrorKind, Result};

/// The HTTP request passed to an object's `fetch`.
pub type Request<T = Body> = http::Request<T>;

/// The HTTP response returned by an object's `fetch`.
pub type Response<T = Body> = http::Response<T>;

/// How arguments and results are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// CBOR (RFC 8949), as between Rust programs.
    #[default]
    Cbor = 0,
    /// JSON (RFC 8259), for callers without Rust types. A method's `Result` is `{"Ok":…}` or `{"Err":…}`.
    Json = 1,
}

/// An object's reply to an [`Event`](crate::Event).
#[derive(Debug)]
pub enum Reply {
    /// To [`Event::Fetch`](crate::Event::Fetch) and [`Event::Operation`](crate::Event::Operation).
    Fetch(Response),
    /// To [`Event::Rpc`](crate::Event::Rpc): the result, encoded as the arguments were.
    Rpc(Vec<u8>),
    /// To an event without an answer: it has been handled.
    Done,
}

impl Reply {
    pub(crate) fn into_response(self) -> Result<Result<Response>> {
        let Self::Fetch(response) = self else {
            return Err(Self::wrong());
        };
        Ok(Ok(response))
    }

    pub(crate) fn into_result(self) -> Result<Vec<u8>> {
        let Self::Rpc(result) = self else {
            return Err(Self::wrong());
        };
        Ok(result)
    }

    pub(crate) fn into_done(self) -> Result<Result<()>> {
        let Self::Done = self else {
            return Err(Self::wrong());
        };
        Ok(Ok(()))
    }

    /// The error for a class that answers with the wrong kind of reply.
    fn wrong() -> Error {
        Error::with_kind(
            ErrorKind::Decode,
            "the object's class answered with the wrong kind of reply",
        )
    }
}
