//! The real browser: each size is a separate visit, pages that end at an error, and pages that take too much memory.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    net::TcpListener,
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use crate::site::{Site, redirect};
use crate::support::{browsers, chromium, group, group_memory, post, shots, take};
use abide_harness::until;
use browser_sessions::limits;
use serde_json::json;

const PLAIN: &str = "<!doctype html><title>A plain page</title><h1>Hello</h1>";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn a_page_that_decides_at_load_is_seen_as_each_size_sees_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = chromium(&dir.path().join("data")).start();
    let client = server.client();
    // What it was at load stays, whatever the window is later. A second visit would be told by its cookie and its storage.
    let page = "<!doctype html><meta name=viewport content='width=device-width'><title>layout</title><body><script>\
        const before = document.cookie + (localStorage.seen ?? ''); document.cookie = 'seen=1'; localStorage.seen = 1;\
        new Image().src = `/at/${innerWidth}x${innerHeight}/${before || 'new'}`;</script>";
    let site = Site::start("127.0.0.1:0", move |path| match path {
        "/" => page.to_owned(),
        _ => PLAIN.to_owned(),
    })
    .await;
    let answer = post(&client, "main", &json!({ "url": site.url("/") })).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let mut seen = site.seen();
    seen.retain(|path| path.starts_with("/at/"));
    seen.sort();
    let mut sizes = limits::SIZES.map(|(width, height)| format!("/at/{width}x{height}/new"));
    sizes.sort();
    assert_eq!(seen, sizes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn a_page_that_ends_at_an_error_is_a_failure_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let server = chromium(&dir.path().join("data")).start();
    let client = server.client();
    let private = Site::start("127.0.0.2:0", |_| "secret".to_owned()).await;
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let to = format!("http://{}/secret", private.address);
    let forbidden = to.clone();
    let site = Site::start("127.0.0.1:0", move |path| match path {
        "/redirect" => redirect(&to),
        "/refresh" => format!("<meta http-equiv=refresh content='0;url={to}'>{PLAIN}"),
        "/script" => format!("{PLAIN}<script>location = '{to}'</script>"),
        "/late" => format!("{PLAIN}<script>setTimeout(() => location = '{to}', 300)</script>"),
        "/form" => format!("{PLAIN}<form method=post action='{to}'></form><script>document.forms[0].submit()</script>"),
        "/frameset" => format!("<frameset cols='50%,50%'><frame src='{to}'><frame src='/'></frameset>"),
        "/frame-leaves" => format!("{PLAIN}<iframe srcdoc=\"<script>top.location = '{to}'</script>\"></iframe>"),
        "/closed" => redirect(&format!("http://{closed}/")),
        "/unknown" => format!("{PLAIN}<script>location = 'http://no-such-host.invalid/'</script>"),
        "/insecure" => format!("{PLAIN}<script>location = 'https://{closed}/'</script>"),
        "/download" => "HTTP/1.1 200 OK\r\nContent-Type: application/zip\r\nContent-Disposition: attachment\r\nContent-Length: 2\r\n\r\nPK".to_owned(),
        "/nothing" => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        "/empty-error" => "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned(),
        "/frame" => format!("<title>around</title><iframe src='{to}'></iframe>"),
        "/missing" => {
            let page = "<title>Not here</title>";
            format!("HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}", page.len())
        }
        _ => PLAIN.to_owned(),
    })
    .await;
    let mut wrong = Vec::new();
    for (path, status, code, says) in [
        ("/redirect", 403, "forbidden_address", "127.0.0.2"),
        ("/refresh", 403, "forbidden_address", "127.0.0.2"),
        ("/script", 403, "forbidden_address", "127.0.0.2"),
        ("/late", 403, "forbidden_address", "127.0.0.2"),
        ("/form", 403, "forbidden_address", "127.0.0.2"),
        ("/frameset", 403, "forbidden_address", "127.0.0.2"),
        ("/frame-leaves", 403, "forbidden_address", "127.0.0.2"),
        ("/closed", 502, "page_unreachable", "refused"),
        ("/unknown", 502, "page_unreachable", "no-such-host.invalid"),
        ("/insecure", 502, "page_unreachable", "refused"),
        ("/download", 502, "page_unreachable", "a download"),
        ("/nothing", 502, "page_unreachable", "no page"),
        ("/empty-error", 502, "page_unreachable", "HTTP"),
    ] {
        let body = json!({ "url": site.url(path), "sizes": ["200x100"], "delay_ms": 1_000 });
        let answer = post(&client, "main", &body).await;
        let is_right = answer.status == status && answer.code() == code;
        if !is_right
            || !answer.body["error"]["message"]
                .as_str()
                .unwrap()
                .contains(says)
        {
            wrong.push(format!("{path}: {} {}", answer.status, answer.body));
        } else if shots(&client, "main").await[0]["state"] != "failed" {
            wrong.push(format!("{path}: is not listed as failed"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // A page with a part that is refused is a page, and so is what a site shows for an error.
    let answer = take(&client, "main", &site.url("/frame")).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(
        answer.body["about"]["blocked"],
        json!([private.address.to_string()])
    );
    let answer = take(&client, "main", &site.url("/missing")).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.body["about"]["status"]),
        (201, &json!(404))
    );
    assert_eq!(
        take(&client, "main", &forbidden).await.code(),
        "forbidden_address"
    );
    assert_eq!(private.seen(), Vec::<String>::new());
}

/// The most memory that a group of processes has while something runs, measured all the time.
fn watch_memory(main: u32) -> (Arc<AtomicBool>, std::thread::JoinHandle<u64>) {
    let is_done = Arc::new(AtomicBool::new(false));
    let (until, most) = (Arc::clone(&is_done), AtomicU64::new(0));
    let watcher = std::thread::spawn(move || {
        while !until.load(Ordering::Relaxed) {
            most.fetch_max(group_memory(main), Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(5));
        }
        most.into_inner()
    });
    (is_done, watcher)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn a_browser_that_takes_too_much_memory_is_killed_within_the_margin() {
    let bound: u64 = 768 << 20;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = chromium(&data)
        .env("BROWSER_SESSIONS_BROWSER_MEMORY", "768")
        .start();
    let client = server.client();
    let hog = "const all = []; for (;;) all.push(new Uint8Array(16 << 20).fill(1));";
    let worker = format!(
        "for (let i = 0; i < 8; i++) new Worker(URL.createObjectURL(new Blob([`{hog}`])));"
    );
    let slow = "const all = []; setInterval(() => all.push(new Uint8Array(16 << 20).fill(1)), 20);";
    let site = Site::start("127.0.0.1:0", move |path| match path {
        "/workers" => format!("{PLAIN}<script>{worker}</script>"),
        "/slow" => format!("{PLAIN}<script>{slow}</script>"),
        "/page" => format!("{PLAIN}<script>{hog}</script>"),
        _ => PLAIN.to_owned(),
    })
    .await;
    for path in ["/workers", "/slow", "/page"] {
        assert_eq!(take(&client, "main", &site.url("/")).await.status, 201);
        let main = browsers(&data)
            .into_iter()
            .find(|pid| group(*pid).len() > 1)
            .unwrap();
        for pid in group(main) {
            let bounds = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
            let data = bounds
                .lines()
                .find(|line| line.starts_with("Max data size"));
            let most = (bound + limits::MEMORY_MARGIN).to_string();
            assert!(data.unwrap().contains(&most), "{data:?}");
        }
        let (is_done, watcher) = watch_memory(main);
        let started = Instant::now();
        let body = json!({ "url": site.url(path), "sizes": ["200x100"], "delay_ms": 10_000 });
        let answer = post(&client, "main", &body).await;
        is_done.store(true, Ordering::Relaxed);
        let most = watcher.join().unwrap();
        println!(
            "{path}: {} MiB at most, {:?}, {}",
            most >> 20,
            started.elapsed(),
            answer.body
        );
        assert!(
            most <= bound + limits::MEMORY_MARGIN,
            "{path}: {} MiB",
            most >> 20
        );
        assert_eq!(
            (answer.status.as_u16(), answer.code()),
            (502, "too_much_memory"),
            "{path}"
        );
        let message = answer.body["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("768 MiB") && message.contains("--browser-memory"),
            "{message}"
        );
        assert_eq!(shots(&client, "main").await[0]["error"], message);
        assert!(
            started.elapsed() < Duration::from_secs(9),
            "the delay is not waited for"
        );
        until("all processes of the browser to end", async || {
            group(main).is_empty().then_some(())
        })
        .await;
    }
    assert_eq!(take(&client, "main", &site.url("/after")).await.status, 201);
}

/// The processes of a browser that show its pages.
fn renderers(main: u32) -> Vec<u32> {
    let is_renderer = |pid: &u32| {
        // Chromium separates the arguments of these processes by spaces.
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains("--type=renderer")
    };
    group(main).into_iter().filter(is_renderer).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn a_page_whose_process_ends_fails_and_the_browser_stays() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = chromium(&data).start();
    let client = server.client();
    let site = Site::start("127.0.0.1:0", |_| PLAIN.to_owned()).await;
    assert_eq!(take(&client, "main", &site.url("/")).await.status, 201);
    let main = browsers(&data)
        .into_iter()
        .find(|pid| group(*pid).len() > 1)
        .unwrap();
    let asks = tokio::spawn({
        let body = json!({ "url": site.url("/open"), "delay_ms": 10_000 });
        let client = client.clone();
        async move { post(&client, "main", &body).await }
    });
    until("the page to be open", async || {
        let is_open = site.seen().iter().any(|path| path == "/open");
        is_open.then_some(())
    })
    .await;
    let started = Instant::now();
    // Again and again: another visit may be just beginning.
    while !asks.is_finished() {
        for pid in renderers(main) {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let answer = asks.await.unwrap();
    assert_eq!(
        (answer.status.as_u16(), answer.code()),
        (502, "page_crashed"),
        "{answer:?}"
    );
    assert!(
        started.elapsed() < Duration::from_secs(9),
        "not the delay, and not the page's time"
    );
    let answer = take(&client, "main", &site.url("/after")).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.body["about"]["cold_browser"], false);
}
