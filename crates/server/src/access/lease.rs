//! Streams that outlive the response head end with the token that authorized them.
//!
//! Contract: a WebSocket, and a body whose length is unknown when its head is sent, stay open only while the token is
//! valid. When it is revoked or expires, the socket is closed with 1008 and the body is aborted, within
//! [`limits::TOKENS_REFRESH`] and a second.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use abide_runtime::{Error, ErrorKind};
use axum::{body::Body, response::Response};
use bytes::Bytes;
use http::StatusCode;
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::{Access, store::Look};

/// A token, tracked while a stream that it opened is open.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    access: Access,
    token: String,
}

impl Lease {
    pub(super) fn new(access: Access, token: &str) -> Self {
        Self {
            access,
            token: token.to_owned(),
        }
    }

    /// Completes when the token is no longer valid.
    pub(crate) async fn ended(self) {
        let store = self.access.store();
        let mut changed = store.changes();
        loop {
            changed.mark_unchanged();
            // A read error is retried after the next change.
            let rest = match store.find(&self.token, Look::Anew) {
                Ok(found) => match found.and_then(|stored| stored.token.rest(SystemTime::now())) {
                    Some(rest) => rest,
                    None => return,
                },
                Err(_) => Duration::MAX,
            };
            let expired = tokio::time::sleep(rest.min(LONGEST_SLEEP));
            tokio::select! {
                () = expired => {}
                known = changed.changed() => if known.is_err() { return },
            }
        }
    }
}

/// The wall clock may be set while waiting for a token to expire.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);

/// Makes the streams of a response end with the token.
pub(super) fn leased(mut response: Response, lease: impl FnOnce() -> Lease) -> Response {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        response.extensions_mut().insert(lease());
        return response;
    }
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    let ended = Box::pin(lease().ended());
    response.map(|body| {
        Body::new(LeasedBody {
            body,
            ended: Some(ended),
        })
    })
}

struct LeasedBody {
    body: Body,
    /// `None` once the token is no longer valid.
    ended: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl HttpBody for LeasedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(ended) = &mut self.ended else {
            return Poll::Ready(None);
        };
        if ended.as_mut().poll(cx).is_ready() {
            self.ended = None;
            let error = Error::with_kind(
                ErrorKind::Input,
                "the token of this request is no longer valid",
            );
            return Poll::Ready(Some(Err(axum::Error::new(error))));
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.ended.is_none() || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
