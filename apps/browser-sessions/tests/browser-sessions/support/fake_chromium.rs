//! A browser that tests start in Chromium's place: it speaks the `DevTools` protocol on descriptors 3 and 4, and does
//! what a page's path says. It loads no page; `/through-proxy` connects to the page's host through the page's proxy,
//! as Chromium would.
#![forbid(unsafe_code)]

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};

/// What a session, and so a page, has.
#[derive(Default)]
struct Page {
    proxy: String,
    url: String,
    size: (u64, u64),
    /// What its size was when it was loaded: pictures show that.
    seen: (u64, u64),
    frame: String,
}

struct Browser {
    events: File,
    next: u64,
    /// Proxies by context, contexts by target, and pages by session.
    proxies: HashMap<String, String>,
    contexts: HashMap<String, String>,
    pages: HashMap<String, Page>,
}

fn main() {
    let (Ok(commands), Ok(events)) = (
        File::open("/proc/self/fd/3"),
        File::options().write(true).open("/proc/self/fd/4"),
    ) else {
        eprintln!("fake-chromium is started by browser-sessions");
        return;
    };
    let mut browser = Browser {
        events,
        next: 0,
        proxies: HashMap::new(),
        contexts: HashMap::new(),
        pages: HashMap::new(),
    };
    let mut commands = BufReader::new(commands);
    loop {
        let mut command = Vec::new();
        match commands.read_until(0, &mut command) {
            // The program has ended, and so does its browser.
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        command.pop();
        if let Ok(command) = serde_json::from_slice(&command) {
            browser.obey(&command);
        }
    }
}

impl Browser {
    fn say(&mut self, message: &Value) {
        let mut text = message.to_string().into_bytes();
        text.push(0);
        if self.events.write_all(&text).is_err() {
            std::process::exit(0);
        }
    }

    fn new_id(&mut self, kind: &str) -> String {
        self.next += 1;
        format!("{kind}-{}", self.next)
    }

    fn obey(&mut self, command: &Value) {
        let method = command["method"].as_str().unwrap_or_default();
        let params = &command["params"];
        let session = command["sessionId"].as_str().unwrap_or_default().to_owned();
        let mut answer = json!({ "id": command["id"] });
        if !session.is_empty() {
            answer["sessionId"] = session.as_str().into();
        }
        let hangs = self
            .pages
            .values()
            .any(|page| page.url.ends_with("/never-closes"));
        let page = self.pages.entry(session.clone()).or_default();
        let path = page.url.clone();
        answer["result"] = match method {
            "Target.createBrowserContext" => {
                let context = self.new_id("context");
                let proxy = text(&params["proxyServer"]);
                self.proxies.insert(context.clone(), proxy);
                json!({ "browserContextId": context })
            }
            "Target.createTarget" => {
                let target = self.new_id("target");
                let context = text(&params["browserContextId"]);
                self.contexts.insert(target.clone(), context);
                json!({ "targetId": target })
            }
            "Target.attachToTarget" => {
                let session = self.new_id("session");
                let frame = text(&params["targetId"]);
                let page = Page {
                    proxy: self.proxies[&self.contexts[&frame]].clone(),
                    frame,
                    ..Page::default()
                };
                self.pages.insert(session.clone(), page);
                json!({ "sessionId": session })
            }
            "Target.disposeBrowserContext" if hangs => return,
            "Page.getFrameTree" => json!({ "frameTree": { "frame": { "loaderId": "blank" } } }),
            "Emulation.setDeviceMetricsOverride" => {
                let side = |name: &str| params[name].as_u64().unwrap_or(0);
                page.size = (side("width"), side("height"));
                json!({})
            }
            "Page.navigate" => {
                page.url = text(&params["url"]);
                page.seen = page.size;
                match navigate(page) {
                    Some(result) => result,
                    None => return self.load(&answer, &session),
                }
            }
            "Runtime.evaluate" if text(&params["expression"]).contains("document.title") => {
                let value = json!({ "title": "A fake page", "url": path, "status": 200 });
                json!({ "result": { "value": value } })
            }
            "Runtime.evaluate" if text(&params["expression"]).contains("querySelector") => {
                let expression = text(&params["expression"]);
                let value = if expression.contains("#missing") {
                    Value::Null
                } else if expression.contains("[[") {
                    "no selector".into()
                } else {
                    json!({ "x": 1, "y": 1, "text": "A fake text" })
                };
                json!({ "result": { "value": value } })
            }
            "Page.printToPDF" => json!({ "stream": path }),
            "IO.read" => {
                let document = format!("%PDF of {}", text(&params["handle"]));
                json!({ "data": BASE64_STANDARD.encode(document), "base64Encoded": true, "eof": true })
            }
            "Page.captureScreenshot" => {
                let size = if path.ends_with("/large") {
                    20 << 20
                } else {
                    0
                };
                let mut picture = format!("{}x{} of {path}", page.seen.0, page.seen.1).into_bytes();
                picture.resize(picture.len() + size, b' ');
                json!({ "data": BASE64_STANDARD.encode(picture) })
            }
            _ => json!({}),
        };
        self.say(&answer);
    }

    /// The page is there, and then all of it is loaded.
    fn load(&mut self, answer: &Value, session: &str) {
        let Page { url, frame, .. } = &self.pages[session];
        let (url, frame) = (url.clone(), frame.clone());
        let mut answer = answer.clone();
        answer["result"] = json!({ "frameId": frame, "loaderId": "page" });
        self.say(&answer);
        let event = |method: &str, params: Value| json!({ "method": method, "sessionId": session, "params": params });
        if url.ends_with("/crash") {
            self.say(&event("Inspector.targetCrashed", json!({})));
        }
        if !url.ends_with("/never-loads") && !url.ends_with("/never-closes") {
            let params = json!({ "name": "load", "frameId": frame, "loaderId": "page" });
            self.say(&event("Page.lifecycleEvent", params));
        }
    }
}

/// The answer at once, or `None` if the page is loaded.
fn navigate(page: &Page) -> Option<Value> {
    let failed = |reason: &str| Some(json!({ "errorText": reason }));
    if page.url.ends_with("/browser-crash") {
        std::process::exit(1);
    }
    if page.url.ends_with("/without-end") {
        let mut all = Vec::new();
        loop {
            all.push(vec![1_u8; 4 << 20]);
        }
    }
    if page.url.ends_with("/crash-once") {
        // The next browser finds the mark, beside the profiles, and continues.
        let profile = std::env::args()
            .find_map(|argument| argument.strip_prefix("--user-data-dir=").map(str::to_owned));
        let mark = std::path::PathBuf::from(profile?).parent()?.join("crashed");
        if File::create_new(mark).is_ok() {
            std::process::exit(1);
        }
    }
    if page.url.ends_with("/slow") {
        std::thread::sleep(Duration::from_millis(300));
    }
    if page.url.ends_with("/through-proxy") && connect(&page.proxy, &page.url).is_err() {
        return failed("net::ERR_SOCKS_CONNECTION_FAILED");
    }
    None
}

/// Connects through a page's proxy and asks for the page.
fn connect(proxy: &str, url: &str) -> std::io::Result<()> {
    let url = url::Url::parse(url).map_err(std::io::Error::other)?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let mut stream = TcpStream::connect(proxy.trim_start_matches("socks5://"))?;
    stream.write_all(&[5, 1, 0])?;
    stream.read_exact(&mut [0; 2])?;
    let mut request = vec![5, 1, 0, 3, host.len() as u8];
    request.extend(host.bytes());
    request.extend(url.port_or_known_default().unwrap_or(0).to_be_bytes());
    stream.write_all(&request)?;
    let mut reply = [0; 10];
    stream.read_exact(&mut reply)?;
    if reply[1] != 0 {
        return Err(std::io::Error::other("refused"));
    }
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut body = Vec::new();
    stream.read_to_end(&mut body).map(drop)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
