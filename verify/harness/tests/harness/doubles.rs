//! The doubles do what they are told, so that the tests that use them mean something.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::time::Duration;

use abide_harness::{Client, Receiver, ReceiverAct, SmtpAct, SmtpServer, SmtpStage, Version};
use http::Method;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

/// What something that never comes is waited for.
const MOMENT: Duration = Duration::from_millis(50);

const MAIL: &str = "Message-ID: <1@x.test>\r\nSubject: hello\r\n\r\nfirst\r\n..dots\r\n.\r\n";

struct SmtpClient(BufReader<TcpStream>);

impl SmtpClient {
    async fn new(server: &SmtpServer) -> Self {
        let stream = TcpStream::connect(server.address()).await.unwrap();
        let mut client = Self(BufReader::new(stream));
        assert!(client.hear().await.starts_with("220 "));
        client
    }

    /// The last line of an answer; nothing if the connection was closed.
    async fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).await.unwrap();
            if line.as_bytes().get(3) != Some(&b'-') {
                return line;
            }
        }
    }

    async fn say(&mut self, text: &str) -> String {
        self.0.write_all(text.as_bytes()).await.unwrap();
        self.hear().await
    }

    /// Sends a mail, as far as it goes; the last answer.
    async fn send(&mut self) -> String {
        for (line, well) in [
            ("EHLO me.test\r\n", "250 "),
            ("MAIL FROM:<ada@x.test> BODY=8BITMIME\r\n", "250 "),
            ("rcpt to:<grace@y.test>\r\n", "250 "),
            ("DATA\r\n", "354 "),
        ] {
            let answer = self.say(line).await;
            if !answer.starts_with(well) {
                return answer;
            }
        }
        self.say(MAIL).await
    }
}

#[tokio::test]
async fn the_mail_server_keeps_envelopes_and_removes_doubled_dots() {
    let server = SmtpServer::start().await;
    let mut client = SmtpClient::new(&server).await;
    assert!(
        client
            .say("RCPT TO:<early@y.test>\r\n")
            .await
            .starts_with("503")
    );
    assert!(client.send().await.starts_with("250 "));
    assert!(
        client.send().await.starts_with("250 "),
        "the connection can be used again"
    );
    assert!(client.say("NOPE\r\n").await.starts_with("500"));
    assert!(client.say("QUIT\r\n").await.starts_with("221"));
    let mails = server.wait_for(2).await;
    assert_eq!(mails[0], mails[1]);
    assert_eq!(
        (mails[0].from.as_str(), mails[0].to.as_slice()),
        ("ada@x.test", &["grace@y.test".to_owned()][..])
    );
    assert_eq!(mails[0].message_id(), "1@x.test");
    assert_eq!(mails[0].subject(), "hello");
    assert_eq!(mails[0].parse().body_text(0).unwrap(), "first\r\n.dots\r\n");
    assert!(mails[0].answered);
}

#[tokio::test]
async fn the_mail_server_refuses_drops_and_stalls_where_it_is_told_to() {
    let server = SmtpServer::start().await;
    let stages = [
        SmtpStage::Sender,
        SmtpStage::Recipient,
        SmtpStage::Data,
        SmtpStage::End,
    ];
    for stage in stages {
        server.script([SmtpAct::Refuse(stage, 451), SmtpAct::Take]);
        let mut client = SmtpClient::new(&server).await;
        assert!(client.send().await.starts_with("451 "), "{stage:?}");
        assert!(
            client.send().await.starts_with("250 "),
            "the connection continues"
        );
    }
    assert_eq!(
        server.received().len(),
        stages.len(),
        "what was refused is not kept"
    );
    for stage in stages {
        let server = SmtpServer::start().await;
        server.script([SmtpAct::Drop(stage), SmtpAct::Stall(stage)]);
        assert_eq!(SmtpClient::new(&server).await.send().await, "", "{stage:?}");
        let mut client = SmtpClient::new(&server).await;
        let stalled = tokio::spawn(async move { client.send().await });
        let sent_to_their_end = if stage == SmtpStage::End { 2 } else { 0 };
        let lost = server.wait_for(sent_to_their_end).await;
        assert!(lost.iter().all(|mail| !mail.answered));
        tokio::time::sleep(MOMENT).await;
        assert!(!stalled.is_finished(), "{stage:?}");
        assert_eq!(server.received().len(), sent_to_their_end, "{stage:?}");
    }
}

#[tokio::test]
async fn the_mail_server_refuses_mails_that_are_too_long() {
    let server = SmtpServer::start_at("127.0.0.1:0", MAIL.len() - 10).await;
    let mut client = SmtpClient::new(&server).await;
    assert!(client.send().await.starts_with("552 "));
    assert!(
        client
            .say("MAIL FROM:<a@x.test> SIZE=10000\r\n")
            .await
            .starts_with("552 ")
    );
    assert!(server.received().is_empty());
}

#[tokio::test]
async fn the_receiver_keeps_requests_and_answers_by_key_by_path_and_in_order() {
    let receiver = Receiver::start().await;
    let client = Client::new(&receiver.address(), Version::Http1);
    receiver.script_for("/a", [ReceiverAct::status(503).retry_after(7)]);
    receiver.script([ReceiverAct::body(201, "{\"made\":1}"), ReceiverAct::lost()]);
    assert_eq!(client.post("/b", &1.into()).await.body["made"], 1);
    let busy = client.post("/a", &2.into()).await;
    assert_eq!(
        (busy.status.as_u16(), &busy.headers["retry-after"]),
        (503, &"7".parse().unwrap())
    );
    assert!(
        client.try_ask(Method::POST, "/a", "3").await.is_err(),
        "the answer is lost"
    );
    assert_eq!(client.post("/a?x=1", &4.into()).await.status, 200);
    let bodies: Vec<_> = receiver
        .wait_for(4)
        .await
        .iter()
        .map(abide_harness::Received::json)
        .collect();
    assert_eq!(bodies, [1, 2, 3, 4]);
    receiver.decide(|request| ReceiverAct::status(if request.path() == "/a" { 418 } else { 200 }));
    assert_eq!(client.get("/a").await.status, 418);
}

#[tokio::test]
async fn a_hanging_or_endless_receiver_still_serves_other_requests() {
    let receiver = Receiver::start().await;
    receiver.script([ReceiverAct::hang(), ReceiverAct::endless(200)]);
    let mut hanging = TcpStream::connect(receiver.address()).await.unwrap();
    hanging
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    receiver.wait_for(1).await;
    let mut streaming = TcpStream::connect(receiver.address()).await.unwrap();
    streaming
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let mut much = vec![0; 100_000];
    streaming.read_exact(&mut much).await.unwrap();
    let client = Client::new(&receiver.address(), Version::Http1);
    assert_eq!(client.get("/").await.status, 200);
    let mut byte = [0];
    assert!(
        tokio::time::timeout(MOMENT, hanging.read(&mut byte))
            .await
            .is_err()
    );
    drop(receiver);
    assert_eq!(
        hanging.read(&mut byte).await.unwrap_or(0),
        0,
        "it ends with the receiver"
    );
}
