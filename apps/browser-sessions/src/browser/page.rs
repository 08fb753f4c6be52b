//! One page: opening it, loading it, looking at it.
//!
//! Contract: every method ends when the page crashes or the browser is gone. A page that cannot be loaded, or that
//! navigated to one that cannot, is an error with the reason, never a picture of Chromium's error page.

use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use url::Url;

use super::{
    devtools::{Devtools, Event},
    outcome::{About, PageError},
};
use crate::{
    guard::{PageProxy, Refused},
    limits,
    request::{Format, Job, Paper, Size},
};

/// What has happened in a page.
#[derive(Default)]
struct Seen {
    /// The document that was loaded last, with its resources.
    loaded: Option<String>,
    /// It goes to another document.
    is_leaving: bool,
    has_crashed: bool,
}

/// A page of a browser. It stays open until its context is closed.
pub(super) struct Page<'a> {
    browser: &'a Devtools,
    proxy: &'a PageProxy,
    session: String,
    seen: watch::Receiver<Seen>,
    listener: tokio::task::JoinHandle<()>,
}

impl Drop for Page<'_> {
    fn drop(&mut self) {
        self.listener.abort();
        self.browser.unsubscribe(&self.session);
    }
}

impl<'a> Page<'a> {
    /// Opens an empty page in a context.
    pub(super) async fn open(
        browser: &'a Devtools,
        context: &str,
        proxy: &'a PageProxy,
    ) -> Result<Self, PageError> {
        let target = json!({ "url": "about:blank", "browserContextId": context });
        let target = browser.call(None, "Target.createTarget", target).await?;
        // It is also the name of the page's main frame.
        let target = text(&target["targetId"]);
        let attach = json!({ "targetId": target, "flatten": true });
        let attached = browser.call(None, "Target.attachToTarget", attach).await?;
        let session = text(&attached["sessionId"]);
        let events = browser.subscribe(&session);
        let (sender, seen) = watch::channel(Seen::default());
        let listener = listen(browser.clone(), session.clone(), target, events, sender);
        let listener = tokio::spawn(listener);
        let page = Self {
            browser,
            proxy,
            session,
            seen,
            listener,
        };
        for (method, params) in [
            ("Page.enable", json!({})),
            ("Inspector.enable", json!({})),
            ("Page.setLifecycleEventsEnabled", json!({ "enabled": true })),
            (
                "Emulation.setFocusEmulationEnabled",
                json!({ "enabled": true }),
            ),
        ] {
            page.call(method, params).await?;
        }
        Ok(page)
    }

    /// Calls a method, unless the page crashes meanwhile: then some calls would never end.
    pub(super) async fn call(
        &self,
        method: &'static str,
        params: Value,
    ) -> Result<Value, PageError> {
        self.unless_crashed(async {
            let result = self.browser.call(Some(&self.session), method, params).await;
            result.map_err(PageError::from)
        })
        .await
    }

    async fn unless_crashed<T>(
        &self,
        work: impl Future<Output = Result<T, PageError>>,
    ) -> Result<T, PageError> {
        let mut seen = self.seen.clone();
        tokio::select! {
            result = work => result,
            crashed = seen.wait_for(|seen| seen.has_crashed) => Err(match crashed {
                Ok(_) => PageError::Crashed,
                // The page's events have ended.
                Err(_) => PageError::Gone,
            }),
        }
    }

    /// Goes to an address and waits until all of it is loaded.
    pub(super) async fn go(&self, url: &str) -> Result<(), PageError> {
        let before = text(&self.frame().await?["loaderId"]);
        let went = self.call("Page.navigate", json!({ "url": url })).await?;
        if let Some(reason) = went["errorText"].as_str() {
            return Err(self.unreachable(url, reason).await);
        }
        if went["loaderId"].is_null() {
            // Another place in the same document.
            return Ok(());
        }
        let mut seen = self.seen.clone();
        self.unless_crashed(async {
            // A page that goes to another is waited for there.
            let loaded = seen.wait_for(|seen| {
                let loaded = seen.loaded.as_ref();
                loaded.is_some_and(|loader| *loader != before)
            });
            loaded.await.map(drop).map_err(|_| PageError::Gone)
        })
        .await
    }

    /// Clicks at a place, and waits for the page that the click leads to.
    pub(super) async fn click(&self, x: &Value, y: &Value) -> Result<(), PageError> {
        for (kind, button) in [
            ("mouseMoved", "none"),
            ("mousePressed", "left"),
            ("mouseReleased", "left"),
        ] {
            let clicks = i32::from(button == "left");
            let params =
                json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": clicks });
            self.call("Input.dispatchMouseEvent", params).await?;
        }
        // The page reports at once that it is leaving, but not before the click is answered.
        self.rest(limits::STEP_TICK).await?;
        let mut seen = self.seen.clone();
        self.unless_crashed(async {
            let arrived = seen.wait_for(|seen| !seen.is_leaving);
            arrived.await.map(drop).map_err(|_| PageError::Gone)
        })
        .await
    }

    /// Lets some time pass.
    pub(super) async fn rest(&self, time: Duration) -> Result<(), PageError> {
        self.unless_crashed(async {
            tokio::time::sleep(time).await;
            Ok(())
        })
        .await
    }

    /// The main frame.
    async fn frame(&self) -> Result<Value, PageError> {
        let mut tree = self.call("Page.getFrameTree", json!({})).await?;
        Ok(tree["frameTree"]["frame"].take())
    }

    /// Fails if Chromium shows its error page. A frame set is nothing but its frames, so none of them may be missing.
    pub(super) async fn check_is_no_error(&self) -> Result<(), PageError> {
        let frame = self.frame().await?;
        if let Some(url) = frame["unreachableUrl"].as_str() {
            return Err(self.why(url, "it cannot be loaded"));
        }
        let refused = self.proxy.refused();
        if let Some(refused) = refused.first()
            && self.eval("document.body?.tagName").await? == "FRAMESET"
        {
            return Err(not_opened(refused));
        }
        Ok(())
    }

    /// Why an address, or what it redirects to, cannot be loaded.
    async fn unreachable(&self, url: &str, reason: &str) -> PageError {
        let frame = match self.frame().await {
            Ok(frame) => frame,
            Err(error) => return error,
        };
        let reason = match reason {
            "net::ERR_ABORTED" => "it answers with a download, or with no page",
            reason => reason,
        };
        self.why(frame["unreachableUrl"].as_str().unwrap_or(url), reason)
    }

    /// What the proxy refused, if it was that.
    fn why(&self, url: &str, reason: &str) -> PageError {
        let refused = self.proxy.refused().into_iter();
        let target = target(url);
        let mut refused = refused.filter(|refused| Some(&refused.target) == target.as_ref());
        match refused.next() {
            Some(refused) => not_opened(&refused),
            None => PageError::Unreachable(format!("{url}: {reason}")),
        }
    }

    /// Gives its window a size.
    pub(super) async fn resize(&self, size: Size) -> Result<(), PageError> {
        let params = json!({
            "width": size.width, "height": size.height, "deviceScaleFactor": 1,
            "mobile": size.width < limits::PHONE_WIDTH,
        });
        self.call("Emulation.setDeviceMetricsOverride", params)
            .await?;
        Ok(())
    }

    /// Waits briefly for fonts and for images that the viewport needs.
    pub(super) async fn settle(&self) -> Result<(), PageError> {
        let expression = format!(
            "Promise.race([new Promise(done => setTimeout(done, {})), Promise.all([document.fonts.ready, \
             ...[...document.images].filter(image => !image.complete && image.loading !== 'lazy')\
             .map(image => image.decode().catch(() => {{}}))])]).then(() => true)",
            limits::SETTLE.as_millis()
        );
        // A document without images or fonts, such as an XML file, need not wait.
        self.eval(&expression).await.map(drop)
    }

    pub(super) async fn eval(&self, expression: &str) -> Result<Value, PageError> {
        let params =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        match self.call("Runtime.evaluate", params).await {
            Ok(mut answer) => Ok(answer["result"]["value"].take()),
            // The page navigated away during the call.
            Err(PageError::Refused(_)) => Ok(Value::Null),
            Err(error) => Err(error),
        }
    }

    /// A picture of what its window shows.
    pub(super) async fn picture(&self, job: &Job) -> Result<Bytes, PageError> {
        let format = job.format.of_pictures();
        let mut params = json!({ "format": format.name() });
        if format == Format::Jpeg {
            params["quality"] = job.quality.into();
        }
        let answer = self.call("Page.captureScreenshot", params).await?;
        let picture = decode(&answer["data"])?;
        if picture.is_empty() {
            return Err(PageError::Refused(
                "it answered without a picture".to_owned(),
            ));
        }
        Ok(picture.into())
    }

    /// The page on paper. It is read in pieces: a document may be larger than a message of the browser.
    pub(super) async fn pdf(&self, paper: Paper, is_landscape: bool) -> Result<Bytes, PageError> {
        let (width, height) = paper.inches();
        let params = json!({
            "paperWidth": width, "paperHeight": height, "landscape": is_landscape, "printBackground": true,
            "transferMode": "ReturnAsStream",
        });
        let stream = self.call("Page.printToPDF", params).await?["stream"].take();
        let read = json!({ "handle": stream, "size": limits::PDF_PIECE });
        let mut document = Vec::new();
        loop {
            let piece = self.call("IO.read", read.clone()).await?;
            if piece["base64Encoded"] == true {
                document.extend(decode(&piece["data"])?);
            } else {
                document.extend(text(&piece["data"]).into_bytes());
            }
            if document.len() > limits::PICTURE_BYTES {
                return Err(PageError::PicturesTooLarge {
                    bytes: limits::PICTURE_BYTES,
                });
            }
            if piece["eof"] == true {
                break;
            }
        }
        self.call("IO.close", json!({ "handle": stream })).await?;
        Ok(document.into())
    }

    /// The page's title and texts. The page chooses them; only their length is bounded.
    pub(super) async fn about(&self) -> Result<About, PageError> {
        let expression = format!(
            "({{ title: String(document.title).slice(0, {}), url: String(location.href).slice(0, {}), \
             status: performance.getEntriesByType('navigation')[0]?.responseStatus }})",
            limits::MAX_TITLE,
            limits::MAX_URL_BYTES
        );
        let said = self.eval(&expression).await?;
        let short = |value: &Value, max| text(value).chars().take(max).collect::<String>();
        let status = said["status"].as_u64();
        Ok(About {
            title: short(&said["title"], limits::MAX_TITLE),
            final_url: short(&said["url"], limits::MAX_URL_BYTES),
            status: status
                .and_then(|status| u16::try_from(status).ok())
                .filter(|status| *status > 0),
            ..About::default()
        })
    }
}

/// Remembers what happens in a page, and closes its dialogs.
async fn listen(
    browser: Devtools,
    session: String,
    main: String,
    mut events: mpsc::Receiver<Event>,
    seen: watch::Sender<Seen>,
) {
    while let Some(event) = events.recv().await {
        match event {
            Event::Loaded { frame, loader } => {
                if frame == main {
                    seen.send_modify(|seen| {
                        seen.loaded = Some(loader);
                        seen.is_leaving = false;
                    });
                }
            }
            Event::Leaving { frame } if frame == main => {
                seen.send_modify(|seen| seen.is_leaving = true);
            }
            Event::Stopped { frame } if frame == main => {
                seen.send_modify(|seen| seen.is_leaving = false);
            }
            // Of a part of the page.
            Event::Leaving { .. } | Event::Stopped { .. } => {}
            Event::Crashed => seen.send_modify(|seen| seen.has_crashed = true),
            Event::Dialog => {
                let params = json!({ "accept": false });
                // The page may have closed it itself.
                let _ = browser
                    .call(Some(&session), "Page.handleJavaScriptDialog", params)
                    .await;
            }
        }
    }
}

fn decode(base64: &Value) -> Result<Vec<u8>, PageError> {
    let decoded = BASE64_STANDARD.decode(base64.as_str().unwrap_or_default());
    decoded
        .map_err(|_| PageError::Refused("it answered with something else than base64".to_owned()))
}

fn not_opened(refused: &Refused) -> PageError {
    let reason = format!("{}: {}", refused.target, refused.reason);
    if refused.is_forbidden {
        PageError::Forbidden(reason)
    } else {
        PageError::Unreachable(reason)
    }
}

/// Where a page's connection goes, as the proxy names it.
fn target(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let host = url.host_str()?.trim_matches(['[', ']']);
    Some(format!("{host}:{}", url.port_or_known_default()?))
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
