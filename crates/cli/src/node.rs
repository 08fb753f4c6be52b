//! A running node, reached through one of its listeners or the Unix socket in its data directory.

use std::{
    fmt,
    fs::File,
    io::Write,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

use abide::server::Config;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use http::{HeaderMap, Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::runtime::Runtime;

use crate::{
    client::{Client, RequestBody},
    data::{Data, DataArgs},
    import::FileBody,
};

/// The Unix socket of a node, in its data directory.
const SOCKET: &str = "admin.sock";

/// The options that select a node.
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

/// The options for authentication.
#[derive(Args)]
pub(crate) struct TokenArgs {
    /// File with the token to send [default: the value of the variable `ABIDE_TOKEN`]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// A running node.
pub(crate) struct Node {
    /// The base URL for requests.
    base: String,
    /// A description of the node for messages.
    place: String,
    client: Box<Client>,
    runtime: Runtime,
    token: Option<String>,
    /// Advice if it does not answer.
    hint: String,
    /// Kept open while its socket is used.
    dir: Option<File>,
}

/// The data directory, or the node that serves it.
pub(crate) enum Source {
    Data(Data),
    Node(Node),
}

/// The JSON form of an error response.
#[derive(Deserialize)]
struct Refusal {
    error: ErrorBody,
}

#[derive(Deserialize)]
struct ErrorBody {
    code: String,
    message: String,
}

/// An error response of a node.
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

/// Returns whether a node responded that an object does not exist.
pub(crate) fn is_no_object(error: &anyhow::Error) -> bool {
    code(error) == Some("no_such_object")
}

/// The code of an error with which a node responded.
pub(crate) fn code(error: &anyhow::Error) -> Option<&str> {
    let refused = error.downcast_ref::<Refused>();
    refused.map(|refused| &*refused.code)
}

impl NodeArgs {
    /// The source of data: the node, if one was given or one serves the directory, otherwise the directory.
    pub(crate) fn source(&self) -> Result<Source> {
        // If a node was given, the data directory does not matter.
        if self.admin.is_none()
            && let Some(data) = self.data.open_unless_served()?
        {
            return Ok(Source::Data(data));
        }
        Ok(Source::Node(self.node()?))
    }

    /// The node that was given, or that serves the directory.
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

/// The address of the clients' listener according to the settings.
pub(crate) fn server_address(config: &Config) -> Result<String> {
    address(config.server.listen.as_str(), "server.listen", "--url")
}

fn address(listen: &str, setting: &str, option: &str) -> Result<String> {
    let (host, port) = listen
        .rsplit_once(':')
        .ok_or_else(|| anyhow!("{setting} is {listen:?}, without a port"))?;
    if port == "0" {
        bail!("{setting} uses any free port: pass the one that the node has printed with {option}");
    }
    // The wildcard address is reached at the loopback address.
    let host = match host {
        "0.0.0.0" | "" => "127.0.0.1",
        "[::]" => "[::1]",
        host => host,
    };
    Ok(format!("http://{host}:{port}"))
}

impl Node {
    /// A node at an address; `option` is the advice if it is not there.
    pub(crate) fn at(url: &str, option: &str, token: &TokenArgs) -> Result<Self> {
        let base = url.trim_end_matches('/').to_owned();
        Self::new(
            base.clone(),
            base,
            Client::new()?,
            token.read()?,
            format!("pass {option}"),
        )
    }

    /// The node that serves a data directory, on this machine and for this user.
    pub(crate) fn of_directory(dir: &Path) -> Result<Self> {
        let place = dir.join(SOCKET).display().to_string();
        // A socket's path has at most 107 bytes, however long the directory's is.
        let dir = File::open(dir).with_context(|| format!("cannot open {}", dir.display()))?;
        let path = format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd());
        let hint = "it is starting or stopping, or runs on another machine: try again, or pass its admin listener with --admin";
        // The authority is ignored.
        let base = "http://abide".to_owned();
        let mut node = Self::new(base, place, Client::of_socket(path), None, hint.to_owned())?;
        node.dir = Some(dir);
        Ok(node)
    }

    fn new(
        base: String,
        place: String,
        client: Client,
        token: Option<String>,
        hint: String,
    ) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Self {
            base,
            place,
            client: Box::new(client),
            runtime,
            token,
            hint,
            dir: None,
        })
    }

    /// Returns whether the command authenticates with a token.
    pub(crate) fn sends_token(&self) -> bool {
        self.token.is_some()
    }

    /// Sends a GET request.
    pub(crate) fn get<R: DeserializeOwned>(&self, path: &str) -> Result<R> {
        self.send(Method::GET, path, None)
    }

    /// Sends a POST request. A response without content reads as `()`.
    pub(crate) fn post<R: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<R> {
        self.send(Method::POST, path, Some(serde_json::to_string(body)?))
    }

    /// Sends a PUT request.
    pub(crate) fn put<R: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<R> {
        self.send(Method::PUT, path, Some(serde_json::to_string(body)?))
    }

    /// Sends a DELETE request.
    pub(crate) fn delete<R: DeserializeOwned>(&self, path: &str) -> Result<R> {
        self.send(Method::DELETE, path, None)
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        json: Option<String>,
    ) -> Result<Request<RequestBody>, http::Error> {
        let url = format!("{}{path}", self.base);
        let mut request = Request::builder().method(method).uri(url);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if json.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let body = Full::from(json.unwrap_or_default());
        request.body(body.map_err(|never| match never {}).boxed_unsync())
    }

    fn send<R: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        json: Option<String>,
    ) -> Result<R> {
        let no_answer = || format!("no node answers at {}; {}", self.place, self.hint);
        let request = self.request(method, path, json).with_context(no_answer)?;
        self.runtime.block_on(async {
            let answer = self.client.request(request).await;
            self.read(answer.with_context(no_answer)?).await
        })
    }

    /// Sends a POST request, and writes the body of the response to a file.
    pub(crate) fn download(
        &self,
        path: &str,
        body: &impl Serialize,
        to: &mut (impl Write + ?Sized),
    ) -> Result<HeaderMap> {
        let no_answer = || format!("no node answers at {}; {}", self.place, self.hint);
        let json = Some(serde_json::to_string(body)?);
        let request = self.request(Method::POST, path, json);
        let request = request.with_context(no_answer)?;
        self.runtime.block_on(async {
            let answer = self.client.request(request).await.with_context(no_answer)?;
            if !answer.status().is_success() {
                return Err(self.refusal(answer).await?);
            }
            let (head, mut body) = answer.into_parts();
            while let Some(frame) = body.frame().await {
                let frame =
                    frame.with_context(|| format!("{} broke off its response", self.place))?;
                if let Some(bytes) = frame.data_ref() {
                    to.write_all(bytes)?;
                }
            }
            Ok(head.headers)
        })
    }

    /// Sends a POST request with a file.
    pub(crate) fn upload<R: DeserializeOwned>(&self, path: &str, body: FileBody) -> Result<R> {
        let no_answer = || format!("no node answers at {}; {}", self.place, self.hint);
        let request = self.request(Method::POST, path, None);
        let mut request = request.with_context(no_answer)?;
        *request.body_mut() = body.boxed_unsync();
        self.runtime.block_on(async {
            let answer = self.client.request(request).await;
            self.read(answer.with_context(no_answer)?).await
        })
    }

    /// The error of a response.
    async fn refusal(&self, answer: Response<Incoming>) -> Result<anyhow::Error> {
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok(match serde_json::from_slice::<Refusal>(&body) {
            Ok(Refusal { error }) => anyhow!(Refused {
                code: error.code,
                message: error.message,
            }),
            Err(_) => anyhow!("{} answered {status}", self.place),
        })
    }

    async fn read<R: DeserializeOwned>(&self, answer: Response<Incoming>) -> Result<R> {
        if !answer.status().is_success() {
            return Err(self.refusal(answer).await?);
        }
        let body = answer.into_body().collect().await?.to_bytes();
        let body = if body.is_empty() { &b"null"[..] } else { &body };
        serde_json::from_slice(body)
            .with_context(|| format!("{} sent an unexpected response", self.place))
    }
}

/// A path segment with special characters escaped.
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
