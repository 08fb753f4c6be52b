//! How a session with a relay begins: TLS from the first byte, STARTTLS, passwords.

use std::sync::Arc;

use abide::{
    outbox::handlers::{Email, SmtpDelivery},
    outbox::{Deliver, FailureKind, Submitted},
};
use abide_harness::SmtpServer;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{
    io::{
        AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader,
        copy_bidirectional,
    },
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use crate::handlers::{attempt, failed, host};

/// Of `localhost`, self-signed, for tests alone.
const CERTIFICATE: &[u8] =
    include_bytes!("../../../../../verify/harness/shared/tls/certificate.pem");

fn mail() -> Email {
    Email::new("seats@example.com", "Seat")
        .to("ada@example.org")
        .text("14C")
}

/// To a relay whose certificate is trusted.
fn trusting(url: &str) -> SmtpDelivery {
    let relay = SmtpDelivery::new(url).unwrap();
    relay.with_root_certificate(CERTIFICATE).unwrap()
}

/// What is in front of a mail server, so that it has TLS.
struct Front {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Front {
    async fn new() -> Self {
        let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
        let key = PrivateKeyDer::from_pem_slice(include_bytes!(
            "../../../../../verify/harness/shared/tls/key.pem"
        ))
        .unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        Self {
            listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            acceptor: TlsAcceptor::from(Arc::new(config)),
        }
    }

    fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    /// Serves one session: whatever a client says after `begin` goes to the mail server.
    async fn pass_one_on(self, begin: impl AsyncFn(&mut TcpStream, &mut TcpStream), to: String) {
        let (mut client, _) = self.listener.accept().await.unwrap();
        let mut server = TcpStream::connect(to).await.unwrap();
        begin(&mut client, &mut server).await;
        // A client that does not trust the certificate goes here.
        if let Ok(mut client) = self.acceptor.accept(client).await {
            let _ = copy_bidirectional(&mut client, &mut server).await;
        }
    }
}

/// What a server says and is told before TLS begins.
async fn until_starttls(client: &mut TcpStream, server: &mut TcpStream) {
    // The client has been greeted already when the mail server comes in.
    read_line(server).await;
    client.write_all(b"220 front\r\n").await.unwrap();
    assert!(read_line(client).await.starts_with("EHLO "));
    client
        .write_all(b"250-front\r\n250 STARTTLS\r\n")
        .await
        .unwrap();
    assert_eq!(read_line(client).await, "STARTTLS\r\n");
    client.write_all(b"220 continue\r\n").await.unwrap();
}

/// A line, and not a byte more.
async fn read_line(stream: &mut TcpStream) -> String {
    let mut line = String::new();
    while !line.ends_with('\n') {
        line.push(char::from(stream.read_u8().await.unwrap()));
    }
    line
}

#[tokio::test]
async fn a_mail_goes_through_tls_from_the_first_byte() {
    let (host, server, front) = (host().await, SmtpServer::start().await, Front::new().await);
    let relay = trusting(&format!("smtps://localhost:{}", front.port()));
    tokio::spawn(front.pass_one_on(async |_, _| (), server.address()));
    assert_eq!(
        relay.submit(&attempt(&host), &mail()).await,
        Ok(Submitted::Done)
    );
    assert_eq!(server.received().len(), 1);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_mail_goes_through_tls_that_the_session_begins() {
    let (host, server, front) = (host().await, SmtpServer::start().await, Front::new().await);
    let relay = trusting(&format!("smtp://localhost:{}?tls=required", front.port()));
    tokio::spawn(front.pass_one_on(until_starttls, server.address()));
    assert_eq!(
        relay.submit(&attempt(&host), &mail()).await,
        Ok(Submitted::Done)
    );
    assert_eq!(server.received().len(), 1);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_relay_with_an_untrusted_certificate_receives_nothing() {
    let (host, server, front) = (host().await, SmtpServer::start().await, Front::new().await);
    let relay = SmtpDelivery::new(&format!("smtps://localhost:{}", front.port())).unwrap();
    tokio::spawn(front.pass_one_on(async |_, _| (), server.address()));
    failed(
        relay.submit(&attempt(&host), &mail()).await,
        FailureKind::Refused,
        "cannot be used",
    );
    assert!(server.received().is_empty());
    host.shutdown().await.unwrap();
}

/// A relay that says these lines, one for each that it is told; what it was told.
async fn scripted(listener: TcpListener, says: &[&str]) -> Vec<String> {
    let (stream, _) = listener.accept().await.unwrap();
    let mut stream = BufReader::new(stream);
    let mut told = Vec::new();
    for line in says {
        stream.write_all(line.as_bytes()).await.unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        told.push(line.trim_end().to_owned());
    }
    told
}

#[tokio::test]
async fn a_relay_that_refuses_the_password_says_nothing_against_the_mail() {
    let host = host().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("smtp://seats:p%40ss@127.0.0.1:{port}/me.example.com");
    let relay = SmtpDelivery::new(&url).unwrap();
    let says = ["220 x\r\n", "250-x\r\n250 AUTH PLAIN\r\n", "535 no\r\n"];
    let (submitted, told) = tokio::join!(
        async { relay.submit(&attempt(&host), &mail()).await },
        scripted(listener, &says)
    );
    failed(submitted, FailureKind::Refused, "535");
    // `seats` and `p@ss`, in base64.
    assert_eq!(
        told[..2],
        ["EHLO me.example.com", "AUTH PLAIN AHNlYXRzAHBAc3M="]
    );
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_relay_without_smtputf8_takes_no_address_with_other_letters() {
    let host = host().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let relay = SmtpDelivery::new(&format!("smtp://{}", listener.local_addr().unwrap())).unwrap();
    let mail = mail().to("jörg@example.org");
    let says = ["220 x\r\n", "250 x\r\n"];
    let (submitted, told) = tokio::join!(
        async { relay.submit(&attempt(&host), &mail).await },
        scripted(listener, &says)
    );
    failed(submitted, FailureKind::Permanent, "SMTPUTF8");
    assert_eq!(told[1], "", "no mail was mentioned");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn replies_injected_before_tls_are_ignored() {
    let (host, front) = (host().await, Front::new().await);
    let relay = trusting(&format!("smtp://localhost:{}?tls=required", front.port()));
    let Front { listener, acceptor } = front;
    // An attacker on the way adds all the answers to a whole mail, and keeps what comes then.
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let says = [
            "220 x\r\n",
            "250-x\r\n250 STARTTLS\r\n",
            "220 continue\r\n250 x\r\n250 from\r\n250 to\r\n354 mail\r\n250 taken\r\n221 bye\r\n",
        ];
        for (number, says) in says.into_iter().enumerate() {
            client.write_all(says.as_bytes()).await.unwrap();
            if number < 2 {
                read_line(&mut client).await;
            }
        }
        if let Ok(mut client) = acceptor.accept(client).await {
            let _ = client.read_to_end(&mut Vec::new()).await;
        }
    });
    failed(
        relay.submit(&attempt(&host), &mail()).await,
        FailureKind::Refused,
        "cannot be used",
    );
    host.shutdown().await.unwrap();
}

/// Says these lines, one for each that it is told, and then a line that does not end; how much of it was taken.
async fn endless(mut stream: impl AsyncRead + AsyncWrite + Unpin, says: &[&str]) -> usize {
    for line in says {
        stream.write_all(line.as_bytes()).await.unwrap();
        while stream.read_u8().await.unwrap() != b'\n' {}
    }
    let mut taken = 0;
    while taken < 64 << 20 && stream.write_all(&[b'2'; 4096]).await.is_ok() {
        taken += 4096;
    }
    taken
}

#[tokio::test]
async fn a_relay_that_says_too_much_is_not_listened_to() {
    let host = host().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let relay = SmtpDelivery::new(&format!("smtp://{}", listener.local_addr().unwrap())).unwrap();
    let says = ["220 x\r\n", "250 x\r\n", "250 x\r\n", "250 x\r\n"];
    for says in [&says[..0], &says[..3], &says] {
        let (submitted, taken) = tokio::join!(
            async { relay.submit(&attempt(&host), &mail()).await },
            async { endless(listener.accept().await.unwrap().0, says).await }
        );
        failed(submitted, FailureKind::Refused, "too much");
        // What the system keeps on the way is not in memory here.
        assert!(taken < 32 << 20, "{taken} bytes were taken");
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_relay_with_tls_that_says_too_much_is_not_listened_to() {
    let (host, front) = (host().await, Front::new().await);
    let relay = trusting(&format!("smtps://localhost:{}", front.port()));
    let (submitted, taken) = tokio::join!(
        async { relay.submit(&attempt(&host), &mail()).await },
        async {
            let (client, _) = front.listener.accept().await.unwrap();
            let client = front.acceptor.accept(client).await.unwrap();
            endless(client, &["220 x\r\n"]).await
        }
    );
    failed(submitted, FailureKind::Refused, "too much");
    assert!(taken < 32 << 20, "{taken} bytes were taken");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_mail_whose_answer_has_no_end_may_have_been_taken() {
    let host = host().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let relay = SmtpDelivery::new(&format!("smtp://{}", listener.local_addr().unwrap())).unwrap();
    let (submitted, _) = tokio::join!(
        async { relay.submit(&attempt(&host), &mail()).await },
        async {
            let mut stream = listener.accept().await.unwrap().0;
            for says in ["220 x\r\n", "250 x\r\n", "250 x\r\n", "250 x\r\n"] {
                stream.write_all(says.as_bytes()).await.unwrap();
                read_line(&mut stream).await;
            }
            stream.write_all(b"354 x\r\n").await.unwrap();
            while read_line(&mut stream).await != ".\r\n" {}
            endless(stream, &[]).await
        }
    );
    failed(submitted, FailureKind::Temporary, "too much");
    host.shutdown().await.unwrap();
}
