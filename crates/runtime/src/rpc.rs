//! RPC values. Arguments and results are passed as CBOR, within one process and between processes, or as JSON for
//! callers without Rust types. In both cases a type's own serde implementation is used, so the JSON is what
//! `serde_json` produces for the type.
//!
//! An encoding or decoding failure is an error of the call, not of the object's own code.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{Encoding, Error, ErrorKind, LocalFuture, Result, Storage, limits::MAX_RPC_BYTES};

/// The arguments of a call on their way to the method.
#[derive(Debug)]
pub struct Args {
    pub(crate) bytes: Vec<u8>,
    pub(crate) encoding: Encoding,
}

impl Args {
    /// The encoding of the arguments and of the result.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }
}

/// The `Result` of a method, as returned by [`call_json`](crate::AnyStub::call_json).
#[derive(Debug, Deserialize)]
pub enum JsonResult<'a> {
    /// The content of `Ok`.
    #[serde(borrow)]
    Ok(&'a RawValue),
    /// The content of `Err`.
    #[serde(borrow)]
    Err(&'a RawValue),
}

impl<'a> JsonResult<'a> {
    /// Parses the result of a call; `None` if it is not a `Result`.
    pub fn read(json: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }
}

/// Encodes arguments (a tuple) or a result.
pub fn encode<T: Serialize + ?Sized>(what: &str, value: &T) -> Result<Vec<u8>> {
    let bytes = abide_storage::cbor::to_vec(value).map_err(|error| {
        Error::with_kind(
            ErrorKind::Input,
            format!("{what} cannot be encoded as CBOR: {error}"),
        )
    })?;
    check_size(what, &bytes)?;
    Ok(bytes)
}

/// Encodes a method's return value. A failure is [`ErrorKind::NoResult`]: the method has run.
pub fn encode_result<T: Serialize + ?Sized>(encoding: Encoding, result: &T) -> Result<Vec<u8>> {
    let encoded = match encoding {
        Encoding::Cbor => encode("the result", result),
        Encoding::Json => serde_json::to_vec(result)
            .map_err(|error| {
                Error::with_kind(
                    ErrorKind::Input,
                    format!("the result cannot be written as JSON: {error}"),
                )
            })
            .and_then(|bytes| check_size("the result", &bytes).map(|()| bytes)),
    };
    encoded.map_err(|error| Error::with_kind(ErrorKind::NoResult, error.to_string()).of_call())
}

/// Rejects a message that exceeds the limit.
pub(crate) fn check_size(what: &str, bytes: &[u8]) -> Result<()> {
    if bytes.len() <= MAX_RPC_BYTES {
        return Ok(());
    }
    Err(Error::with_kind(
        ErrorKind::Limit,
        format!(
            "{what} takes {} bytes, but an RPC message may have at most {MAX_RPC_BYTES}: send it in parts",
            bytes.len()
        ),
    ))
}

/// Decodes a result.
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

/// Decodes the arguments of a dispatched method with `count` parameters of the tuple's types.
pub fn decode_args<T: DeserializeOwned>(method: &str, count: usize, args: &Args) -> Result<T> {
    let decoded = match args.encoding {
        Encoding::Cbor => {
            abide_storage::cbor::from_slice(&args.bytes).map_err(|error| error.to_string())
        }
        Encoding::Json => json_args(count, &args.bytes),
    };
    decoded.map_err(|error| {
        Error::with_kind(
            ErrorKind::Decode,
            format!("the arguments of `{method}` do not match its parameters: {error}"),
        )
        .of_call()
    })
}

/// Counts the elements of an array without storing them.
struct Count(usize);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(array: D) -> Result<Self, D::Error> {
        struct Elements;

        impl<'de> Visitor<'de> for Elements {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Count, A::Error> {
                let mut count = 0;
                while elements.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Count(count))
            }
        }

        array.deserialize_seq(Elements)
    }
}

fn json_args<T: DeserializeOwned>(count: usize, json: &[u8]) -> Result<T, String> {
    let Count(given) = serde_json::from_slice(json)
        .map_err(|error| format!("they are not a JSON array: {error}"))?;
    if given != count {
        return Err(format!("expected {count}, got {given}"));
    }
    // An empty parameter list is a unit, which is null in JSON.
    let json = if count == 0 { b"null" } else { json };
    serde_json::from_slice(json).map_err(|error| error.to_string())
}

/// Runs a method that is not `async`: in one transaction, which is rolled back if the method fails.
pub fn transaction<R>(
    storage: &Storage,
    method: impl FnOnce() -> R,
    is_failure: impl FnOnce(&R) -> bool,
) -> Result<R> {
    let done = storage.transaction(|| {
        let result = method();
        if is_failure(&result) {
            return Err(Undone::Failed(result));
        }
        Ok(result)
    });
    match done {
        Ok(result) | Err(Undone::Failed(result)) => Ok(result),
        Err(Undone::Broken(error)) => Err(error),
    }
}

/// Why the writes of a method were rolled back.
enum Undone<R> {
    /// The method has returned an error, which is in its result.
    Failed(R),
    /// The transaction itself has failed.
    Broken(Error),
}

impl<R> From<Error> for Undone<R> {
    fn from(error: Error) -> Self {
        Self::Broken(error)
    }
}

/// What a method has returned. `(&Returned(&value)).is_failure()` calls [`IsResult`]'s method if the value is a `Result`,
/// otherwise that of [`IsNoResult`], because method lookup prefers fewer references.
#[derive(Debug)]
pub struct Returned<'a, R>(pub &'a R);

/// The value is a `Result`.
pub trait IsResult {
    /// Whether it is an error.
    fn is_failure(&self) -> bool;
}

impl<T, E> IsResult for Returned<'_, std::result::Result<T, E>> {
    fn is_failure(&self) -> bool {
        self.0.is_err()
    }
}

/// The value may be of any type.
pub trait IsNoResult {
    /// It is never an error.
    fn is_failure(&self) -> bool {
        false
    }
}

impl<R> IsNoResult for &Returned<'_, R> {}

/// The result of a dispatch that did not reach the method.
pub fn fail(error: Error) -> LocalFuture<Result<Vec<u8>>> {
    Box::pin(std::future::ready(Err(error)))
}

/// The error for a method that the class does not have.
pub fn unknown_method(class: &str, method: &str) -> LocalFuture<Result<Vec<u8>>> {
    let shown: String = method.chars().take(80).collect();
    fail(
        Error::with_kind(
            ErrorKind::NotFound,
            format!(
                "{class} has no RPC method `{}`: methods are the `pub` functions of its #[rpc] block",
                shown.escape_debug()
            ),
        )
        .of_call(),
    )
}
