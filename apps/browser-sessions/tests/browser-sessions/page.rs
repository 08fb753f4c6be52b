//! The real browser: pictures of real pages, what the guard keeps from them, and the gallery.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{net::UdpSocket, time::Instant};

use crate::site::{Site, redirect};
use crate::support::{browsers, chromium, files, group, post, shots, take};
use abide_harness::{Browser, axe, until};
use serde_json::json;

const PLAIN: &str = "<!doctype html><meta name=viewport content='width=device-width'><title>A plain page</title>\
                     <body style='background:#0a7;color:#fff;font:3rem sans-serif'><h1>Hello</h1>";

/// Width and height of a JPEG, from its frame header.
fn jpeg_size(bytes: &[u8]) -> (u16, u16) {
    assert_eq!(bytes[..3], [0xff, 0xd8, 0xff]);
    let mut at = 2;
    loop {
        let length = usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]));
        if matches!(bytes[at + 1], 0xc0..=0xc2) {
            let side = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            return (side(at + 7), side(at + 5));
        }
        at += 2 + length;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn a_page_is_pictured_in_five_sizes_and_the_browser_stays_open() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = chromium(&data).start();
    let client = server.client();
    let site = Site::start("127.0.0.1:0", |path| match path {
        "/from" => redirect("/to"),
        _ => PLAIN.to_owned(),
    })
    .await;
    let started = Instant::now();
    let answer = post(&client, "main", &json!({ "url": site.url("/from") })).await;
    println!("five pictures with a cold browser: {:?}", started.elapsed());
    assert_eq!(answer.status, 201, "{answer:?}");
    let about = &answer.body["about"];
    assert_eq!(
        (&about["title"], &about["status"]),
        (&json!("A plain page"), &json!(200))
    );
    assert_eq!(about["final_url"], site.url("/to"));
    assert_eq!(about["cold_browser"], true);
    // Chromium itself connects to nothing.
    assert_eq!(about["blocked"], json!([]));
    for picture in answer.body["pictures"].as_array().unwrap() {
        let stored = data.join("pictures").join(picture["key"].as_str().unwrap());
        let (width, height) = jpeg_size(&std::fs::read(stored).unwrap());
        assert_eq!(picture["size"], format!("{width}x{height}"));
    }
    let first = browsers(&data);
    for _ in 0..3 {
        let started = Instant::now();
        let answer = post(&client, "main", &json!({ "url": site.url("/warm") })).await;
        println!("five pictures with a warm browser: {:?}", started.elapsed());
        assert_eq!(answer.body["about"]["cold_browser"], false, "{answer:?}");
    }
    assert!(!first.is_empty() && first.iter().all(|pid| browsers(&data).contains(pid)));
    assert!(server.stop().success());
    until("the browser to end", async || {
        browsers(&data).is_empty().then_some(())
    })
    .await;
    assert_eq!(
        files(&data.join("browsers")),
        Vec::<std::path::PathBuf>::new()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn nothing_that_a_page_loads_reaches_a_forbidden_address() {
    let dir = tempfile::tempdir().unwrap();
    let server = chromium(&dir.path().join("data")).start();
    let client = server.client();
    // Of this machine too, but not allowed.
    let private = Site::start("127.0.0.2:0", |_| "secret".to_owned()).await;
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let (target, stun) = (private.address, udp.local_addr().unwrap());
    let page = format!(
        "<!doctype html><title>waiting</title><link rel=dns-prefetch href=//{target}><link rel=preconnect href=http://{target}>\
         <link rel=stylesheet href=http://{target}/style><img src=http://{target}/image><img src=/redirect>\
         <iframe src=http://{target}/frame></iframe><iframe src=file:///etc/passwd></iframe>\
         <video src=http://{target}/video></video><script src=http://{target}/script></script><script>\
         const ends = [];\
         ends.push(fetch('http://{target}/fetch', {{ mode: 'no-cors' }}).then(() => 'fetched', () => 'refused'));\
         ends.push(fetch('/redirect', {{ mode: 'no-cors' }}).then(() => 'fetched', () => 'refused'));\
         ends.push(new Promise(end => {{ const s = new WebSocket('ws://{target}/socket'); \
           s.onopen = () => end('opened'); s.onerror = () => end('refused'); }}));\
         ends.push(new Promise(end => {{ const p = new RTCPeerConnection({{ iceServers: [{{ urls: 'stun:{stun}' }}] }}); \
           p.createDataChannel('x'); p.onicegatheringstatechange = () => p.iceGatheringState === 'complete' && end('refused'); \
           p.createOffer().then(o => p.setLocalDescription(o)); setTimeout(() => end('refused'), 3000); }}));\
         navigator.sendBeacon('http://{target}/beacon'); new Worker(URL.createObjectURL(new Blob([\
           `fetch('http://{target}/worker', {{ mode: 'no-cors' }})`])));\
         open('http://{target}/popup');\
         Promise.all(ends).then(all => document.title = all.join(' '));</script>"
    );
    let to = format!("http://{target}/redirected");
    let site = Site::start("127.0.0.1:0", move |path| match path {
        "/" => page.clone(),
        "/redirect" => redirect(&to),
        _ => PLAIN.to_owned(),
    })
    .await;
    let body = json!({ "url": site.url("/"), "sizes": ["300x200"], "delay_ms": 5_000 });
    let answer = post(&client, "main", &body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let about = &answer.body["about"];
    assert_eq!(about["title"], "refused refused refused refused");
    let blocked: Vec<&str> = about["blocked"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it.as_str())
        .collect();
    assert!(
        blocked.contains(&target.to_string().as_str()),
        "{blocked:?}"
    );
    // The page itself: by redirect, and by a name.
    for url in [
        site.url("/redirect"),
        format!("http://private.localhost:{}/", target.port()),
    ] {
        let answer = take(&client, "main", &url).await;
        assert_ne!(answer.status, 201, "{answer:?}");
    }
    assert_eq!(private.seen(), Vec::<String>::new());
    let mut datagram = [0; 64];
    assert!(
        udp.recv_from(&mut datagram).is_err(),
        "a datagram went past the proxy"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn pages_that_hang_crash_or_load_without_end_are_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = chromium(&data)
        .arg("--page-time=5")
        .arg("--page-bytes=1000000")
        .start();
    let client = server.client();
    let site = Site::start("127.0.0.1:0", |path| match path {
        "/loop" => "<script>while (true);</script>".to_owned(),
        "/dialog" => "<title>closed</title><script>alert('stay'); confirm('stay'); prompt('stay');</script>".to_owned(),
        "/unload" => "<title>left</title><script>onbeforeunload = e => e.preventDefault()</script>".to_owned(),
        "/download" => "HTTP/1.1 200 OK\r\nContent-Type: application/zip\r\nContent-Disposition: attachment\r\nContent-Length: 2\r\n\r\nPK".to_owned(),
        "/large" => "x".repeat(2_000_000),
        "/never" => "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".to_owned(),
        _ => PLAIN.to_owned(),
    })
    .await;
    for (path, status, code) in [
        ("/loop", 504, "page_too_slow"),
        ("/download", 502, "page_unreachable"),
        ("/large", 502, "page_too_large"),
    ] {
        let answer = take(&client, "main", &site.url(path)).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code()),
            (status, code),
            "{path}: {answer:?}"
        );
    }
    for (path, title) in [
        ("/dialog", "closed"),
        ("/unload", "left"),
        ("/", "A plain page"),
    ] {
        let answer = take(&client, "main", &site.url(path)).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.body["about"]["title"]),
            (201, &json!(title)),
            "{path}: {answer:?}"
        );
    }
    let refused = take(&client, "main", "http://127.0.0.1:9/").await;
    assert_eq!(refused.code(), "page_unreachable");
    // The whole browser crashes while it is idle.
    let main = *browsers(&data).iter().min().unwrap();
    let pid = rustix::process::Pid::from_raw(main.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let answer = take(&client, "main", &site.url("/after")).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    until("the crashed browser's processes to end", async || {
        group(main).is_empty().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn no_process_of_chromium_stays_after_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = chromium(&data).start();
    let client = server.client();
    let site = Site::start("127.0.0.1:0", |_| PLAIN.to_owned()).await;
    for session in ["one", "two"] {
        let answer = take(&client, session, &site.url("/")).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    let mains: Vec<u32> = browsers(&data)
        .into_iter()
        .filter(|pid| group(*pid).len() > 1)
        .collect();
    assert_eq!(mains.len(), 2, "each browser leads its own group");
    server.kill();
    until("all processes to end", async || {
        mains
            .iter()
            .all(|main| group(*main).is_empty())
            .then_some(())
    })
    .await;
    let server = chromium(&data).start();
    assert_eq!(
        files(&data.join("browsers")),
        Vec::<std::path::PathBuf>::new()
    );
    assert_eq!(shots(&server.client(), "one").await[0]["state"], "done");
    assert_eq!(
        take(&server.client(), "one", &site.url("/")).await.status,
        201
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn the_gallery_takes_shows_and_removes_screenshots() {
    let dir = tempfile::tempdir().unwrap();
    let server = chromium(&dir.path().join("data")).start();
    let client = server.client();
    let site = Site::start("127.0.0.1:0", |_| {
        "<!doctype html><meta name=viewport content='width=device-width'><title>Harbour Coffee</title><style>\
         body{margin:0;font:18px Georgia,serif;background:#fff8ef;color:#3a2416}header{padding:12vh 8vw;background:linear-gradient(120deg,#7a3e1d,#d9903f);color:#fff}\
         h1{font-size:clamp(2rem,6vw,4.5rem);margin:0}main{display:grid;grid-template-columns:repeat(auto-fit,minmax(220px,1fr));gap:24px;padding:5vh 8vw}\
         section{background:#fff;border-radius:16px;padding:24px;box-shadow:0 4px 20px #0001}</style>\
         <header><h1>Harbour Coffee</h1><p>Roasted by the sea since 1987.</p></header>\
         <main><section><h2>Beans</h2><p>From small farms.</p></section><section><h2>Visit</h2><p>Quay 4, daily from 7.</p></section>\
         <section><h2>Classes</h2><p>Latte art on Saturdays.</p></section></main>".to_owned()
    })
    .await;
    let browser = Browser::start().await;
    let page = browser.open(&client.url("/")).await;
    page.until("document.body?.innerText.includes('No screenshots yet')")
        .await;
    axe(&page, "browser-sessions-empty").await;
    page.fill("#url", &site.url("/menu")).await;
    page.click(".take button").await;
    page.until("document.querySelectorAll('.shot[data-state=done] img').length === 5")
        .await;
    page.until("document.querySelector('.pill[data-state=idle]')")
        .await;
    page.eval("document.querySelectorAll('img').forEach(it => it.loading = 'eager')")
        .await;
    page.until("[...document.images].every(it => it.complete && it.naturalWidth > 0)")
        .await;
    page.eval("document.querySelector('#format').value = 'pdf'")
        .await;
    page.fill("#url", &site.url("/print")).await;
    page.click(".take button").await;
    page.until("document.querySelector('a.document[href$=\"page.pdf\"]')")
        .await;
    axe(&page, "browser-sessions-gallery").await;
    page.fill("#url", "http://10.0.0.1/").await;
    page.click(".take button").await;
    page.until("document.body?.innerText.includes('outbound.allow_private')")
        .await;
    axe(&page, "browser-sessions-error").await;
    page.click(".empty a").await;
    page.click("form[action$=close] button").await;
    page.until("document.querySelector('.pill[data-state=closed]')")
        .await;
    page.click("form[action$=remove] button").await;
    page.until("document.querySelectorAll('.shot').length === 1")
        .await;
    page.click("form[action$=remove] button").await;
    page.until("document.body?.innerText.includes('No screenshots yet')")
        .await;
    assert_eq!(shots(&client, "main").await.len(), 0);
}
