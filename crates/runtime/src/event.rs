//! What reaches an object and what it answers.
//!
//! [`Event`] and [`Reply`] are the whole vocabulary between the runtime and a class, whatever language the
//! class is written in: a method is a name, arguments and results are bytes.

use std::borrow::Cow;

use axum_core::body::Body;

/// The HTTP request that an object's `fetch` takes.
pub type Request<T = Body> = http::Request<T>;

/// The HTTP response that an object's `fetch` gives.
pub type Response<T = Body> = http::Response<T>;

/// Something that happens to an object.
#[derive(Debug)]
pub enum Event {
    /// An HTTP request.
    Fetch(Box<Request>),
    /// A call of a method by name.
    Rpc {
        /// The method's name.
        method: Cow<'static, str>,
        /// The arguments: a CBOR array.
        args: Vec<u8>,
    },
}

/// What an object answers to an [`Event`].
#[derive(Debug)]
pub enum Reply {
    /// To [`Event::Fetch`].
    Fetch(Response),
    /// To [`Event::Rpc`]: the result as CBOR.
    Rpc(Vec<u8>),
}
