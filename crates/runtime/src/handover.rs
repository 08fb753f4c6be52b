//! A value that a caller hands to an object with a request, such as who opens a WebSocket. It is encoded like the
//! arguments of a call, and no client can send one.

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    AnyStub, Call, Error, ErrorKind, ObjectClass, Reply, Request, Response, Result, Stub,
    event::HandedOver, rpc,
};

/// Removes the value of a request, which is for its receiver alone.
pub(crate) fn remove(request: &mut Request) {
    request.extensions_mut().remove::<HandedOver>();
}

impl AnyStub {
    /// Sends a request with a value; see [`Stub::upgrade`].
    pub fn upgrade(
        &self,
        mut request: Request,
        value: &(impl Serialize + ?Sized),
    ) -> Call<Response> {
        match rpc::encode("the value", value) {
            Ok(bytes) => {
                request.extensions_mut().insert(HandedOver(bytes));
                self.forward(request)
            }
            Err(error) => Call::failed(error, Reply::into_response),
        }
    }
}

impl<T: ObjectClass> Stub<T> {
    /// Sends the object an HTTP request, as [`fetch`](Self::fetch) does, with a value: what the object must know before it
    /// accepts a WebSocket, such as who its client is. The object's `fetch` takes it with [`handed_over`]. No client can
    /// send such a value, whatever its request contains.
    ///
    /// ```
    /// # use abide_runtime as abide;
    /// use abide::{Ctx, ObjectClass, Request, Response, Result, Stub, handed_over};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Member {
    ///     name: String,
    /// }
    ///
    /// // In the router, after it has checked who asks.
    /// async fn enter<Room: ObjectClass>(room: Stub<Room>, name: String, request: Request) -> Result<Response> {
    ///     room.upgrade(request, &Member { name }).await
    /// }
    ///
    /// // In the object.
    /// fn fetch(ctx: &Ctx, request: Request) -> Result<Response> {
    ///     let member: Member = handed_over(&request)?;
    ///     let (socket, response) = ctx.accept_websocket(&[])?;
    ///     socket.set_attachment(&member)?;
    ///     Ok(response)
    /// }
    /// ```
    pub fn upgrade(&self, request: Request, value: &(impl Serialize + ?Sized)) -> Call<Response> {
        self.untyped().upgrade(request, value)
    }
}

/// The value with which a request was sent: see [`Stub::upgrade`].
///
/// # Errors
/// [`ErrorKind::Input`] if the request was sent without a value, [`ErrorKind::Decode`] if the value is of another type.
pub fn handed_over<T: DeserializeOwned>(request: &Request) -> Result<T> {
    let Some(HandedOver(bytes)) = request.extensions().get() else {
        return Err(Error::with_kind(
            ErrorKind::Input,
            "the request came without a value: send it with `stub.upgrade(request, &value)`",
        ));
    };
    rpc::decode("the value of the request", bytes)
}
