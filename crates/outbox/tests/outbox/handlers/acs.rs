use std::{sync::Arc, time::Duration};

use abide::{Host, clock::TestClock, server::AllowPrivate};
use abide::{
    outbox::handlers::{AcsDelivery, Attachment, Email},
    outbox::{Deliver, Delivery, Failure, FailureKind, Polled, Submitted},
};
use abide_harness::{
    AcsCourse, AcsEnd, AcsOptions, AcsPoll, AcsSend, AcsServer, Receiver, ReceiverAct,
};
use serde_json::json;

use crate::handlers::{attempt, failed, host};

fn mail() -> Email {
    Email::new("Seats <seats@example.com>", "Your seat")
        .to("Ada Lovelace <ada@example.org>")
        .text("14C")
}

async fn service() -> (AcsServer, AcsDelivery) {
    let server = AcsServer::start(AcsOptions::default()).await;
    let service = AcsDelivery::from_connection_string(&server.connection_string()).unwrap();
    (server, service)
}

async fn begin(service: &AcsDelivery, delivery: &Delivery) -> Result<String, Failure> {
    match service.submit(delivery, &mail()).await? {
        Submitted::Accepted { operation, .. } => Ok(operation),
        Submitted::Done => panic!("a mail is an operation"),
    }
}

#[tokio::test]
async fn a_mail_is_submitted_and_asked_about_until_it_is_sent() {
    let (host, (server, service)) = (host().await, service().await);
    server.script_courses([AcsCourse {
        running: 1,
        end: AcsEnd::Succeeded,
    }]);
    let delivery = attempt(&host);
    let mail = Email {
        cc: vec!["grace@example.org".into()],
        reply_to: Some("desk@example.com".into()),
        ..mail()
            .html("<b>14C</b>")
            .attach(Attachment::new("plan.txt", "text/plain", "x").inline("plan"))
            .header("X-Tag", "1")
    };
    let submitted = service.submit(&delivery, &mail).await.unwrap();
    let Submitted::Accepted { operation, .. } = submitted else {
        panic!("{submitted:?}");
    };
    let poll = || service.poll(&delivery, &mail, &operation);
    assert_eq!(poll().await, Ok(Polled::Running { after: None }));
    assert_eq!(poll().await, Ok(Polled::Done));
    let taken = &server.mails()[0];
    assert!(operation.contains(&taken.operation), "{operation}");
    assert_eq!(
        taken.mail,
        json!({
            "senderAddress": "seats@example.com",
            "content": { "subject": "Your seat", "plainText": "14C", "html": "<b>14C</b>" },
            "recipients": {
                "to": [{ "address": "ada@example.org", "displayName": "Ada Lovelace" }],
                "cc": [{ "address": "grace@example.org" }],
            },
            "replyTo": [{ "address": "desk@example.com" }],
            "attachments": [{
                "name": "plan.txt",
                "contentType": "text/plain",
                "contentInBase64": "eA==",
                "contentId": "plan",
            }],
            "headers": { "X-Tag": "1" },
        })
    );
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_submission_whose_answer_was_lost_is_repeated_and_is_one_mail() {
    let (host, (server, service)) = (host().await, service().await);
    server.script_sends([AcsSend::Drop, AcsSend::Lose]);
    let first = attempt(&host);
    failed(begin(&service, &first).await, FailureKind::Temporary, "");
    let second = first.again(true);
    failed(begin(&service, &second).await, FailureKind::Temporary, "");
    let third = second.again(true);
    let operation = begin(&service, &third).await.unwrap();
    assert_eq!(
        service.poll(&third, &mail(), &operation).await,
        Ok(Polled::Done)
    );
    let mails = server.mails();
    // The third attempt has asked, and did not submit it.
    assert_eq!((mails.len(), mails[0].submissions), (1, 1));
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_refusal_that_names_an_operation_has_begun_it_and_any_other_has_not() {
    let (host, (server, service)) = (host().await, service().await);
    for status in [429, 500, 503] {
        server.script_sends([AcsSend::AcceptAndSay(status, None)]);
        let operation = begin(&service, &attempt(&host)).await.unwrap();
        let polled = service.poll(&attempt(&host), &mail(), &operation).await;
        assert_eq!(polled, Ok(Polled::Done), "{status}");
    }
    for (status, fate) in [
        (400, FailureKind::Permanent),
        (401, FailureKind::Permanent),
        (429, FailureKind::Throttled),
        (500, FailureKind::Temporary),
        (503, FailureKind::Throttled),
    ] {
        server.script_sends([AcsSend::Refuse(status, Some(7))]);
        let begun = begin(&service, &attempt(&host)).await;
        let failure = failed(begun, fate, &status.to_string());
        if fate != FailureKind::Permanent {
            assert_eq!(failure.after(), Some(Duration::from_secs(7)), "{status}");
        }
    }
    // The id is taken: an earlier attempt has begun the operation.
    server.script_sends([AcsSend::Refuse(409, None)]);
    let operation = begin(&service, &attempt(&host)).await.unwrap();
    assert_eq!(
        service.poll(&attempt(&host), &mail(), &operation).await,
        Ok(Polled::Done)
    );
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_operation_that_fails_says_why_and_a_bad_poll_is_not_its_end() {
    let (host, (server, service)) = (host().await, service().await);
    server.script_courses([AcsCourse {
        running: 0,
        end: AcsEnd::Failed {
            code: "EmailDropped".into(),
            message: "All recipients were suppressed.".into(),
        },
    }]);
    server.script_polls([AcsPoll::Refuse(503, Some(4)), AcsPoll::Drop]);
    let delivery = attempt(&host);
    let operation = begin(&service, &delivery).await.unwrap();
    let poll = || async { service.poll(&delivery, &mail(), &operation).await };
    failed(poll().await, FailureKind::Throttled, "503");
    failed(poll().await, FailureKind::Temporary, "");
    assert_eq!(
        poll().await,
        Ok(Polled::Failed {
            error: "Failed: EmailDropped: All recipients were suppressed.".into(),
            retry: false,
        })
    );
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_wrong_key_is_refused_by_the_service_and_no_other_server_is_asked() {
    let (host, (server, service)) = (host().await, service().await);
    let wrong = AcsDelivery::new(&server.endpoint(), "d3Jvbmc=").unwrap();
    failed(
        begin(&wrong, &attempt(&host)).await,
        FailureKind::Permanent,
        "401",
    );
    let elsewhere = "http://127.0.0.1:1/emails/operations/x?api-version=2023-03-31";
    let polled = service.poll(&attempt(&host), &mail(), elsewhere).await;
    failed(polled, FailureKind::Permanent, "its operation is at");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_mail_that_was_refused_is_taken_once_after_a_long_outage() {
    let clock = TestClock::new();
    let host = Host::open_in_memory()
        .clock(Arc::new(clock.clone()))
        .configure(|config| config.outbound.allow_private = AllowPrivate::All)
        .start_local()
        .await
        .unwrap();
    let (server, service) = service().await;
    let refused = AcsSend::Refuse(429, None);
    server.script_sends([refused, AcsSend::Refuse(503, None), AcsSend::Lose]);
    let first = attempt(&host);
    failed(begin(&service, &first).await, FailureKind::Throttled, "429");
    clock.advance(Duration::from_mins(6));
    let second = first.again(false);
    failed(
        begin(&service, &second).await,
        FailureKind::Temporary,
        "503",
    );
    clock.advance(Duration::from_mins(6));
    let third = second.again(true);
    failed(begin(&service, &third).await, FailureKind::Temporary, "");
    clock.advance(Duration::from_mins(6));
    let operation = begin(&service, &third.again(true)).await.unwrap();
    let mails = server.mails();
    assert_eq!((mails.len(), mails[0].submissions), (1, 1));
    assert!(operation.contains(&mails[0].operation), "{operation}");
    let polled = service.poll(&third, &mail(), &operation).await;
    assert_eq!(polled, Ok(Polled::Done));
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_service_that_names_another_server_has_taken_the_mail_all_the_same() {
    let (host, receiver) = (host().await, Receiver::start().await);
    let elsewhere = "http://127.0.0.1:1/emails/operations/7";
    receiver.script(
        [429, 202]
            .map(|status| ReceiverAct::status(status).header("operation-location", elsewhere)),
    );
    let service = AcsDelivery::new(&receiver.url("/"), "c2VjcmV0").unwrap();
    // What a refusal names and cannot be asked about is tried again.
    failed(
        begin(&service, &attempt(&host)).await,
        FailureKind::Throttled,
        "429",
    );
    let submitted = begin(&service, &attempt(&host)).await;
    failed(submitted, FailureKind::Permanent, "its operation is at");
    host.shutdown().await.unwrap();
}
