//! The check of pages finds what it is for.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use abide_harness::{Browser, axe};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium and npm"]
async fn a_page_with_any_fault_in_any_look_is_refused() {
    const GOOD: &str = "<!doctype html><html lang=en><meta name=viewport content='width=device-width'>\
         <meta name=color-scheme content='light dark'><title>A page</title><main><h1>A page</h1>";
    let browser = std::sync::Arc::new(Browser::start().await);
    let check = async |html: String| {
        let browser = std::sync::Arc::clone(&browser);
        let checked = tokio::spawn(async move {
            let page = browser.open("about:blank#page").await;
            let html = serde_json::Value::from(html);
            page.eval(&format!("document.write({html}), document.close()"))
                .await;
            axe(&page, "page").await;
        });
        let Err(refused) = checked.await else {
            return String::new();
        };
        *refused.into_panic().downcast::<String>().unwrap()
    };
    assert_eq!(check(GOOD.to_owned()).await, "");
    for (fault, found) in [
        ("<img src=data:,>", "image-alt"),
        (
            "<style>@media (prefers-color-scheme: dark) { body { color: #333; background: #111 } }</style><p>dark",
            "page-390-dark: color-contrast",
        ),
        (
            "<div style='width: 500px'>wide</div>",
            "px wide in a window of 390 px",
        ),
    ] {
        let refused = check(format!("{GOOD}{fault}")).await;
        assert!(refused.contains(found), "{fault}: {refused}");
    }
    let refused = check(GOOD.replace("main", "div")).await;
    assert!(refused.contains("landmark-one-main"), "{refused}");
}
