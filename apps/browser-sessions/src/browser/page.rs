//! One page: it is opened in a context of its own, loaded, and its pictures are taken.
//!
//! Contract: [`shoot`] ends within the page's time, whatever the page does, and leaves no page behind: a browser that does not close
//! one is reported as hung. Nothing of a page, such as cookies, is seen by another.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use abide::server::AddressPolicy;
use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

use super::{
    devtools::{CallError, Devtools, Event},
    outcome::{About, BrowserHealth, PageError, PageLimits, Taken},
};
use crate::{
    guard::{PageProxy, Refused},
    limits,
    request::{Format, Job, Size},
};

/// Takes the pictures of a page.
pub async fn shoot(
    browser: &Devtools,
    job: &Job,
    policy: &AddressPolicy,
    bounds: PageLimits,
) -> (Result<Taken, PageError>, BrowserHealth) {
    let proxy = match PageProxy::open(policy.clone(), bounds.bytes).await {
        Ok(proxy) => proxy,
        Err(error) => {
            let reason = format!("no proxy for it can be opened: {error}");
            return (Err(PageError::Refused(reason)), BrowserHealth::Good);
        }
    };
    let started = Instant::now();
    let too_slow = PageError::TooSlow {
        seconds: bounds.time.as_secs(),
    };
    let context = match timeout(bounds.time, open_context(browser, proxy.address())).await {
        Ok(Ok(context)) => context,
        Ok(Err(error)) => return (Err(error.into()), BrowserHealth::Good),
        // It does not even open a context.
        Err(_) => return (Err(too_slow), BrowserHealth::Hung),
    };
    let left = bounds.time.saturating_sub(started.elapsed());
    let mut result = tokio::select! {
        taken = timeout(left, take(browser, &context, job, &proxy)) => taken.unwrap_or(Err(too_slow)),
        () = proxy.exceeded() => Err(PageError::TooLarge { bytes: bounds.bytes }),
    };
    let dispose = browser.call(
        None,
        "Target.disposeBrowserContext",
        json!({ "browserContextId": context }),
    );
    let health = match timeout(limits::CLOSE_TIME, dispose).await {
        Ok(_) => BrowserHealth::Good,
        Err(_) => BrowserHealth::Hung,
    };
    if let Ok(taken) = &mut result {
        let refused = proxy.refused().into_iter();
        let forbidden = refused.filter(|refused| refused.is_forbidden);
        taken.about.blocked = forbidden.map(|refused| refused.target).collect();
        taken.about.loaded_bytes = proxy.bytes();
        taken.about.took_millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    }
    (result, health)
}

/// A context: its cookies and caches are its own, and so is its proxy.
async fn open_context(browser: &Devtools, proxy: SocketAddr) -> Result<String, CallError> {
    let params = json!({
        "disposeOnDetach": true, "proxyServer": format!("socks5://{proxy}"), "proxyBypassList": "<-loopback>",
    });
    let context = browser
        .call(None, "Target.createBrowserContext", params)
        .await?;
    Ok(text(&context["browserContextId"]))
}

async fn take(
    browser: &Devtools,
    context: &str,
    job: &Job,
    proxy: &PageProxy,
) -> Result<Taken, PageError> {
    let deny = json!({ "behavior": "deny", "browserContextId": context });
    browser
        .call(None, "Browser.setDownloadBehavior", deny)
        .await?;
    let page = Page::open(browser, context).await?;
    let first = job.sizes.first().copied().unwrap_or(Size {
        width: limits::SIZES[0].0,
        height: limits::SIZES[0].1,
    });
    page.resize(first).await?;
    page.go(&job.url, proxy).await?;
    if job.delay_millis > 0 {
        let delay = Duration::from_millis(job.delay_millis);
        page.unless_crashed(async {
            tokio::time::sleep(delay).await;
            Ok(())
        })
        .await?;
    }
    let mut pictures = Vec::with_capacity(job.sizes.len());
    let mut bytes = 0;
    for size in &job.sizes {
        page.resize(*size).await?;
        page.settle().await?;
        let picture = page.picture(job).await?;
        bytes += picture.len();
        if bytes > limits::PICTURE_BYTES {
            return Err(PageError::PicturesTooLarge {
                bytes: limits::PICTURE_BYTES,
            });
        }
        pictures.push(picture);
    }
    let about = page.about().await?;
    Ok(Taken { about, pictures })
}

/// What has happened in a page.
#[derive(Default)]
struct Seen {
    loaded: Vec<(String, String)>,
    has_crashed: bool,
}

struct Page {
    browser: Devtools,
    session: String,
    seen: watch::Receiver<Seen>,
    listener: tokio::task::JoinHandle<()>,
}

impl Drop for Page {
    fn drop(&mut self) {
        self.listener.abort();
        self.browser.unsubscribe(&self.session);
    }
}

impl Page {
    async fn open(browser: &Devtools, context: &str) -> Result<Self, PageError> {
        let target = json!({ "url": "about:blank", "browserContextId": context });
        let target = browser.call(None, "Target.createTarget", target).await?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call(None, "Target.attachToTarget", attach).await?;
        let session = text(&attached["sessionId"]);
        let events = browser.subscribe(&session);
        let (sender, seen) = watch::channel(Seen::default());
        let listener = tokio::spawn(listen(browser.clone(), session.clone(), events, sender));
        let page = Self {
            browser: browser.clone(),
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
    async fn call(&self, method: &'static str, params: Value) -> Result<Value, PageError> {
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
        let crash = async {
            if seen.wait_for(|seen| seen.has_crashed).await.is_err() {
                // The browser is gone; the call says so.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            result = work => result,
            () = crash => Err(PageError::Crashed),
        }
    }

    /// Goes to an address and waits until all of it is loaded.
    async fn go(&self, url: &str, proxy: &PageProxy) -> Result<(), PageError> {
        let tree = self.call("Page.getFrameTree", json!({})).await?;
        let blank = text(&tree["frameTree"]["frame"]["loaderId"]);
        let went = self.call("Page.navigate", json!({ "url": url })).await?;
        if let Some(reason) = went["errorText"].as_str() {
            return Err(unreachable_page(reason, &proxy.refused()));
        }
        if went["isDownload"] == true {
            return Err(PageError::Unreachable("it is a download".to_owned()));
        }
        let frame = text(&went["frameId"]);
        let mut seen = self.seen.clone();
        self.unless_crashed(async {
            // A page that goes on to another by itself is waited for there.
            let loaded = seen.wait_for(|seen| {
                seen.loaded
                    .iter()
                    .any(|(in_frame, loader)| *in_frame == frame && *loader != blank)
            });
            loaded.await.map(drop).map_err(|_| PageError::Gone)
        })
        .await
    }

    async fn resize(&self, size: Size) -> Result<(), PageError> {
        let params = json!({
            "width": size.width, "height": size.height, "deviceScaleFactor": 1,
            "mobile": size.width < limits::PHONE_WIDTH,
        });
        self.call("Emulation.setDeviceMetricsOverride", params)
            .await?;
        Ok(())
    }

    /// Waits for fonts and for images that the viewport calls for, a moment at most.
    async fn settle(&self) -> Result<(), PageError> {
        let expression = format!(
            "Promise.race([new Promise(done => setTimeout(done, {})), Promise.all([document.fonts.ready, \
             ...[...document.images].filter(image => !image.complete && image.loading !== 'lazy')\
             .map(image => image.decode().catch(() => {{}}))])]).then(() => true)",
            limits::SETTLE.as_millis()
        );
        // A document without images or fonts, such as an XML file, is as it is.
        self.eval(&expression).await.map(drop)
    }

    async fn eval(&self, expression: &str) -> Result<Value, PageError> {
        let params =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        match self.call("Runtime.evaluate", params).await {
            Ok(mut answer) => Ok(answer["result"]["value"].take()),
            // The page went on to another while it was asked.
            Err(PageError::Refused(_)) => Ok(Value::Null),
            Err(error) => Err(error),
        }
    }

    async fn picture(&self, job: &Job) -> Result<Bytes, PageError> {
        let mut params = json!({ "format": job.format.name() });
        if job.format == Format::Jpeg {
            params["quality"] = job.quality.into();
        }
        let answer = self.call("Page.captureScreenshot", params).await?;
        let data = answer["data"].as_str().unwrap_or_default();
        let picture = BASE64_STANDARD.decode(data).ok();
        picture
            .filter(|picture| !picture.is_empty())
            .map(Bytes::from)
            .ok_or_else(|| PageError::Refused("it answered without a picture".to_owned()))
    }

    /// What the page says of itself. It may say anything; only its length is bounded.
    async fn about(&self) -> Result<About, PageError> {
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
    mut events: mpsc::Receiver<Event>,
    seen: watch::Sender<Seen>,
) {
    while let Some(event) = events.recv().await {
        match event {
            Event::Loaded { frame, loader } => {
                seen.send_modify(|seen| {
                    if seen.loaded.len() < limits::EVENTS {
                        seen.loaded.push((frame, loader));
                    }
                });
            }
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

/// Why a page cannot be opened: what the proxy refused, if it was that.
fn unreachable_page(reason: &str, refused: &[Refused]) -> PageError {
    match refused.last() {
        Some(refused) if refused.is_forbidden => {
            PageError::Forbidden(format!("{}: {}", refused.target, refused.reason))
        }
        Some(refused) => PageError::Unreachable(format!("{}: {}", refused.target, refused.reason)),
        None => PageError::Unreachable(reason.to_owned()),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
