//! RPC values: arguments and results cross as CBOR, in one process as between processes.
//!
//! What goes wrong with a value here is an error of the call, not of the object's own code.

use serde::{Serialize, de::DeserializeOwned};

use crate::{Error, ErrorKind, LocalFuture, Result, limits::MAX_RPC_BYTES};

/// Encodes arguments (a tuple) or a result.
pub fn encode<T: Serialize + ?Sized>(what: &str, value: &T) -> Result<Vec<u8>> {
    let bytes = abide_storage::cbor::to_vec(value).map_err(|error| {
        Error::with_kind(
            ErrorKind::Input,
            format!("{what} cannot be encoded as CBOR: {error}"),
        )
    })?;
    if bytes.len() > MAX_RPC_BYTES {
        return Err(Error::with_kind(
            ErrorKind::Limit,
            format!(
                "{what} takes {} bytes; an RPC message has at most {MAX_RPC_BYTES}: send it in parts",
                bytes.len()
            ),
        ));
    }
    Ok(bytes)
}

/// Decodes arguments (a tuple) or a result.
pub fn decode<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T> {
    abide_storage::cbor::from_slice(bytes).map_err(|error| {
        Error::with_kind(
            ErrorKind::Decode,
            format!(
                "{what} is not of the expected type (do both sides run the same version?): {error}"
            ),
        )
    })
}

/// Encodes what a method returned.
pub fn encode_result<T: Serialize + ?Sized>(result: &T) -> Result<Vec<u8>> {
    encode("the result", result).map_err(Error::of_call)
}

/// Decodes the arguments of a method that is being dispatched.
pub fn decode_args<T: DeserializeOwned>(method: &str, args: &[u8]) -> Result<T> {
    abide_storage::cbor::from_slice(args).map_err(|error| {
        Error::with_kind(
            ErrorKind::Decode,
            format!("the arguments of `{method}` do not fit its parameters: {error}"),
        )
        .of_call()
    })
}

/// The end of a dispatch that did not get as far as the method.
pub fn fail(error: Error) -> LocalFuture<Result<Vec<u8>>> {
    Box::pin(std::future::ready(Err(error)))
}

/// The answer to a method that the class does not have.
pub fn unknown_method(class: &str, method: &str) -> LocalFuture<Result<Vec<u8>>> {
    let shown: String = method.chars().take(80).collect();
    fail(Error::with_kind(
        ErrorKind::NotFound,
        format!(
            "{class} has no RPC method `{}`: methods are the `pub async fn`s of its #[rpc] block",
            shown.escape_debug()
        ),
    )
    .of_call())
}
