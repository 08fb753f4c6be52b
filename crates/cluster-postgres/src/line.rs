//! One connection to the server.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use abide_postgres::{Address, Stream};
use tokio::{task::JoinHandle, time::timeout};
use tokio_postgres::{
    AsyncMessage, Client, Connection, Row, Socket, Statement,
    error::{DbError, Severity},
    types::ToSql,
};
use tracing::{debug, warn};

use crate::{
    database::{Accept, SCHEMA},
    error::Failure,
    limits::{CONNECT_TIMEOUT, LOCK_TIMEOUT, STATEMENT_TIMEOUT, TCP_USER_TIMEOUT},
};

/// An open connection. When it is dropped, it is closed at once; the server may still execute what it has received.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) client: Client,
    accept: Accept,
    /// How long an answer is waited for.
    pub(crate) patience: Duration,
    prepared: BTreeMap<String, Statement>,
    is_warned: Arc<AtomicBool>,
    driver: JoinHandle<()>,
}

impl Line {
    /// Connects, sets what statements depend on, and checks that commits are durable.
    pub(crate) async fn open(address: &Address, accept: Accept) -> Result<Self, Failure> {
        let config = &address.config;
        let hosts = config.get_hosts().len().max(1) as u32;
        let each = config.get_connect_timeout().copied();
        let patience = each.unwrap_or(CONNECT_TIMEOUT) * hosts + CONNECT_TIMEOUT;
        let opened = timeout(patience, Self::try_open(address, accept)).await;
        opened.unwrap_or(Err(Failure::Late(patience)))
    }

    async fn try_open(address: &Address, accept: Accept) -> Result<Self, Failure> {
        let (client, connection) = address.config.connect(address.tls.clone()).await?;
        let is_warned = Arc::new(AtomicBool::new(false));
        let driver = tokio::spawn(drive(connection, is_warned.clone()));
        let line = Self {
            client,
            accept,
            patience: STATEMENT_TIMEOUT,
            prepared: BTreeMap::new(),
            is_warned,
            driver,
        };
        // The server, too, notices a client that has vanished.
        let settings = format!(
            "set client_min_messages = warning; set search_path = {SCHEMA}; set synchronous_commit = on; \
             set default_transaction_isolation = 'read committed'; set default_transaction_read_only = off; \
             set statement_timeout = 0; set lock_timeout = {lock}; set idle_in_transaction_session_timeout = 0; \
             set tcp_user_timeout = {tcp}; set tcp_keepalives_idle = 5; set tcp_keepalives_interval = 2; set tcp_keepalives_count = 3",
            lock = LOCK_TIMEOUT.as_millis(),
            tcp = TCP_USER_TIMEOUT.as_millis()
        );
        line.batch(&settings).await?;
        line.must_be_durable().await?;
        line.is_warned.store(false, Ordering::Release);
        Ok(line)
    }

    async fn must_be_durable(&self) -> Result<(), Failure> {
        let sql = "select current_setting('fsync'), current_setting('full_page_writes'), \
                   current_setting('synchronous_standby_names') <> ''";
        let row = self.client.query_one(sql, &[]).await?;
        for (column, name) in ["fsync", "full_page_writes"].into_iter().enumerate() {
            if row.get::<_, &str>(column) != "on" {
                return Err(Failure::NotDurable(format!(
                    "{name} is off: the server can lose or damage what it has confirmed. Set {name} = on"
                )));
            }
        }
        self.must_be_replicated(row.get(2))
    }

    /// Takes what the server says of its standbys. A standby can be given up at any moment, and then no warning is sent.
    pub(crate) fn must_be_replicated(&self, is_replicated: bool) -> Result<(), Failure> {
        if self.accept == Accept::Local || is_replicated {
            return Ok(());
        }
        Err(Failure::NotDurable(
            "synchronous_standby_names is empty: what the server has confirmed is lost with its machine. Name a standby there, or \
             accept this if the server's storage is replicated"
                .to_owned(),
        ))
    }

    /// Executes statements without parameters.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), Failure> {
        let executed = timeout(self.patience, self.client.batch_execute(sql)).await;
        Ok(executed.map_err(|_| Failure::Late(self.patience))??)
    }

    /// Executes a statement, which is prepared once.
    pub(crate) async fn query(
        &mut self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let patience = self.patience;
        let queried = timeout(patience, self.try_query(sql, params)).await;
        Ok(queried.map_err(|_| Failure::Late(patience))??)
    }

    async fn try_query(
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

/// Drives a connection. Messages are taken in the order in which they arrive: a statement ends after the warning that came before its end.
async fn drive(mut connection: Connection<Socket, Stream<Socket>>, is_warned: Arc<AtomicBool>) {
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        match message {
            Ok(AsyncMessage::Notice(notice)) if is_warning(&notice) => {
                let (message, detail) = (notice.message(), notice.detail());
                warn!(message, detail, "PostgreSQL warns");
                is_warned.store(true, Ordering::Release);
            }
            Ok(_) => {}
            Err(error) => {
                debug!(%error, "a connection to PostgreSQL has ended");
                return;
            }
        }
    }
}

/// Whether a message may say that a commit is not replicated. Its code and its text do not tell: the one is that of all warnings, and the
/// other is in the server's language. Those of which it is known that they say something else do not count, since they come with each
/// transaction: that the numbers of transactions run out (<https://www.postgresql.org/docs/current/routine-vacuuming.html>).
fn is_warning(notice: &DbError) -> bool {
    let severity = notice.parsed_severity();
    let is_other = matches!(
        severity,
        Some(Severity::Notice | Severity::Info | Severity::Log | Severity::Debug)
    );
    let is_known = matches!(
        notice.routine(),
        Some("GetNewTransactionId" | "GetNewMultiXactId")
    );
    !is_other && !is_known
}
