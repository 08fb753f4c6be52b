//! The Chrome `DevTools` Protocol (<https://chromedevtools.github.io/devtools-protocol/>) over a pipe: JSON messages,
//! each ended by a zero byte. A pipe, unlike a port, cannot be reached by other processes of the machine, and breaks
//! when either side ends.
//!
//! Contract: every call ends, with a result, the browser's refusal, or [`CallError::Gone`] when the pipe breaks.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::{mpsc, oneshot},
};

use crate::limits;

/// A connection to a browser. Clones share it.
#[derive(Clone)]
pub struct Devtools(Arc<Inner>);

struct Inner {
    commands: mpsc::Sender<Vec<u8>>,
    next: AtomicU64,
    /// `None` when the browser is gone.
    waiting: Mutex<Option<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    calls: HashMap<u64, oneshot::Sender<Result<Value, CallError>>>,
    pages: HashMap<String, mpsc::Sender<Event>>,
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The browser has ended, or its pipe is broken.
    #[error("the browser has ended")]
    Gone,
    /// The browser refused.
    #[error("{method}: {reason}")]
    Refused {
        /// What was called.
        method: &'static str,
        /// What the browser said.
        reason: String,
    },
}

/// What happens in a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A document and all that belongs to it is loaded.
    Loaded {
        /// The frame.
        frame: String,
        /// The document.
        loader: String,
    },
    /// A frame goes to another document.
    Leaving {
        /// The frame.
        frame: String,
    },
    /// A frame has stopped loading, for whatever reason.
    Stopped {
        /// The frame.
        frame: String,
    },
    /// The page shows a dialog, and waits for it to be closed.
    Dialog,
    /// The page's process has ended.
    Crashed,
}

#[derive(Deserialize)]
struct Message {
    id: Option<u64>,
    #[serde(default)]
    result: Value,
    error: Option<Refusal>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(rename = "sessionId")]
    session: Option<String>,
}

#[derive(Deserialize)]
struct Refusal {
    message: String,
}

impl Devtools {
    /// Connects to a browser on a pipe. Call it inside a tokio runtime.
    pub fn new(
        events: impl AsyncRead + Send + Unpin + 'static,
        mut to_browser: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let (commands, mut outgoing) = mpsc::channel::<Vec<u8>>(limits::COMMANDS);
        let inner = Arc::new(Inner {
            commands,
            next: AtomicU64::new(1),
            waiting: Mutex::new(Some(Waiting::default())),
        });
        // The pipe closes when the last clone is gone; then the browser ends, and with it the reader.
        tokio::spawn(async move {
            while let Some(command) = outgoing.recv().await {
                if to_browser.write_all(&command).await.is_err() {
                    return;
                }
            }
        });
        let reader = Arc::downgrade(&inner);
        tokio::spawn(async move {
            let mut events = BufReader::with_capacity(64 << 10, events);
            while let Some(message) = next_message(&mut events).await {
                let Some(inner) = reader.upgrade() else {
                    return;
                };
                inner.take(&message);
            }
            if let Some(inner) = reader.upgrade() {
                // Waiting callers learn that the browser is gone.
                inner.waiting().take();
            }
        });
        Self(inner)
    }

    /// Calls a method of the browser, or of a page's session.
    pub async fn call(
        &self,
        session: Option<&str>,
        method: &'static str,
        params: Value,
    ) -> Result<Value, CallError> {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let mut command = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            command["sessionId"] = session.into();
        }
        let mut command = command.to_string().into_bytes();
        command.push(0);
        let (answer, arrives) = oneshot::channel();
        match &mut *self.0.waiting() {
            Some(waiting) => waiting.calls.insert(id, answer),
            None => return Err(CallError::Gone),
        };
        let _call = Call { inner: &self.0, id };
        if self.0.commands.send(command).await.is_err() {
            return Err(CallError::Gone);
        }
        match arrives.await {
            Ok(Err(CallError::Refused { reason, .. })) => {
                Err(CallError::Refused { method, reason })
            }
            Ok(result) => result,
            Err(_) => Err(CallError::Gone),
        }
    }

    /// The events of a page's session, until [`Devtools::unsubscribe`].
    pub fn subscribe(&self, session: &str) -> mpsc::Receiver<Event> {
        let (sender, receiver) = mpsc::channel(limits::EVENTS);
        if let Some(waiting) = &mut *self.0.waiting() {
            waiting.pages.insert(session.to_owned(), sender);
        }
        receiver
    }

    /// Ends a subscription.
    pub fn unsubscribe(&self, session: &str) {
        if let Some(waiting) = &mut *self.0.waiting() {
            waiting.pages.remove(session);
        }
    }

    /// True when the browser is gone.
    pub fn is_gone(&self) -> bool {
        self.0.waiting().is_none()
    }
}

impl Inner {
    fn waiting(&self) -> MutexGuard<'_, Option<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, message: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Message>(message) else {
            return;
        };
        let mut waiting = self.waiting();
        let Some(waiting) = &mut *waiting else {
            return;
        };
        if let Some(id) = message.id {
            if let Some(call) = waiting.calls.remove(&id) {
                let result = match message.error {
                    None => Ok(message.result),
                    Some(refusal) => Err(CallError::Refused {
                        method: "",
                        reason: refusal.message,
                    }),
                };
                // The caller may have given up.
                let _ = call.send(result);
            }
        } else if let Some(page) = message
            .session
            .and_then(|session| waiting.pages.get(&session))
            && let Some(event) = event(message.method.as_deref(), &message.params)
        {
            // A page that raises more events than are handled is cut off by its time limit.
            let _ = page.try_send(event);
        }
    }
}

/// The events that matter, of the many that there are.
fn event(method: Option<&str>, params: &Value) -> Option<Event> {
    let text = |name: &str| params[name].as_str().unwrap_or_default().to_owned();
    match method? {
        "Page.lifecycleEvent" if params["name"] == "load" => Some(Event::Loaded {
            frame: text("frameId"),
            loader: text("loaderId"),
        }),
        "Page.frameRequestedNavigation" if params["disposition"] == "currentTab" => {
            Some(Event::Leaving {
                frame: text("frameId"),
            })
        }
        "Page.frameStoppedLoading" => Some(Event::Stopped {
            frame: text("frameId"),
        }),
        "Page.javascriptDialogOpening" => Some(Event::Dialog),
        "Inspector.targetCrashed" => Some(Event::Crashed),
        _ => None,
    }
}

/// A call that is forgotten when its caller gives up.
struct Call<'a> {
    inner: &'a Inner,
    id: u64,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = &mut *self.inner.waiting() {
            waiting.calls.remove(&self.id);
        }
    }
}

/// The next message, or `None` if the pipe is broken or the message is too long.
async fn next_message(events: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    loop {
        let piece = events.fill_buf().await.ok()?;
        if piece.is_empty() {
            return None;
        }
        let end = piece.iter().position(|byte| *byte == 0);
        let length = end.unwrap_or(piece.len());
        if message.len() + length > limits::MAX_MESSAGE {
            return None;
        }
        message.extend_from_slice(&piece[..length]);
        events.consume(length + usize::from(end.is_some()));
        if end.is_some() {
            return Some(message);
        }
    }
}
