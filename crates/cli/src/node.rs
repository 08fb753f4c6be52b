//! A node that runs, asked through one of its listeners or the Unix socket in its data directory.

use std::{
    fmt,
    fs::File,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

use abide::server::Config;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use reqwest::{Client, Method, RequestBuilder, Response};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::runtime::Runtime;

use crate::data::{Data, DataArgs};

/// The Unix socket of a node, in its data directory.
const SOCKET: &str = "admin.sock";

/// Which node.
#[derive(Args)]
pub(crate) struct NodeArgs {
    /// Admin listener of the running node, such as <http://127.0.0.1:8081> [default: the Unix socket in the data directory]
    #[arg(long, value_name = "URL")]
    admin: Option<String>,

    #[command(flatten)]
    token: TokenArgs,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// What lets the command in.
#[derive(Args)]
pub(crate) struct TokenArgs {
    /// File with the token to send [default: what the variable `ABIDE_TOKEN` holds]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// A running node.
pub(crate) struct Node {
    /// Where requests go.
    base: String,
    /// The same for people.
    place: String,
    client: Client,
    runtime: Runtime,
    token: Option<String>,
    /// What to do if it does not answer.
    hint: String,
    /// Kept open while its socket is used.
    dir: Option<File>,
}

/// The data directory, or the node that has it.
pub(crate) enum Source {
    Data(Data),
    Node(Node),
}

/// The form of an error answer.
#[derive(Deserialize)]
struct Refusal {
    error: ErrorBody,
}

#[derive(Deserialize)]
struct ErrorBody {
    code: String,
    message: String,
}

/// What a node refused, and why.
#[derive(Debug)]
struct Refused {
    code: String,
    message: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refused {}

/// True if a node refused because an object is not there.
pub(crate) fn is_no_object(error: &anyhow::Error) -> bool {
    let refused = error.downcast_ref::<Refused>();
    refused.is_some_and(|refused| refused.code == "no_such_object")
}

impl NodeArgs {
    /// Where to look: the node, if one was named or one serves the directory, else the directory.
    pub(crate) fn source(&self) -> Result<Source> {
        // If a node was named the data directory does not matter.
        if self.admin.is_none()
            && let Some(data) = self.data.open_unless_served()?
        {
            return Ok(Source::Data(data));
        }
        Ok(Source::Node(self.node()?))
    }

    /// The node that was named, or that serves the directory.
    pub(crate) fn node(&self) -> Result<Node> {
        match &self.admin {
            Some(url) => Node::at(url, "its admin listener with --admin", &self.token),
            None => Node::of_directory(&self.data.config()?.data.dir),
        }
    }
}

impl TokenArgs {
    fn read(&self) -> Result<Option<String>> {
        let text = match &self.token_file {
            Some(path) => std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the token in {}", path.display()))?,
            None => match std::env::var("ABIDE_TOKEN") {
                Ok(token) => token,
                Err(_) => return Ok(None),
            },
        };
        Ok(Some(text.trim().to_owned()))
    }
}

/// Where the settings say that the listener for clients is.
pub(crate) fn server_address(config: &Config) -> Result<String> {
    address(config.server.listen.as_str(), "server.listen", "--url")
}

fn address(listen: &str, setting: &str, option: &str) -> Result<String> {
    let (host, port) = listen
        .rsplit_once(':')
        .ok_or_else(|| anyhow!("{setting} is {listen:?}, without a port"))?;
    if port == "0" {
        bail!(
            "{setting} takes any free port: name the one that the node has printed with {option}"
        );
    }
    // "Every address of the machine" is reached at its own.
    let host = match host {
        "0.0.0.0" | "" => "127.0.0.1",
        "[::]" => "[::1]",
        host => host,
    };
    Ok(format!("http://{host}:{port}"))
}

impl Node {
    /// A node at an address; what to name with which option if it is not there.
    pub(crate) fn at(url: &str, option: &str, token: &TokenArgs) -> Result<Self> {
        let base = url.trim_end_matches('/').to_owned();
        Self::new(
            base.clone(),
            base,
            None,
            token.read()?,
            format!("name {option}"),
        )
    }

    /// The node that serves a data directory, on this machine and for this user.
    pub(crate) fn of_directory(dir: &Path) -> Result<Self> {
        let place = dir.join(SOCKET).display().to_string();
        // The path of a socket has 107 bytes at most, whatever the directory's is.
        let dir = File::open(dir).with_context(|| format!("cannot open {}", dir.display()))?;
        let path = format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd());
        let hint = "it starts or ends, or runs on another machine: try again, or name its admin listener with --admin";
        // The authority is not looked at.
        let base = "http://abide".to_owned();
        let mut node = Self::new(base, place, Some(path), None, hint.to_owned())?;
        node.dir = Some(dir);
        Ok(node)
    }

    fn new(
        base: String,
        place: String,
        socket: Option<String>,
        token: Option<String>,
        hint: String,
    ) -> Result<Self> {
        // Only the first of several is taken.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // The node is on this machine or near it, and what is asked is nobody else's business.
        let mut client = Client::builder().no_proxy();
        if let Some(socket) = socket {
            client = client.unix_socket(socket);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Self {
            base,
            place,
            client: client.build()?,
            runtime,
            token,
            hint,
            dir: None,
        })
    }

    /// True if a token says what the command may do.
    pub(crate) fn sends_token(&self) -> bool {
        self.token.is_some()
    }

    /// Asks something.
    pub(crate) fn get<R: DeserializeOwned>(&self, path: &str) -> Result<R> {
        self.send(self.request(Method::GET, path))
    }

    /// Changes something. An answer without content reads as `()`.
    pub(crate) fn post<R: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<R> {
        self.send(with_json(self.request(Method::POST, path), body)?)
    }

    /// Puts something in the place of another.
    pub(crate) fn put<R: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<R> {
        self.send(with_json(self.request(Method::PUT, path), body)?)
    }

    /// Removes something.
    pub(crate) fn delete<R: DeserializeOwned>(&self, path: &str) -> Result<R> {
        self.send(self.request(Method::DELETE, path))
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    fn send<R: DeserializeOwned>(&self, request: RequestBuilder) -> Result<R> {
        self.runtime.block_on(async {
            let answer = request.send().await;
            let answer = answer
                .with_context(|| format!("no node answers at {}; {}", self.place, self.hint))?;
            self.read(answer).await
        })
    }

    async fn read<R: DeserializeOwned>(&self, answer: Response) -> Result<R> {
        let status = answer.status();
        let body = answer.bytes().await?;
        if !status.is_success() {
            match serde_json::from_slice::<Refusal>(&body) {
                Ok(Refusal { error }) => bail!(Refused {
                    code: error.code,
                    message: error.message,
                }),
                Err(_) => bail!("{} answered {status}", self.place),
            }
        }
        let body = if body.is_empty() { &b"null"[..] } else { &body };
        serde_json::from_slice(body)
            .with_context(|| format!("{} gave an answer of another form", self.place))
    }
}

fn with_json(request: RequestBuilder, body: &impl Serialize) -> Result<RequestBuilder> {
    Ok(request
        .header("content-type", "application/json")
        .body(serde_json::to_string(body)?))
}

/// A part of a path, with whatever could be taken for something else escaped.
pub(crate) fn segment(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut path, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            let _ = write!(path, "%{byte:02X}");
        }
        path
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listener_is_found_in_the_settings() {
        let at = |listen: &str| {
            address(listen, "server.listen", "--url").map_err(|error| error.to_string())
        };
        let found = |address: &str| Ok(address.to_owned());
        assert_eq!(at("10.0.0.1:8080"), found("http://10.0.0.1:8080"));
        assert_eq!(at("0.0.0.0:99"), found("http://127.0.0.1:99"));
        assert_eq!(at("[::]:99"), found("http://[::1]:99"));
        assert!(at("127.0.0.1:0").unwrap_err().contains("--url"));
    }

    #[test]
    fn a_name_with_slashes_stays_one_part_of_the_path() {
        assert_eq!(segment("BA117/2026-12-01 é"), "BA117%2F2026-12-01%20%C3%A9");
    }
}
