//! Comments and their mails, with the real binary and a real mail server.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod comments;
mod limits;
mod mails;
mod owner;
mod subscriptions;
mod thanks;

use crate::support::program;
use abide_harness::{Client, Mail, Server, SmtpServer};
use tempfile::TempDir;

pub(crate) struct World {
    pub(crate) smtp: SmtpServer,
    pub(crate) client: Client,
    _server: Server,
    pub(crate) dir: TempDir,
}

impl World {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let smtp = SmtpServer::start().await;
        let server = program(&dir.path().join("data"), &smtp.url()).start();
        Self {
            smtp,
            client: server.client(),
            _server: server,
            dir,
        }
    }
}

/// Recipients of mails with this in their subject.
pub(crate) fn told(mails: &[Mail], subject: &str) -> Vec<String> {
    let about = mails.iter().filter(|mail| mail.subject().contains(subject));
    let mut told: Vec<_> = about.map(|mail| mail.to[0].clone()).collect();
    told.sort();
    told
}

pub(crate) fn header(mail: &Mail, name: &str) -> String {
    let message = mail.parse();
    message
        .header_raw(name)
        .unwrap()
        .replace("\r\n", "")
        .trim()
        .to_owned()
}
