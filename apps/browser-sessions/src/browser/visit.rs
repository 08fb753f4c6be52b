//! The visits of a job: one for each size, so that a page which chooses its layout or its images at load is seen as that size sees it.
//!
//! Contract: [`shoot`] ends within the page's time, whatever the page does, and leaves no page behind: a browser that does not close
//! one is reported as hung. A visit knows nothing of another: it has a context, and so cookies, storage and a cache, for itself, and
//! a proxy that counts its bytes.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use abide::server::AddressPolicy;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, timeout, timeout_at},
};

use super::{
    devtools::{CallError, Devtools},
    outcome::{About, BrowserHealth, PageError, PageLimits, Taken},
    page::{Page, text},
    script::{self, Findings},
};
use crate::{
    guard::PageProxy,
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
    let started = Instant::now();
    let visits = Visits {
        browser,
        job,
        policy,
        bounds,
        deadline: started + bounds.time,
        has_failed: watch::Sender::new(false),
        bytes: AtomicUsize::new(0),
    };
    let mut done = stream::iter(job.sizes.iter().copied())
        .map(|size| visits.visit(size))
        .buffered(limits::VISITS);
    let mut all: Option<Taken> = None;
    let mut failure = None;
    let mut health = BrowserHealth::Good;
    // All visits are awaited, also after a failure: each closes its page.
    while let Some((taken, after)) = done.next().await {
        if after == BrowserHealth::Hung {
            health = after;
        }
        match taken {
            Some(Ok(taken)) => match &mut all {
                None => all = Some(taken),
                Some(all) => all.add(taken),
            },
            Some(Err(error)) => failure = failure.or(Some(error)),
            None => {}
        }
    }
    let result = match (failure, all) {
        (None, Some(mut taken)) => {
            let took = started.elapsed().as_millis();
            taken.about.took_millis = u64::try_from(took).unwrap_or(u64::MAX);
            Ok(taken)
        }
        (Some(error), _) => Err(error),
        // A job has a size.
        (None, None) => Err(PageError::Refused("nothing was asked for".to_owned())),
    };
    (result, health)
}

/// What the visits of a job share.
struct Visits<'a> {
    browser: &'a Devtools,
    job: &'a Job,
    policy: &'a AddressPolicy,
    bounds: PageLimits,
    deadline: Instant,
    has_failed: watch::Sender<bool>,
    /// Bytes of all pictures.
    bytes: AtomicUsize,
}

impl Visits<'_> {
    /// One visit; `None` if another has failed, because this one would be useless.
    async fn visit(&self, size: Size) -> (Option<Result<Taken, PageError>>, BrowserHealth) {
        if *self.has_failed.borrow() {
            return (None, BrowserHealth::Good);
        }
        let left = self.deadline.saturating_duration_since(Instant::now());
        let (result, health) = if left < limits::CLOSE_TIME.min(self.bounds.time / 4) {
            // With so little time left, a browser that does not open a page is not hung.
            (Some(Err(self.too_slow())), BrowserHealth::Good)
        } else {
            self.open(size).await
        };
        if let Some(Err(_)) = result {
            self.has_failed.send_replace(true);
        }
        (result, health)
    }

    async fn open(&self, size: Size) -> (Option<Result<Taken, PageError>>, BrowserHealth) {
        let proxy = match PageProxy::open(self.policy.clone(), self.bounds.bytes).await {
            Ok(proxy) => proxy,
            Err(error) => {
                let reason = format!("no proxy for it can be opened: {error}");
                return (Some(Err(PageError::Refused(reason))), BrowserHealth::Good);
            }
        };
        let context = open_context(self.browser, proxy.address());
        let context = match timeout_at(self.deadline, context).await {
            Ok(Ok(context)) => context,
            Ok(Err(error)) => return (Some(Err(error.into())), BrowserHealth::Good),
            // It does not even open a context.
            Err(_) => return (Some(Err(self.too_slow())), BrowserHealth::Hung),
        };
        let mut has_failed = self.has_failed.subscribe();
        let taken = timeout_at(self.deadline, self.take(&context, size, &proxy));
        let mut result = tokio::select! {
            taken = taken => Some(taken.unwrap_or_else(|_| Err(self.too_slow()))),
            () = proxy.exceeded() => Some(Err(PageError::TooLarge { bytes: self.bounds.bytes })),
            _ = has_failed.wait_for(|has_failed| *has_failed) => None,
        };
        let dispose = self.browser.call(
            None,
            "Target.disposeBrowserContext",
            json!({ "browserContextId": context }),
        );
        let health = match timeout(limits::CLOSE_TIME, dispose).await {
            Ok(_) => BrowserHealth::Good,
            Err(_) => BrowserHealth::Hung,
        };
        if let Some(Ok(taken)) = &mut result {
            let refused = proxy.refused().into_iter();
            let forbidden = refused.filter(|refused| refused.is_forbidden);
            taken.about.blocked = forbidden.map(|refused| refused.target).collect();
            taken.about.loaded_bytes = proxy.bytes();
        }
        (result, health)
    }

    async fn take(&self, context: &str, size: Size, proxy: &PageProxy) -> Result<Taken, PageError> {
        let deny = json!({ "behavior": "deny", "browserContextId": context });
        self.browser
            .call(None, "Browser.setDownloadBehavior", deny)
            .await?;
        let page = Page::open(self.browser, context, proxy).await?;
        page.resize(size).await?;
        page.go(&self.job.url).await?;
        if self.job.delay_millis > 0 {
            page.rest(Duration::from_millis(self.job.delay_millis))
                .await?;
        }
        let Findings {
            mut pictures,
            texts,
        } = script::run(&page, self.job).await?;
        page.settle().await?;
        pictures.push(match self.job.format {
            Format::Pdf => page.pdf(self.job.paper, self.job.is_landscape).await?,
            Format::Jpeg | Format::Png => page.picture(self.job).await?,
        });
        self.count(&pictures)?;
        // The page may have navigated to another.
        page.check_is_no_error().await?;
        let about = About {
            texts,
            ..page.about().await?
        };
        Ok(Taken { about, pictures })
    }

    /// Counts the bytes of pictures.
    fn count(&self, pictures: &[Bytes]) -> Result<(), PageError> {
        let bytes = pictures.iter().map(Bytes::len).sum::<usize>();
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > limits::PICTURE_BYTES {
            return Err(PageError::PicturesTooLarge {
                bytes: limits::PICTURE_BYTES,
            });
        }
        Ok(())
    }

    fn too_slow(&self) -> PageError {
        PageError::TooSlow {
            seconds: self.bounds.time.as_secs(),
        }
    }
}

/// A context has its own cookies, caches and proxy.
async fn open_context(browser: &Devtools, proxy: SocketAddr) -> Result<String, CallError> {
    let params = json!({
        "disposeOnDetach": true, "proxyServer": format!("socks5://{proxy}"), "proxyBypassList": "<-loopback>",
    });
    let context = browser
        .call(None, "Target.createBrowserContext", params)
        .await?;
    Ok(text(&context["browserContextId"]))
}
