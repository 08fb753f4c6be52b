//! A third-party mail server: Debian's `python3-aiosmtpd`, which puts mails into a maildir.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
};

use abide::{
    outbox::handlers::{Attachment, Email, SmtpDelivery},
    outbox::{Deliver, Submitted},
};
use abide_harness::{
    mail_parser::{MessageParser, MimeHeaders},
    until,
};
use tokio::net::TcpStream;

use crate::handlers::{KEY, attempt, host};

/// Ends with the test.
struct Server(Child);

impl Server {
    /// Starts it, and waits until it takes connections.
    async fn start(address: &str, maildir: &Path) -> Self {
        let server = Command::new("aiosmtpd")
            .args(["-n", "-l", address])
            .args(["-c", "aiosmtpd.handlers.Mailbox"])
            .arg(maildir)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Self(server);
        until("the server to listen", async || {
            assert_eq!(server.0.try_wait().unwrap(), None, "it has ended");
            TcpStream::connect(address).await.ok()
        })
        .await;
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
#[ignore = "needs python3-aiosmtpd"]
async fn a_third_party_mail_server_keeps_the_mail_whole() {
    let (host, dir) = (host().await, tempfile::tempdir().unwrap());
    let maildir = dir.path().join("mails");
    // Free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let _server = Server::start(&address, &maildir).await;
    let picture: Vec<u8> = (0..=255).collect();
    let mail = Email::new("Seats <seats@example.com>", "Grüße")
        .to("Ada <ada@example.org>")
        .text("Hello.\n.\n..dots\n")
        .html("<p>Hello <img src=\"cid:logo\"></p>")
        .attach(Attachment::new("logo.png", "image/png", &picture).inline("logo"));
    let relay = SmtpDelivery::new(&format!("smtp://{address}")).unwrap();
    assert_eq!(
        relay.submit(&attempt(&host), &mail).await,
        Ok(Submitted::Done)
    );

    let mails: Vec<_> = fs::read_dir(maildir.join("new")).unwrap().collect();
    let [mail] = &*mails else {
        panic!("{mails:?}");
    };
    let data = fs::read(mail.as_ref().unwrap().path()).unwrap();
    let parsed = MessageParser::default().parse(&data).unwrap();
    assert_eq!(parsed.subject(), Some("Grüße"));
    assert_eq!(parsed.message_id().unwrap(), format!("{KEY}@example.com"));
    assert_eq!(
        parsed.body_text(0).unwrap().replace("\r\n", "\n"),
        "Hello.\n.\n..dots\n"
    );
    let logo = parsed.attachments().next().unwrap();
    assert_eq!(logo.content_id(), Some("logo"));
    assert_eq!(logo.contents(), picture);
    host.shutdown().await.unwrap();
}
