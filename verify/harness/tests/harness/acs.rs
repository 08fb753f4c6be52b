//! The double of the mail API does what it is told.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use abide_harness::{
    AcsCourse, AcsEnd, AcsMischief, AcsOptions, AcsPoll, AcsSend, AcsServer, Answer, Broken,
    Client, Version,
};
use base64::prelude::{BASE64_STANDARD, Engine};
use hmac::{Hmac, KeyInit, Mac};
use http::Request;
use serde_json::json;
use sha2::{Digest, Sha256};

const DATE: &str = "Sat, 21 Nov 2026 18:00:00 GMT";

struct Caller {
    client: Client,
    host: String,
    key: Vec<u8>,
    /// When it says that requests were sent first, if it does.
    first_sent: Option<&'static str>,
}

impl Caller {
    fn of(server: &AcsServer) -> Self {
        let host = server
            .endpoint()
            .strip_prefix("http://")
            .unwrap()
            .to_owned();
        Self {
            client: Client::new(&host, Version::Http1),
            host,
            key: BASE64_STANDARD.decode(server.access_key()).unwrap(),
            first_sent: None,
        }
    }

    async fn ask(&self, method: &str, path: &str, id: &str, body: &str) -> Result<Answer, Broken> {
        let hash = BASE64_STANDARD.encode(Sha256::digest(body));
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).unwrap();
        mac.update(format!("{method}\n{path}\n{DATE};{};{hash}", self.host).as_bytes());
        let signature = BASE64_STANDARD.encode(mac.finalize().into_bytes());
        let mut request = Request::builder();
        if let Some(first) = self.first_sent {
            request = request.header("repeatability-first-sent", first);
        }
        let request = request
            .method(method)
            .uri(self.client.url(path))
            .header("x-ms-date", DATE)
            .header("x-ms-content-sha256", hash)
            .header("operation-id", id)
            .header(
                "authorization",
                format!("HMAC-SHA256 SignedHeaders=x-ms-date;host;x-ms-content-sha256&Signature={signature}"),
            )
            .body(body.to_owned().into());
        self.client.send(request.unwrap()).await
    }

    async fn send(&self, id: &str, subject: &str) -> Result<Answer, Broken> {
        let mail = json!({
            "senderAddress": "ada@x.test",
            "content": { "subject": subject, "plainText": "hello" },
            "recipients": { "to": [{ "address": "grace@y.test" }] },
        });
        let path = "/emails:send?api-version=2023-03-31";
        self.ask("POST", path, id, &mail.to_string()).await
    }

    async fn poll(&self, id: &str) -> Answer {
        let path = format!("/emails/operations/{id}?api-version=2023-03-31");
        self.ask("GET", &path, "", "").await.unwrap()
    }
}

#[tokio::test]
async fn a_repeated_mail_is_accepted_once_and_its_operation_completes() {
    let server = AcsServer::start(AcsOptions::default()).await;
    let caller = Caller::of(&server);
    server.script_sends([
        AcsSend::Refuse(429, Some(3)),
        AcsSend::Drop,
        AcsSend::Lose,
        AcsSend::AcceptAndSay(429, None),
    ]);
    server.script_polls([AcsPoll::Answer, AcsPoll::Refuse(503, None)]);
    let end = AcsEnd::Failed {
        code: "Suppressed".to_owned(),
        message: "no".to_owned(),
    };
    server.script_courses([AcsCourse { running: 1, end }]);

    let throttled = caller.send("a", "1").await.unwrap();
    assert_eq!(
        (throttled.status.as_u16(), &throttled.headers["retry-after"]),
        (429, &"3".parse().unwrap())
    );
    assert!(caller.send("a", "1").await.is_err());
    assert!(server.mails().is_empty(), "nothing of it was taken");
    assert!(caller.send("a", "1").await.is_err());
    assert_eq!(server.mails().len(), 1, "this one was taken");
    let taken = caller.send("a", "1").await.unwrap();
    assert_eq!(taken.status, 429);
    assert!(
        taken.headers["operation-location"]
            .to_str()
            .unwrap()
            .contains("/emails/operations/a?")
    );
    assert_eq!(caller.send("a", "1").await.unwrap().status, 202);
    assert_eq!(
        caller.send("a", "2").await.unwrap().status,
        400,
        "another mail"
    );
    assert_eq!(
        (server.mails().len(), server.mails()[0].submissions),
        (1, 3)
    );

    assert_eq!(caller.poll("a").await.body["status"], "Running");
    assert_eq!(caller.poll("a").await.status, 503);
    let failed = caller.poll("a").await.body;
    assert_eq!(
        (&failed["status"], &failed["error"]["code"]),
        (&json!("Failed"), &json!("Suppressed"))
    );
    assert_eq!(caller.poll("b").await.status, 404);
    assert_eq!(caller.send("b", "1").await.unwrap().status, 202);
    assert_eq!(caller.poll("b").await.body["status"], "Succeeded");
    assert_eq!(server.wait_for_sent(1).await[0].operation, "b");
    assert_eq!(server.requests().len(), 12);
}

#[tokio::test]
async fn a_wrong_signature_is_denied() {
    let server = AcsServer::start(AcsOptions::default()).await;
    let mut caller = Caller::of(&server);
    caller.key.push(1);
    assert_eq!(caller.send("a", "1").await.unwrap().code(), "Denied");
    assert!(server.mails().is_empty());
}

#[tokio::test]
async fn an_old_repeatable_request_is_refused_unless_it_has_only_an_id() {
    let server = AcsServer::start(AcsOptions::default()).await;
    let mut caller = Caller::of(&server);
    caller.first_sent = Some("Thu, 01 Jan 1970 00:00:00 GMT");
    let old = caller.send("a", "1").await.unwrap();
    assert_eq!(
        (old.status.as_u16(), old.code()),
        (412, "PreconditionFailed")
    );
    caller.first_sent = Some(DATE);
    assert_eq!(caller.send("a", "1").await.unwrap().status, 202);
    caller.first_sent = None;
    assert_eq!(caller.send("b", "1").await.unwrap().status, 202);
    assert_eq!(server.mails().len(), 2);
}

#[tokio::test]
async fn all_kinds_of_seeded_faults_occur_and_lose_no_mail() {
    let server = AcsServer::start(AcsOptions {
        mischief: AcsMischief::lively(7),
        ..AcsOptions::default()
    })
    .await;
    let caller = Caller::of(&server);
    let mut seen = std::collections::BTreeSet::new();
    for id in 0..100 {
        loop {
            let answer = caller.send(&id.to_string(), "1").await;
            let status = answer.map_or(0, |answer| answer.status.as_u16());
            seen.insert(status);
            if status == 202 {
                break;
            }
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 202, 429, 503]);
    let mails = server.mails();
    assert_eq!(mails.len(), 100);
    assert!(
        mails.iter().any(|mail| mail.submissions > 1),
        "some answers were lost"
    );
    assert!(
        mails
            .iter()
            .any(|mail| mail.course.end != AcsEnd::Succeeded)
    );
}
