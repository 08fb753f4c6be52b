//! The HTTP client alone: messages that are in no queue. What no queue can be faster than.

use anyhow::Result;
use futures_util::future::try_join_all;
use tokio::runtime::Runtime;

use crate::{http_client::HttpClient, receiver::Stamp};

/// Lanes that each send one message after the other.
pub(crate) struct Wire {
    runtime: Runtime,
    client: HttpClient,
    lanes: u64,
}

impl Wire {
    pub(crate) fn new(lanes: usize) -> Result<Self> {
        Ok(Self {
            runtime: tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()?,
            client: HttpClient::new(),
            lanes: lanes as u64,
        })
    }

    /// Sends this many messages, numbered from `first`.
    pub(crate) fn send(&self, url: &str, first: u64, count: u64) -> Result<()> {
        let lanes = (0..self.lanes).map(|lane| {
            let (client, url, lanes) = (self.client.clone(), url.to_owned(), self.lanes);
            self.runtime.spawn(async move {
                for number in (first + lane..first + count).step_by(lanes as usize) {
                    let text = Stamp::now(number).text();
                    client.deliver(&url, &number.to_string(), text).await?;
                }
                anyhow::Ok(())
            })
        });
        let sent = self.runtime.block_on(try_join_all(lanes))?;
        sent.into_iter().collect()
    }
}
