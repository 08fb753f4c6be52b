//! One connection to the server.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::task::JoinHandle;
use tokio_postgres::{
    AsyncMessage, Client, Config, NoTls, Row, Statement, error::Severity, types::ToSql,
};
use tracing::{debug, warn};

use crate::{
    Error,
    database::SCHEMA,
    error::failed,
    limits::{CONNECT_TIMEOUT, LOCK_TIMEOUT},
};

/// An open connection. When it is dropped, it is closed at once; the server may still execute what it has received.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) client: Client,
    prepared: BTreeMap<String, Statement>,
    is_warned: Arc<AtomicBool>,
    driver: JoinHandle<()>,
}

impl Line {
    /// Connects, and sets what statements depend on.
    pub(crate) async fn open(config: &Config) -> Result<Self, Error> {
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, Self::try_open(config)).await;
        opened.unwrap_or_else(|_| {
            let seconds = CONNECT_TIMEOUT.as_secs();
            Err(Error::Unavailable(format!(
                "no connection within {seconds} s"
            )))
        })
    }

    async fn try_open(config: &Config) -> Result<Self, Error> {
        let (client, mut connection) = config.connect(NoTls).await.map_err(failed)?;
        let is_warned = Arc::new(AtomicBool::new(false));
        let warned = is_warned.clone();
        // Messages are taken in the order in which they arrive: a statement ends after the warning that came before its end.
        let driver = tokio::spawn(async move {
            while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
                match message {
                    Ok(AsyncMessage::Notice(notice)) => match notice.parsed_severity() {
                        Some(
                            Severity::Notice | Severity::Info | Severity::Log | Severity::Debug,
                        ) => {}
                        _ => {
                            warn!(
                                message = notice.message(),
                                detail = notice.detail(),
                                "PostgreSQL warns"
                            );
                            warned.store(true, Ordering::Release);
                        }
                    },
                    Ok(_) => {}
                    Err(error) => {
                        debug!(%error, "a connection to PostgreSQL has ended");
                        return;
                    }
                }
            }
        });
        let line = Self {
            client,
            prepared: BTreeMap::new(),
            is_warned,
            driver,
        };
        let settings = format!(
            "set client_min_messages = warning; set search_path = {SCHEMA}; set synchronous_commit = on; \
             set default_transaction_isolation = 'read committed'; set default_transaction_read_only = off; \
             set statement_timeout = 0; set lock_timeout = {lock}; set idle_in_transaction_session_timeout = 0",
            lock = LOCK_TIMEOUT.as_millis()
        );
        line.client.batch_execute(&settings).await.map_err(failed)?;
        line.is_warned.store(false, Ordering::Release);
        Ok(line)
    }

    /// Executes a statement, which is prepared once.
    pub(crate) async fn query(
        &mut self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let prepared = match self.prepared.get(sql) {
            Some(prepared) => prepared.clone(),
            None => {
                let prepared = self.client.prepare(sql).await?;
                self.prepared.insert(sql.to_owned(), prepared.clone());
                prepared
            }
        };
        self.client.query(&prepared, params).await
    }

    /// Whether the server has warned.
    pub(crate) fn is_warned(&self) -> bool {
        self.is_warned.load(Ordering::Acquire)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
