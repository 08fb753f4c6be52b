//! Checks every route of every listener of a program, as each kind of caller.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
};

use crate::{Program, in_time};

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// Tokens of a data directory.
#[derive(Clone, Debug)]
pub struct WalkTokens {
    /// Of the role `read`.
    pub reader: String,
    /// Of the role `admin`.
    pub admin: String,
    /// Of the role `admin`, for objects that do not exist.
    pub elsewhere: String,
    /// Invalid tokens: of another directory, expired, revoked.
    pub invalid: Vec<String>,
}

/// Starts the program where other machines can reach it, and sends requests with each method to each of its routes,
/// which it logs: without a token, with each invalid one, with a read-only one, and with one for other objects. All
/// must be rejected except those in `open`, such as `GET /healthz` or `POST /hooks/{id}`, which must only exist. `log`
/// is the program's log file.
///
/// # Panics
/// If a request is accepted that must be rejected, if `open` names a route that the program does not have, or if other
/// users can read the program's files.
pub async fn walk(program: Program, log: &Path, tokens: &WalkTokens, open: &[&str]) {
    let program = program
        .listen("0.0.0.0:0")
        .env("ABIDE__LOG__LEVEL", "warn,abide_server=debug")
        .env("ABIDE__LOG__FORMAT", "json");
    let program = program.log_to(log);
    let server = program.start();
    let port = |address: &str| {
        let (_, port) = address.rsplit_once(':').expect("an address has a port");
        port.parse().expect("a port")
    };
    let listeners = [
        ("server", port(server.address())),
        ("admin", port(server.admin())),
    ];
    let mut walker = Walker { clients: 0 };
    let mut seen = Vec::new();
    for (listener, port) in listeners {
        let paths = routes(log, listener);
        assert!(!paths.is_empty(), "the {listener} logs no routes");
        for path in paths {
            for method in METHODS {
                let route = format!("{method} {path}");
                seen.push(route.clone());
                if !open.contains(&&*route) {
                    walker.must_refuse(port, method, &path, tokens).await;
                }
            }
        }
    }
    for route in open {
        assert!(seen.iter().any(|seen| seen == route), "there is no {route}");
    }
    assert_private(program.data());
    server.stop();
    assert_private(program.data());
}

/// Checks that this directory, its subdirectories and all files are accessible only to their owner.
///
/// # Panics
/// If one is not.
pub fn assert_private(dir: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mut waiting = vec![dir.to_owned()];
    while let Some(path) = waiting.pop() {
        // A running program removes files.
        let Ok(found) = std::fs::symlink_metadata(&path) else {
            continue;
        };
        let expected = if found.is_dir() { 0o700 } else { 0o600 };
        let mode = found.permissions().mode() & 0o777;
        assert_eq!(mode, expected, "{} has mode {mode:o}", path.display());
        if found.is_dir() {
            let entries = std::fs::read_dir(&path).into_iter().flatten();
            waiting.extend(entries.flatten().map(|entry| entry.path()));
        }
    }
}

/// The routes of a listener, from the log.
fn routes(log: &Path, listener: &str) -> Vec<String> {
    let text = std::fs::read_to_string(log).expect("a log");
    let lines = text.lines().filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_ours = line["message"] == "routes" && line["listener"] == listener;
        is_ours.then(|| line["paths"].as_str().unwrap_or_default().to_owned())
    });
    let paths = lines.flat_map(|paths| {
        let paths: Vec<String> = paths.split(' ').map(str::to_owned).collect();
        paths
    });
    paths.filter(|path| !path.is_empty()).collect()
}

struct Walker {
    clients: u32,
}

impl Walker {
    async fn must_refuse(&mut self, port: u16, method: &str, path: &str, tokens: &WalkTokens) {
        let route = format!("{method} {path}");
        let path = filled(path);
        if self.ask(port, method, &path, Some(&tokens.admin)).await == 405 {
            return;
        }
        let without = self.ask(port, method, &path, None).await;
        assert_eq!(without, 401, "{route} without a token");
        for token in &tokens.invalid {
            let status = self.ask(port, method, &path, Some(token)).await;
            assert_eq!(status, 401, "{route} with a token that is not valid");
        }
        let elsewhere = self.ask(port, method, &path, Some(&tokens.elsewhere)).await;
        assert_eq!(elsewhere, 403, "{route} with a token for other objects");
        let reader = self.ask(port, method, &path, Some(&tokens.reader)).await;
        if method == "GET" {
            assert_ne!(reader, 401, "{route} with a token that may read");
        } else {
            assert_eq!(reader, 403, "{route} with a token that may only read");
        }
        let admin = self.ask(port, method, &path, Some(&tokens.admin)).await;
        assert!(
            ![401, 403].contains(&admin),
            "{route} with a token: {admin}"
        );
    }

    /// Sends a request from a unique address, since repeated failures are throttled. Returns the status.
    async fn ask(&mut self, port: u16, method: &str, path: &str, token: Option<&str>) -> u16 {
        self.clients += 1;
        let own = Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 0).to_bits() + self.clients);
        let socket = TcpSocket::new_v4().expect("a socket");
        let bound = socket.bind(SocketAddr::from((own, 0)));
        bound.expect("every address of 127/8 is this machine's");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut stream = socket.connect(address).await.expect("the program accepts");
        let token = token.map_or_else(String::new, |token| {
            format!("authorization: Bearer {token}\r\n")
        });
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\n{token}content-type: application/json\r\ncontent-length: 2\r\n\
             connection: close\r\n\r\n{{}}"
        );
        let sent = stream.write_all(request.as_bytes()).await;
        sent.expect("the program reads");
        let mut head = [0; 12];
        let read = stream.read_exact(&mut head);
        in_time("an answer", read).await.expect("an answer");
        let status = str::from_utf8(&head[9..]).expect("a status is text");
        status.parse().expect("a status is a number")
    }
}

/// The path with its parameters filled in.
fn filled(path: &str) -> String {
    let filled = path.split('/').map(|part| match part {
        "{date}" => "2030-01-01",
        part if part.starts_with('{') => "1",
        part => part,
    });
    filled.collect::<Vec<_>>().join("/")
}
