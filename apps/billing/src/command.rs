//! Commands for a running server, which owns the objects and continues to serve them.

use std::{
    io::{BufRead, BufReader, IsTerminal, Write},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use ureq::{Agent, Body, RequestBuilder, http::Response};

/// Characters of a progress bar.
const WIDTH: usize = 40;

/// The id prefix of each kind, and its path segment.
const KINDS: [(&str, &str); 7] = [
    ("prod_", "products"),
    ("price_", "prices"),
    ("cus_", "customers"),
    ("sub_", "subscriptions"),
    ("in_", "invoices"),
    ("pi_", "payment-intents"),
    ("re_", "refunds"),
];

/// A running server.
pub(crate) struct Server {
    base: String,
    agent: Agent,
    /// The header with the token.
    authorization: Option<String>,
}

/// The JSON form of an error response.
#[derive(Deserialize)]
struct Refusal {
    error: Told,
}

#[derive(Deserialize)]
struct Told {
    message: String,
}

/// A progress line of an operation on all resources.
#[derive(Deserialize)]
struct Step {
    resources: usize,
    done: usize,
    failed: usize,
    #[serde(default)]
    waiting: u64,
    outcomes: Option<i64>,
    failures: Vec<String>,
    error: Option<String>,
}

impl Server {
    pub(crate) fn new(url: &str, token: Option<&str>) -> Self {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            // Requests should not pass through a proxy.
            .proxy(None)
            .build();
        Self {
            base: url.trim_end_matches('/').to_owned(),
            agent: agent.into(),
            authorization: token.map(|token| format!("Bearer {token}")),
        }
    }

    /// Adds the token, if there is one.
    fn as_caller<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.authorization {
            Some(authorization) => request.header("authorization", authorization),
            None => request,
        }
    }

    /// Shows the chain of a resource.
    pub(crate) fn replay(&self, id: &str, until: &str) -> Result<ExitCode> {
        let path = format!("{}/replay", path(id)?);
        let request = self.as_caller(self.agent.get(format!("{}{path}", self.base)));
        let mut answer = self.understand(request.query("until", until).call())?;
        print(&answer.body_mut().read_to_string()?)
    }

    /// Checks one chain.
    pub(crate) fn check(&self, id: &str) -> Result<ExitCode> {
        #[derive(Deserialize)]
        struct Replayed {
            outcomes: i64,
        }
        let path = format!("{}/check", path(id)?);
        let request = self.as_caller(self.agent.get(format!("{}{path}", self.base)));
        let mut answer = self.understand(request.call())?;
        let Replayed { outcomes } = serde_json::from_str(&answer.body_mut().read_to_string()?)?;
        print(&format!(
            "{id}: {outcomes} outcomes replay to the live state\n"
        ))
    }

    /// Checks every chain.
    pub(crate) fn check_all(&self) -> Result<ExitCode> {
        let last = self.follow("/v1/check")?;
        let outcomes = last.outcomes.unwrap_or(0);
        let text = match last.failed {
            0 => format!(
                "{} resources, {outcomes} outcomes: each chain replays to its live state\n",
                last.done
            ),
            failed => format!(
                "{failed} of {} resources do not replay to their live states\n",
                last.done
            ),
        };
        last.end(&text)
    }

    /// Rebuilds the read model.
    pub(crate) fn rebuild(&self) -> Result<ExitCode> {
        let last = self.follow("/v1/read-model/rebuild")?;
        let text = format!(
            "{} resources are in the read model, {} failed\n",
            last.done - last.failed,
            last.failed
        );
        last.end(&text)
    }

    /// Starts an operation on all resources, and shows its progress; returns the last step.
    fn follow(&self, path: &str) -> Result<Step> {
        let request = self.as_caller(self.agent.post(format!("{}{path}", self.base)));
        let asked = request.send_empty();
        let mut answer = self.understand(asked)?;
        let lines = BufReader::new(answer.body_mut().as_reader()).lines();
        let shows = std::io::stderr().is_terminal();
        let mut last: Option<Step> = None;
        for line in lines {
            let line = line.context("the server stopped before the operation was done")?;
            let step: Step =
                serde_json::from_str(&line).context("unexpected response of the server")?;
            if shows {
                eprint!("\r{}\u{1b}[K", step.bar());
            }
            last = Some(step);
        }
        if shows {
            eprintln!();
        }
        let last = last.context("the server sent no progress")?;
        match last.error {
            Some(error) => bail!("{error}"),
            None => Ok(last),
        }
    }

    fn understand(&self, answer: Result<Response<Body>, ureq::Error>) -> Result<Response<Body>> {
        let mut answer = answer.with_context(|| {
            format!("no server answers at {}; select one with --url", self.base)
        })?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let body = answer.body_mut().read_to_string()?;
        match serde_json::from_str::<Refusal>(&body) {
            Ok(refusal) => bail!("{}", refusal.error.message),
            Err(_) => bail!("{} answered {}", self.base, answer.status()),
        }
    }
}

impl Step {
    /// The progress, on one line.
    fn bar(&self) -> String {
        let all = self.resources.max(1);
        let full = (self.done * WIDTH / all).min(WIDTH);
        let so_many = |count: u64, what: &str| match count {
            0 => String::new(),
            count => format!(", {count} {what}"),
        };
        format!(
            "[{}{}] {} of {}{}{}",
            "#".repeat(full),
            "-".repeat(WIDTH - full),
            self.done,
            self.resources,
            so_many(self.failed as u64, "failed"),
            so_many(self.waiting, "pending changes")
        )
    }

    /// Prints the result.
    fn end(&self, text: &str) -> Result<ExitCode> {
        for failure in &self.failures {
            eprintln!("{failure}");
        }
        print(text)?;
        Ok(match self.failed {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        })
    }
}

/// The path of a resource.
fn path(id: &str) -> Result<String> {
    let kind = KINDS.iter().find(|(prefix, _)| id.starts_with(prefix));
    let (_, kind) = kind.with_context(|| {
        let known = KINDS.map(|(prefix, _)| format!("`{prefix}`")).join(", ");
        format!("`{id}` is not a resource id: ids begin with {known}")
    })?;
    if !id
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    {
        bail!("`{id}` is not a resource id: ids consist of letters, digits, `_` and `-`");
    }
    Ok(format!("/v1/{kind}/{id}"))
}

/// Prints a text; a reader that closes the pipe is not an error.
fn print(text: &str) -> Result<ExitCode> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_grows_to_its_end() {
        let bar = |done, resources, failed, waiting| {
            let step = Step {
                resources,
                done,
                failed,
                waiting,
                outcomes: None,
                failures: Vec::new(),
                error: None,
            };
            step.bar()
        };
        assert!(bar(0, 0, 0, 0).starts_with("[----"));
        assert_eq!(
            bar(1, 2, 0, 0),
            format!("[{}{}] 1 of 2", "#".repeat(20), "-".repeat(20))
        );
        assert!(bar(2, 2, 1, 3).ends_with("#] 2 of 2, 1 failed, 3 pending changes"));
    }

    #[test]
    fn an_id_says_where_its_resource_is() {
        assert_eq!(path("in_sub_1_0").unwrap(), "/v1/invoices/in_sub_1_0");
        assert_eq!(path("pi_in_1").unwrap(), "/v1/payment-intents/pi_in_1");
        assert!(path("we_1").is_err() && path("sub_1/../x").is_err());
    }
}
