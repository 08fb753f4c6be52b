use std::{pin::pin, sync::Arc, time::Duration};

use abide::{Host, clock::TestClock};
use abide::{
    outbox::handlers::{Attachment, Email, SmtpDelivery},
    outbox::{Deliver, FailureKind, Submitted},
};
use abide_harness::{Nobody, SmtpAct, SmtpServer, SmtpStage, mail_parser::MimeHeaders};
use tokio::{io::AsyncWriteExt, net::TcpListener};

use crate::handlers::{KEY, attempt, failed, host};

fn mail() -> Email {
    Email::new("Seats <seats@example.com>", "Grüße")
        .to("Ada <ada@example.org>")
        .text("Hello.\n.\n..dots\n")
}

#[tokio::test]
async fn a_mail_arrives_with_its_picture_and_its_file() {
    let (host, server) = (host().await, SmtpServer::start().await);
    let picture: Vec<u8> = (0..=255).collect();
    let mail = Email {
        cc: vec!["grace@example.org".into()],
        bcc: vec!["hidden@example.org".into()],
        reply_to: Some("desk@example.com".into()),
        ..mail()
            .html("<p>Hello <img src=\"cid:logo\"></p>")
            .attach(Attachment::new("logo.png", "image/png", &picture).inline("logo"))
            .attach(Attachment::new("Sitz plan.pdf", "application/pdf", "%PDF"))
            .header("List-Unsubscribe", "<https://example.com/no-more>")
    };
    let relay = SmtpDelivery::new(&server.url()).unwrap();
    assert_eq!(relay.check(&mail), Ok(()));
    assert_eq!(
        relay.submit(&attempt(&host), &mail).await,
        Ok(Submitted::Done)
    );

    let got = &server.received()[0];
    assert_eq!(got.from, "seats@example.com");
    assert_eq!(
        got.to,
        ["ada@example.org", "grace@example.org", "hidden@example.org"]
    );
    assert_eq!(got.message_id(), format!("{KEY}@example.com"));
    assert_eq!(got.subject(), "Grüße");
    let bare = |pair: &[u8]| pair[0] != b'\r' && pair[1] == b'\n';
    assert!(!got.data.windows(2).any(bare), "a line ends without CR");
    let parsed = got.parse();
    assert!(!String::from_utf8_lossy(&got.data).contains("hidden"));
    assert_eq!(
        parsed.body_text(0).unwrap().replace("\r\n", "\n"),
        "Hello.\n.\n..dots\n"
    );
    assert_eq!(
        parsed.body_html(0).unwrap(),
        "<p>Hello <img src=\"cid:logo\"></p>"
    );
    let logo = parsed
        .attachments()
        .find(|part| part.content_id() == Some("logo"))
        .unwrap();
    assert_eq!(logo.contents(), picture);
    let file = parsed
        .attachments()
        .find(|part| part.content_id().is_none())
        .unwrap();
    assert_eq!(
        (file.attachment_name(), file.contents()),
        (Some("Sitz plan.pdf"), b"%PDF".as_slice())
    );
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_relay_s_reply_and_its_phase_decide_the_mail_s_outcome() {
    use SmtpAct::{Drop, Refuse};
    use SmtpStage::{Data, End, Recipient, Sender};
    let (host, server) = (host().await, SmtpServer::start().await);
    let relay = SmtpDelivery::new(&server.url()).unwrap();
    for (act, fate, kept) in [
        (Refuse(Sender, 451), FailureKind::Refused, 0),
        (Refuse(Sender, 550), FailureKind::Permanent, 0),
        (Refuse(Recipient, 450), FailureKind::Refused, 0),
        (Refuse(Recipient, 550), FailureKind::Permanent, 0),
        (Refuse(Data, 421), FailureKind::Refused, 0),
        (Refuse(Data, 250), FailureKind::Refused, 0),
        (Refuse(End, 354), FailureKind::Temporary, 0),
        (Refuse(End, 452), FailureKind::Refused, 0),
        (Refuse(End, 554), FailureKind::Permanent, 0),
        (Drop(Recipient), FailureKind::Refused, 0),
        // The mail has left, and it is unknown whether the relay has it.
        (Drop(End), FailureKind::Temporary, 1),
    ] {
        server.script([act]);
        let submitted = relay.submit(&attempt(&host), &mail()).await;
        let failure = failed(submitted, fate, "relay");
        if let Refuse(_, code) = act {
            assert!(failure.message().contains(&code.to_string()), "{failure:?}");
        }
        assert_eq!(server.received().len(), kept, "{act:?}");
    }
    // A receiver can tell that they are one mail, byte by byte.
    assert!(relay.submit(&attempt(&host), &mail()).await.is_ok());
    let got = server.received();
    assert!(
        got.iter()
            .all(|mail| mail.message_id() == got[0].message_id())
    );
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_relay_that_says_nothing_has_the_mail_or_not() {
    let server = SmtpServer::start().await;
    let clock = TestClock::new();
    let host = Host::open_in_memory()
        .clock(Arc::new(clock.clone()))
        .start_local()
        .await
        .unwrap();
    let relay = SmtpDelivery::new(&server.url()).unwrap();
    for (stage, minutes, fate, kept) in [
        (SmtpStage::Data, 1, FailureKind::Refused, 0),
        (SmtpStage::End, 5, FailureKind::Temporary, 1),
    ] {
        server.always(SmtpAct::Stall(stage));
        let (delivery, mail) = (attempt(&host), mail());
        let mut submitted = pin!(relay.submit(&delivery, &mail));
        // For the last stage the clock stands still until the mail is there.
        tokio::select! {
            biased;
            ended = &mut submitted => panic!("it says nothing: {ended:?}"),
            _ = server.wait_for(kept) => {}
        }
        clock.advance(Duration::from_mins(minutes));
        failed(submitted.await, fate, "did not answer within");
        assert_eq!(server.received().len(), kept);
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_mail_is_the_same_bytes_at_every_attempt() {
    let (host, server) = (host().await, SmtpServer::start().await);
    let relay = SmtpDelivery::new(&server.url()).unwrap();
    server.script([SmtpAct::Drop(SmtpStage::End)]);
    let mail = mail().html("<b>Hello</b>");
    let first = attempt(&host);
    failed(
        relay.submit(&first, &mail).await,
        FailureKind::Temporary,
        "reply was lost",
    );
    assert!(relay.submit(&first.again(true), &mail).await.is_ok());
    let got = server.received();
    assert_eq!(got[0].data, got[1].data);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_missing_or_refusing_relay_does_not_count_against_the_mail() {
    let host = host().await;
    let nobody = Nobody::new();
    let gone = SmtpDelivery::new(&format!("smtp://{}", nobody.address())).unwrap();
    failed(
        gone.submit(&attempt(&host), &mail()).await,
        FailureKind::Refused,
        "cannot be used",
    );

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("smtp://{}", listener.local_addr().unwrap());
    let greet = tokio::spawn(async move {
        for greeting in [
            "421 too busy\r\n",
            "554 go away\r\n",
            "220 not SMTP\r\n\r\n",
        ] {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(greeting.as_bytes()).await.unwrap();
        }
    });
    let unfriendly = SmtpDelivery::new(&url).unwrap();
    for _ in 0..3 {
        let submitted = unfriendly.submit(&attempt(&host), &mail()).await;
        failed(submitted, FailureKind::Refused, "cannot be used");
    }
    greet.await.unwrap();
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_relay_without_tls_is_told_nothing_if_it_must_have_it() {
    let (host, server) = (host().await, SmtpServer::start().await);
    let relay = SmtpDelivery::new(&format!("{}?tls=required", server.url())).unwrap();
    failed(
        relay.submit(&attempt(&host), &mail()).await,
        FailureKind::Refused,
        "STARTTLS",
    );
    assert!(server.received().is_empty());
    host.shutdown().await.unwrap();
}
