//! A headless Chromium, driven through the Chrome `DevTools` Protocol
//! (<https://chromedevtools.github.io/devtools-protocol/>): opens pages, runs scripts in them, waits, takes
//! screenshots.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use base64::prelude::{BASE64_STANDARD, Engine};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::{connect_async, tungstenite::Message};

use crate::{PATIENCE, in_time};

/// Names under which Chromium is installed; `ABIDE_CHROMIUM` names another.
const PROGRAMS: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Value>>>>;

/// A running browser with its own profile. Ends when dropped.
#[derive(Debug)]
pub struct Browser {
    wire: Wire,
    child: Child,
    _profile: TempDir,
}

#[derive(Clone, Debug)]
struct Wire {
    commands: mpsc::UnboundedSender<Message>,
    waiting: Waiting,
    next: Arc<AtomicU64>,
}

impl Browser {
    /// Starts Chromium. Call it inside a tokio runtime.
    pub async fn start() -> Self {
        let profile = tempfile::tempdir().expect("a directory for the profile");
        let mut child = spawn(profile.path());
        let stderr = child.stderr.take().expect("stderr is piped");
        let (found, address) = oneshot::channel();
        // Keep reading: a browser that writes to a closed pipe may exit.
        std::thread::spawn(move || {
            let mut found = Some(found);
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if let Some(address) = line.strip_prefix("DevTools listening on ")
                    && let Some(found) = found.take()
                {
                    let _ = found.send(address.to_owned());
                }
            }
        });
        let address = address.await.expect("Chromium says where it listens");
        let (socket, _) = connect_async(address).await.expect("DevTools answers");
        let (mut sink, mut stream) = socket.split();
        let (commands, mut outgoing) = mpsc::unbounded_channel::<Message>();
        let waiting = Waiting::default();
        let answers = Arc::clone(&waiting);
        tokio::spawn(async move {
            while let Some(command) = outgoing.recv().await {
                if sink.send(command).await.is_err() {
                    break;
                }
            }
        });
        tokio::spawn(async move {
            while let Some(Ok(message)) = stream.next().await {
                let Ok(text) = message.to_text() else {
                    continue;
                };
                let Ok(value) = serde_json::from_str::<Value>(text) else {
                    continue;
                };
                let waiter = value["id"].as_u64().and_then(|id| {
                    answers
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .remove(&id)
                });
                if let Some(waiter) = waiter {
                    let _ = waiter.send(value);
                }
            }
            // Pending calls fail, since the browser is gone.
            answers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clear();
        });
        Self {
            wire: Wire {
                commands,
                waiting,
                next: Arc::default(),
            },
            child,
            _profile: profile,
        }
    }

    /// Opens a page in its own window: it counts as visible and focused, so its timers run.
    pub async fn open(&self, url: &str) -> Page {
        let context = self
            .wire
            .call(None, "Target.createBrowserContext", json!({}))
            .await;
        let target = self
            .wire
            .call(
                None,
                "Target.createTarget",
                json!({
                    "url": "about:blank", "width": 1280, "height": 860,
                    "browserContextId": context["browserContextId"],
                }),
            )
            .await;
        let attached = self
            .wire
            .call(
                None,
                "Target.attachToTarget",
                json!({ "targetId": target["targetId"], "flatten": true }),
            )
            .await;
        let page = Page {
            wire: self.wire.clone(),
            session: attached["sessionId"]
                .as_str()
                .expect("a session")
                .to_owned(),
        };
        page.call(
            "Emulation.setFocusEmulationEnabled",
            json!({ "enabled": true }),
        )
        .await;
        page.call("Page.enable", json!({})).await;
        page.go(url).await;
        page
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(profile: &Path) -> Child {
    let named = std::env::var("ABIDE_CHROMIUM").ok();
    let programs = named
        .as_deref()
        .map_or(PROGRAMS.to_vec(), |name| vec![name]);
    for program in &programs {
        let spawned = Command::new(program)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--remote-debugging-port=0",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        if let Ok(child) = spawned {
            return child;
        }
    }
    panic!("no Chromium: install it, or name it in ABIDE_CHROMIUM; looked for {programs:?}");
}

impl Wire {
    async fn call(&self, session: Option<&str>, method: &str, params: Value) -> Value {
        let answer = self.try_call(session, method, params).await;
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The result, or the browser's error.
    async fn try_call(
        &self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<Value, Value> {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let mut command = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            command["sessionId"] = session.into();
        }
        let (answer, arrives) = oneshot::channel();
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id, answer);
        self.commands
            .send(Message::text(command.to_string()))
            .expect("the browser is there");
        let mut answer = in_time(method, arrives)
            .await
            .unwrap_or_else(|_| panic!("the browser has ended before it answered {method}"));
        match answer["error"].take() {
            Value::Null => Ok(answer["result"].take()),
            error => Err(error),
        }
    }
}

/// One page of a browser.
#[derive(Debug)]
pub struct Page {
    wire: Wire,
    session: String,
}

impl Page {
    async fn call(&self, method: &str, params: Value) -> Value {
        self.wire.call(Some(&self.session), method, params).await
    }

    /// Navigates to an address and waits for the document.
    pub async fn go(&self, url: &str) {
        let answer = self.call("Page.navigate", json!({ "url": url })).await;
        assert!(answer["errorText"].is_null(), "{url}: {answer}");
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")
            .await;
    }

    /// The value of an expression; promises are awaited.
    pub async fn eval(&self, expression: &str) -> Value {
        let value = self.try_eval(expression).await;
        value.unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// The value, or the browser's error: the page may have navigated in the meantime.
    async fn try_eval(&self, expression: &str) -> Result<Value, Value> {
        let params = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true,
        });
        let session = Some(&*self.session);
        let mut answer = self
            .wire
            .try_call(session, "Runtime.evaluate", params)
            .await?;
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {}",
            answer["exceptionDetails"]
        );
        Ok(answer["result"]["value"].take())
    }

    /// The value of an expression; it is evaluated again if the page navigates meanwhile.
    pub(crate) async fn eval_when_loaded(&self, expression: &str) -> Value {
        let evaluated = async {
            loop {
                if let Ok(value) = self.try_eval(expression).await {
                    return value;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        in_time("a page that has loaded", evaluated).await
    }

    /// Waits until an expression is true.
    pub async fn until(&self, expression: &str) {
        let waited = tokio::time::timeout(PATIENCE, async {
            // A page that is navigating is evaluated again when it has loaded.
            while self.try_eval(&format!("!!({expression})")).await != Ok(Value::Bool(true)) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        if waited.await.is_err() {
            let text = self.eval("document.body.innerText").await;
            panic!("never true: {expression}\nthe page says: {text}");
        }
    }

    /// Types text into the element that matches a selector. Waits for the element.
    pub async fn fill(&self, selector: &str, text: &str) {
        let selector = Value::from(selector);
        self.until(&format!(
            "(it => {{ it?.focus(); if (it) it.value = ''; return it; }})(document.querySelector({selector}))"
        ))
        .await;
        self.call("Input.insertText", json!({ "text": text })).await;
    }

    /// Clicks the element that matches a selector. Waits for the element: the page may be navigating.
    pub async fn click(&self, selector: &str) {
        let selector = Value::from(selector);
        self.until(&format!(
            "(it => {{ it?.click(); return it; }})(document.querySelector({selector}))"
        ))
        .await;
    }

    /// Sets the window size and the preferred color scheme.
    pub async fn look(&self, width: u32, height: u32, dark: bool) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", size).await;
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", media).await;
    }

    /// Writes a screenshot.
    pub async fn screenshot(&self, file: &Path) {
        let answer = self
            .call("Page.captureScreenshot", json!({ "format": "png" }))
            .await;
        let data = answer["data"].as_str().expect("a picture");
        let picture = BASE64_STANDARD.decode(data).expect("base64");
        std::fs::write(file, picture).expect("the picture can be written");
    }
}
