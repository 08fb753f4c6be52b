//! A node that runs, asked through one of its listeners.

use abide::server::{Config, ListenAddress};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use ureq::{Agent, Body, RequestBuilder, http::Response, typestate::WithBody};

use crate::data::{Data, DataArgs};

/// Which node.
#[derive(Args)]
pub(crate) struct NodeArgs {
    /// Admin listener of the running node [default: what the settings say, such as <http://127.0.0.1:8081>]
    #[arg(long, value_name = "URL")]
    admin: Option<String>,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// A running node.
pub(crate) struct Node {
    base: String,
    agent: Agent,
    /// What to name with which option if it does not answer.
    option: &'static str,
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
    message: String,
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

    /// The node that was named, or that the settings speak of.
    fn node(&self) -> Result<Node> {
        let base = match &self.admin {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => {
                let config = self.data.config()?;
                admin_address(config.admin.listen.as_ref())?
            }
        };
        Ok(Node::new(base, "its admin listener with --admin"))
    }
}

/// Where the settings say that the admin listener is.
fn admin_address(listen: Option<&ListenAddress>) -> Result<String> {
    let Some(listen) = listen else {
        bail!(
            "the settings turn the admin listener off, so a running node cannot be asked: set admin.listen, or name a listener with --admin"
        );
    };
    address(listen.as_str(), "admin.listen", "--admin")
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
    /// A node at an address, and what to name with which option if it is not there.
    pub(crate) fn new(base: String, option: &'static str) -> Self {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            // The node is on this machine or near it, and what is asked is nobody else's business.
            .proxy(None)
            .build();
        Self {
            base,
            agent: agent.into(),
            option,
        }
    }

    /// Asks something.
    pub(crate) fn get<R: DeserializeOwned>(&self, path: &str) -> Result<R> {
        let answer = self.agent.get(format!("{}{path}", self.base)).call();
        self.read(answer)
    }

    /// Changes something. An answer without content reads as `()`.
    pub(crate) fn post<R: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<R> {
        self.send(self.agent.post(format!("{}{path}", self.base)), body)
    }

    /// Puts something in the place of another.
    pub(crate) fn put<R: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<R> {
        self.send(self.agent.put(format!("{}{path}", self.base)), body)
    }

    /// Removes something.
    pub(crate) fn delete<R: DeserializeOwned>(&self, path: &str) -> Result<R> {
        let answer = self.agent.delete(format!("{}{path}", self.base)).call();
        self.read(answer)
    }

    fn send<R: DeserializeOwned>(
        &self,
        request: RequestBuilder<WithBody>,
        body: &impl Serialize,
    ) -> Result<R> {
        let answer = request
            .header("x-abide-admin", "1")
            .header("content-type", "application/json")
            .send(serde_json::to_string(body)?);
        self.read(answer)
    }

    fn read<R: DeserializeOwned>(&self, answer: Result<Response<Body>, ureq::Error>) -> Result<R> {
        let mut answer = answer
            .with_context(|| format!("no node answers at {}; name {}", self.base, self.option))?;
        let status = answer.status();
        let body = answer.body_mut().read_to_string()?;
        if !status.is_success() {
            match serde_json::from_str::<Refusal>(&body) {
                Ok(refusal) => bail!("{}", refusal.error.message),
                Err(_) => bail!("{} answered {status}", self.base),
            }
        }
        let body = if body.is_empty() { "null" } else { &body };
        serde_json::from_str(body)
            .with_context(|| format!("{} gave an answer of another form", self.base))
    }
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
    fn the_admin_listener_is_found_in_the_settings() {
        let at = |listen: &str| {
            address(listen, "admin.listen", "--admin").map_err(|error| error.to_string())
        };
        let found = |address: &str| Ok(address.to_owned());
        assert_eq!(at("10.0.0.1:8081"), found("http://10.0.0.1:8081"));
        assert_eq!(at("0.0.0.0:99"), found("http://127.0.0.1:99"));
        assert_eq!(at("[::]:99"), found("http://[::1]:99"));
        assert!(at("127.0.0.1:0").unwrap_err().contains("--admin"));
        let off = admin_address(None).unwrap_err().to_string();
        assert!(off.contains("admin.listen"), "{off}");
    }

    #[test]
    fn a_name_with_slashes_stays_one_part_of_the_path() {
        assert_eq!(segment("BA117/2026-12-01 é"), "BA117%2F2026-12-01%20%C3%A9");
    }
}
