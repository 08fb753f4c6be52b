//! The attribute macros of `abide`. Programs use them through the crate `abide`, where their examples are.
//!
//! - `#[durable_object]` declares a struct as a class of objects and generates its stub. On the struct's
//!   `impl DurableObject` it makes handlers that are not `async` transactions.
//! - `#[rpc]` makes the public methods of an `impl` block callable through that stub.
//!
//! `#[derive(Setters)]` is for the crates of `abide` alone.
//!
//! Generated code refers to everything by its path in `::abide`.

#![forbid(unsafe_code)]

mod durable_object;
mod handlers;
mod rpc;
mod setters;

use proc_macro::TokenStream;

/// Declares a struct (or enum) as a class of durable objects.
///
/// Together with `impl DurableObject for Seats`, this is all that a class needs. It generates the struct `SeatsStub`,
/// to which `Stub<Seats>` dereferences.
///
/// On `impl DurableObject for Seats` it makes each handler that is not `async` (`fetch`, `alarm`, `websocket_message`,
/// `websocket_close`, `websocket_error`) one transaction: an `Err` or a panic undoes everything that it wrote, as in a
/// method of [`rpc`](macro@rpc). After an `Err`, what it sent is sent.
#[proc_macro_attribute]
pub fn durable_object(arguments: TokenStream, item: TokenStream) -> TokenStream {
    durable_object::expand(&arguments.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Makes the methods of an `impl` block callable from outside the object.
///
/// Each method with a visibility (`pub fn`, `pub async fn`) becomes a method of the stub with the same name and parameters; it
/// returns a `Call` of the method's return type. Parameters and return types are owned and implement `Serialize` and
/// `DeserializeOwned`. Methods without `pub` are unchanged. A class has only one such block.
#[proc_macro_attribute]
pub fn rpc(arguments: TokenStream, item: TokenStream) -> TokenStream {
    rpc::expand(&arguments.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Generates a method for each field of a struct that sets it: `Options::default().retries(3)`.
///
/// With `#[setters(into)]` on a field, the method takes anything that converts into its type.
#[proc_macro_derive(Setters, attributes(setters))]
pub fn setters(input: TokenStream) -> TokenStream {
    setters::expand(input.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
