//! A server as a consumer.

use abide::{Body, Error, ErrorKind, Request, Result, http::header};
use serde::Serialize;
use serde_json::value::RawValue;
use url::Url;

use super::{Batch, Consumer, Exceptions, MessageId, Received, to_object::mark};
use abide_component::{
    Failure,
    address::{target, uri},
    answer::{self, Answer, End},
};

/// Posts batches to a URL, as JSON:
///
/// ```json
/// {"queue": "mails", "messages": [{"id": "0-17", "attempt": 1, "sent_at": 1767225600000, "key": "ada", "body": {"to": "…"}}]}
/// ```
///
/// A 2xx response acknowledges all messages except those listed in its JSON body, if it has one ([`Exceptions`]):
///
/// ```json
/// {"retry": [{"id": "0-17", "after": 60, "error": "busy"}], "dead": [{"id": "0-18", "error": "no such customer"}]}
/// ```
///
/// After 429, or 503 with `Retry-After`, the consumer is paused for as long as it asks, and the batch uses up no attempt
/// ([`Batch::wait`]). Any other response, or none, has the whole batch retried when the queue's policy says, and not
/// before `Retry-After`. Requests leave through [`Env::fetch`](abide::Env::fetch), under the address policy of the node's
/// settings; redirects are not followed.
#[derive(Clone, Debug)]
pub struct ToHttp {
    url: Url,
    headers: Vec<(header::HeaderName, header::HeaderValue)>,
}

#[derive(Serialize)]
struct BatchBody<'a> {
    queue: &'a str,
    messages: Vec<PostedMessage<'a>>,
}

#[derive(Serialize)]
struct PostedMessage<'a> {
    id: MessageId,
    attempt: u32,
    sent_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    body: &'a RawValue,
}

impl ToHttp {
    /// A consumer at this URL.
    pub fn new(url: &str) -> Result<Self> {
        let url = target(url).and_then(|url| uri(&url).map(|_| url));
        Ok(Self {
            url: url.map_err(|error| Error::with_kind(ErrorKind::Input, error))?,
            headers: Vec::new(),
        })
    }

    /// Adds a header to each request, such as `Authorization`.
    #[must_use]
    pub fn header(mut self, name: header::HeaderName, mut value: header::HeaderValue) -> Self {
        value.set_sensitive(true);
        self.headers.push((name, value));
        self
    }

    fn request(&self, batch: &Batch<Box<RawValue>>) -> Result<Request> {
        let messages = batch.messages().iter();
        let posted = BatchBody {
            queue: batch.queue(),
            messages: messages
                .map(|message| PostedMessage {
                    id: message.id(),
                    attempt: message.attempt(),
                    sent_at: message.sent_at(),
                    key: message.key(),
                    body: &message.body,
                })
                .collect(),
        };
        let body = serde_json::to_vec(&posted).map_err(Error::from_std)?;
        let mut request = Request::post(self.url.as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body))?;
        for (name, value) in &self.headers {
            request.headers_mut().insert(name.clone(), value.clone());
        }
        Ok(request)
    }
}

impl Consumer for ToHttp {
    type Body = Box<RawValue>;

    async fn consume(&self, batch: &Batch<Self::Body>) -> Result<()> {
        let answer = answer::fetch(batch.env(), self.request(batch)?).await;
        let answer = answer.map_err(Failure::from);
        let answer = match answer.and_then(Answer::check) {
            Ok(answer) => answer,
            Err(failure) => {
                if failure.kind().is_no_attempt() {
                    batch.wait(failure.after(), failure.message());
                } else if failure.after().is_some() {
                    for message in batch.messages() {
                        message.retry(failure.after(), failure.message());
                    }
                }
                return Err(Error::new(failure.message().to_owned()));
            }
        };
        let messages: Vec<&Received<Box<RawValue>>> = batch.messages().iter().collect();
        let exceptions = match answer.body.trim_ascii() {
            [b'{', ..] if answer.end != End::Whole => {
                return Err(Error::new(
                    "the response is truncated or too long: which messages were consumed is unknown",
                ));
            }
            text @ [b'{', ..] => serde_json::from_slice(text).map_err(|error| {
                Error::new(format!(
                    "the response reports success but cannot be parsed: {error}"
                ))
            })?,
            _ => Exceptions::default(),
        };
        mark(&messages, exceptions);
        Ok(())
    }
}
