//! A node that runs, asked through its admin listener.

use abide::server::ListenAddress;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use ureq::{Agent, Body, http::Response};

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
}

/// The data directory, or the node that has it.
pub(crate) enum Source {
    Data(Data),
    Node(Node),
}

/// The form of an error answer.
#[derive(Deserialize)]
struct Refusal {
    error: Told,
}

#[derive(Deserialize)]
struct Told {
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
                address(config.admin.listen.as_ref().map(ListenAddress::as_str))?
            }
        };
        let agent = Agent::config_builder().http_status_as_error(false).build();
        Ok(Node {
            base,
            agent: agent.into(),
        })
    }
}

/// Where the settings say that the admin listener is.
fn address(listen: Option<&str>) -> Result<String> {
    let Some(listen) = listen else {
        bail!(
            "the settings turn the admin listener off, so a running node cannot be asked: set admin.listen, or name a listener with --admin"
        );
    };
    let (host, port) = listen
        .rsplit_once(':')
        .ok_or_else(|| anyhow!("admin.listen is {listen:?}, without a port"))?;
    if port == "0" {
        bail!(
            "admin.listen takes any free port: name the one that the node has printed with --admin"
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
    /// Asks something.
    pub(crate) fn get<R: DeserializeOwned>(&self, path: &str) -> Result<R> {
        let answer = self.agent.get(format!("{}{path}", self.base)).call();
        self.read(answer)
    }

    /// Changes something. An answer without content reads as `()`.
    pub(crate) fn post<R: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<R> {
        let request = self.agent.post(format!("{}{path}", self.base));
        let answer = request
            .header("x-abide-admin", "1")
            .header("content-type", "application/json")
            .send(serde_json::to_string(body)?);
        self.read(answer)
    }

    fn read<R: DeserializeOwned>(&self, answer: Result<Response<Body>, ureq::Error>) -> Result<R> {
        let mut answer = answer.with_context(|| {
            format!(
                "no node answers at {}; name its admin listener with --admin",
                self.base
            )
        })?;
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
        let at = |listen: Option<&str>| address(listen).map_err(|error| error.to_string());
        let found = |address: &str| Ok(address.to_owned());
        assert_eq!(at(Some("10.0.0.1:8081")), found("http://10.0.0.1:8081"));
        assert_eq!(at(Some("0.0.0.0:99")), found("http://127.0.0.1:99"));
        assert_eq!(at(Some("[::]:99")), found("http://[::1]:99"));
        assert!(at(Some("127.0.0.1:0")).unwrap_err().contains("--admin"));
        assert!(at(None).unwrap_err().contains("admin.listen"));
    }

    #[test]
    fn a_name_with_slashes_stays_one_part_of_the_path() {
        assert_eq!(segment("BA117/2026-12-01 é"), "BA117%2F2026-12-01%20%C3%A9");
    }
}
