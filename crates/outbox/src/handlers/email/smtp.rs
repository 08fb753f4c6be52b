//! Email by SMTP.
//!
//! Contract: an attempt is one connection to the relay and one email, for all its recipients or for none. Nothing is
//! queued here: every error is an error of the attempt. An attempt has no effect before the email itself is sent; if
//! the connection breaks between the email and the relay's reply, the result is unknown.

use std::{
    fmt::{self, Display},
    future::Future,
    net::IpAddr,
    time::Duration,
};

use lettre::{
    Message,
    address::Envelope,
    transport::smtp::{
        self,
        authentication::{Credentials, DEFAULT_MECHANISMS},
        client::{AsyncSmtpConnection, AsyncTokioStream, Certificate, TlsParameters},
        commands::{Data, Mail, Rcpt},
        extension::{ClientId, Extension, MailParameter},
        response::Response,
    },
};
use percent_encoding::percent_decode_str;
use url::{Host, Url};

use super::{
    Email, invalid, mime,
    wire::{Tls, Wire},
};
use crate::{Deliver, Delivery, Failure, Submitted, handlers::limits};

/// How long the relay may take until it is ready for an email. With five times as much for the whole attempt, more than
/// 4 minutes remain for the email itself unless the relay is slow; RFC 5321, section 4.5.3.2.6, recommends 10, but an
/// attempt ends after [`MAX_TIMEOUT`](crate::limits::MAX_TIMEOUT).
const TIMEOUT: Duration = Duration::from_secs(58);

/// Sends [`Email`]s through an SMTP relay.
///
/// `Message-ID` is derived from the idempotency key, so a receiver can detect an email that was sent twice because a
/// reply was lost.
///
/// ```
/// use abide::{
///     outbox::handlers::{Email, SmtpDelivery},
///     outbox::{Deliver, Outbox, OutboxError, Registry},
/// };
///
/// # fn example() -> abide::Result<()> {
/// let relay = SmtpDelivery::new("smtps://seats:secret@smtp.example.com")?;
/// let registry = Registry::new().with(relay);
/// # Ok(())
/// # }
///
/// fn tell(outbox: &Outbox) -> Result<(), OutboxError> {
///     let mail = Email::new("seats@example.com", "Your seat").to("ada@example.org").text("14C");
///     SmtpDelivery::enqueue(outbox, &mail)?;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct SmtpDelivery {
    host: String,
    port: u16,
    security: Security,
    credentials: Option<Credentials>,
    hello: ClientId,
    timeout: Duration,
}

/// How the connection is protected.
#[derive(Clone)]
enum Security {
    None,
    /// TLS from the first byte.
    Tls(TlsParameters),
    /// `STARTTLS`, before anything else is sent.
    StartTls(TlsParameters),
}

impl SmtpDelivery {
    /// A relay by its URL: `smtps://USER:PASSWORD@HOST:PORT/HELO`, with TLS from the first byte (port 465 if there is
    /// none), `smtp://HOST?tls=required` with STARTTLS (587), or `smtp://HOST` without TLS (25). User and password are
    /// percent-encoded and need TLS, except for a relay on this machine.
    pub fn new(url: &str) -> abide::Result<Self> {
        // The URL itself may hold a password, so no error shows it.
        let url = Url::parse(url)
            .map_err(|error| invalid(format!("the relay's address is not a URL: {error}")))?;
        // In such a URL, all hosts except IPv6 addresses are names.
        let host = match url.host() {
            Some(Host::Domain(name)) => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            None => return Err(invalid("the relay's URL has no host")),
        };
        let address: Option<IpAddr> = host.parse().ok();
        let local = address.map_or(host == "localhost", |address| address.is_loopback());
        let (security, port) = match (url.scheme(), url.query()) {
            ("smtps", None) => (Security::Tls(tls(&host, None)?), 465),
            ("smtp", Some("tls=required")) => (Security::StartTls(tls(&host, None)?), 587),
            ("smtp", None) => (Security::None, 25),
            _ => {
                return Err(invalid(
                    "a relay's URL must be smtps://HOST, smtp://HOST?tls=required or smtp://HOST",
                ));
            }
        };
        let credentials = credentials(&url)?;
        if credentials.is_some() && matches!(security, Security::None) && !local {
            return Err(invalid(
                "a password needs TLS: smtps://… or smtp://…?tls=required",
            ));
        }
        let hello = match url.path().trim_matches('/') {
            "" => ClientId::default(),
            name => ClientId::Domain(name.to_owned()),
        };
        Ok(Self {
            port: url.port().unwrap_or(port),
            host,
            security,
            credentials,
            hello,
            timeout: TIMEOUT,
        })
    }

    /// Also trusts a relay whose certificate is signed by this one, in PEM, in addition to the operating system's.
    pub fn with_root_certificate(mut self, pem: &[u8]) -> abide::Result<Self> {
        let root = Certificate::from_pem(pem)
            .map_err(|error| invalid(format!("the certificate is not PEM: {error}")))?;
        if let Security::Tls(parameters) | Security::StartTls(parameters) = &mut self.security {
            *parameters = tls(&self.host, Some(root))?;
        }
        Ok(self)
    }

    /// How long the relay may take until it is ready for an email; twice as long with 100 recipients. The whole attempt
    /// may take five times as long. Default and maximum: 58 s.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.min(TIMEOUT);
        self
    }

    /// Connects and greets the relay. Errors before the first mail command do not concern the email, whatever the relay
    /// replies.
    async fn connect(&self) -> Result<AsyncSmtpConnection, Failure> {
        let wire = Wire::connect((&*self.host, self.port)).await;
        let wire = wire.map_err(|error| unusable(&error))?;
        self.begin(wire).await.map_err(|error| unusable(&error))
    }

    async fn begin(&self, wire: Wire) -> Result<AsyncSmtpConnection, smtp::Error> {
        let stream: Box<dyn AsyncTokioStream> = match &self.security {
            Security::Tls(tls) => Box::new(Tls::begin(wire, tls.clone()).await?),
            Security::None | Security::StartTls(_) => Box::new(wire),
        };
        let mut connection =
            AsyncSmtpConnection::connect_with_transport(stream, &self.hello).await?;
        if let Security::StartTls(tls) = &self.security {
            connection.starttls(tls.clone(), &self.hello).await?;
        }
        if let Some(credentials) = &self.credentials {
            connection.auth(DEFAULT_MECHANISMS, credentials).await?;
        }
        Ok(connection)
    }

    /// How long the relay may take until it is ready for an email to this many recipients.
    fn patience(&self, recipients: usize) -> Duration {
        let many = recipients as f64 / limits::MAX_RECIPIENTS as f64;
        self.timeout + self.timeout.mul_f64(many.min(1.0))
    }

    /// Waits for a step of the attempt, up to a time after the attempt's start.
    async fn within<T>(
        &self,
        delivery: &Delivery,
        (began, limit): (Duration, Duration),
        step: impl Future<Output = Result<T, Failure>>,
        late: fn(String) -> Failure,
    ) -> Result<T, Failure> {
        let clock = delivery.env().clock();
        let left = (began + limit).saturating_sub(clock.now());
        tokio::select! {
            biased;
            done = step => done,
            () = abide::clock::time_limit(&**clock, left) => Err(late(format!(
                "the relay did not answer within {} s",
                limit.as_secs_f64()
            ))),
        }
    }
}

impl Deliver for SmtpDelivery {
    type Payload = Email;

    const KIND: &'static str = "email";

    fn check(&self, mail: &Email) -> Result<(), String> {
        mail.check()
    }

    /// The relay.
    fn destination(&self, _: &Email) -> String {
        if self.host.contains(':') {
            return format!("[{}]:{}", self.host, self.port);
        }
        format!("{}:{}", self.host, self.port)
    }

    fn summary(&self, mail: &Email) -> String {
        mail.summary()
    }

    /// Longer than all steps.
    fn timeout(&self) -> Option<Duration> {
        Some(5 * self.timeout + 2 * limits::ANSWER_PATIENCE)
    }

    async fn submit(&self, delivery: &Delivery, mail: &Email) -> Result<Submitted, Failure> {
        let message = mime::message(mail, delivery.idempotency_key(), delivery.created_at())
            .map_err(Failure::permanent)?;
        let ready = async {
            let mut connection = self.connect().await?;
            announce(&mut connection, &message).await?;
            Ok(connection)
        };
        let began = delivery.env().clock().now();
        let patience = self.patience(message.envelope().to().len());
        let mut connection = self
            .within(delivery, (began, patience), ready, Failure::refused)
            .await?;
        let bytes = message.formatted();
        let sending = async {
            let answer = connection.message(&bytes).await;
            expect(
                &answer.map_err(|error| lost(&error))?,
                250,
                Failure::temporary,
            )
        };
        let sent = self
            .within(
                delivery,
                (began, 5 * self.timeout),
                sending,
                Failure::temporary,
            )
            .await;
        if sent.is_ok() {
            let clock = delivery.env().clock();
            // The relay has the mail, whether or not it says goodbye.
            tokio::select! {
                _ = connection.quit() => {}
                () = abide::clock::time_limit(&**clock, limits::ANSWER_PATIENCE) => {}
            }
        }
        sent.map(|()| Submitted::Done)
    }
}

/// Sends the envelope: sender, recipients, and the announcement of the data.
async fn announce(connection: &mut AsyncSmtpConnection, message: &Message) -> Result<(), Failure> {
    let envelope = message.envelope();
    let mut parameters = Vec::new();
    if !is_ascii(envelope) {
        if !connection
            .server_info()
            .supports_feature(Extension::SmtpUtfEight)
        {
            return Err(Failure::permanent(
                "the relay accepts only ASCII addresses (it has no SMTPUTF8)",
            ));
        }
        parameters.push(MailParameter::SmtpUtfEight);
    }
    let mail = Mail::new(envelope.from().cloned(), parameters);
    say(connection, mail).await?;
    for address in envelope.to() {
        say(connection, Rcpt::new(address.clone(), Vec::new())).await?;
    }
    let answer = connection.command(Data).await;
    expect(
        &answer.map_err(|error| refused(&error))?,
        354,
        Failure::refused,
    )
}

/// Refuses a positive reply with an unexpected code.
fn expect(answer: &Response, code: u16, other: fn(String) -> Failure) -> Result<(), Failure> {
    if answer.has_code(code) {
        return Ok(());
    }
    Err(other(format!(
        "the relay replied {} instead of {code}",
        answer.code()
    )))
}

async fn say(connection: &mut AsyncSmtpConnection, command: impl Display) -> Result<(), Failure> {
    let answer = connection.command(command).await;
    answer.map(drop).map_err(|error| refused(&error))
}

fn is_ascii(envelope: &Envelope) -> bool {
    let addresses = envelope.from().into_iter().chain(envelope.to());
    addresses
        .map(AsRef::<str>::as_ref)
        .all(|address: &str| address.is_ascii())
}

fn unusable(error: &impl Display) -> Failure {
    Failure::refused(format!("the relay cannot be used: {error}"))
}

fn refused(error: &smtp::Error) -> Failure {
    let text = format!("the relay did not accept the email: {error}");
    if error.is_permanent() {
        Failure::permanent(text)
    } else {
        Failure::refused(text)
    }
}

fn lost(error: &smtp::Error) -> Failure {
    if error.status().is_some() {
        return refused(error);
    }
    Failure::temporary(format!(
        "the email was sent, but the relay's reply was lost: {error}"
    ))
}

fn tls(host: &str, root: Option<Certificate>) -> abide::Result<TlsParameters> {
    let mut parameters = TlsParameters::builder(host.to_owned());
    if let Some(root) = root {
        parameters = parameters.add_root_certificate(root);
    }
    parameters
        .build_rustls()
        .map_err(|error| invalid(format!("setting up TLS for the relay: {error}")))
}

fn credentials(url: &Url) -> abide::Result<Option<Credentials>> {
    if url.username().is_empty() {
        return Ok(None);
    }
    let decoded = |text| {
        let text = percent_decode_str(text).decode_utf8();
        text.map(String::from)
            .map_err(|_| invalid("the relay's user or password is not UTF-8"))
    };
    let password = decoded(url.password().unwrap_or_default())?;
    Ok(Some(Credentials::new(decoded(url.username())?, password)))
}

impl fmt::Debug for SmtpDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmtpDelivery")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use abide::ErrorKind;

    use super::*;

    fn relay(url: &str) -> SmtpDelivery {
        SmtpDelivery::new(url).unwrap()
    }

    #[test]
    fn a_url_says_host_port_and_how_the_connection_is_protected() {
        let mail = Email::default();
        for (url, to) in [
            ("smtps://smtp.example.com", "smtp.example.com:465"),
            (
                "smtp://smtp.example.com?tls=required",
                "smtp.example.com:587",
            ),
            ("smtp://127.0.0.1:2525/me.example.com", "127.0.0.1:2525"),
            ("smtp://ada:p%40ss@localhost", "localhost:25"),
            ("smtp://ada:p%40ss@127.0.0.1", "127.0.0.1:25"),
            ("smtp://ada:p%40ss@[::1]", "[::1]:25"),
        ] {
            assert_eq!(relay(url).destination(&mail), to);
        }
    }

    #[test]
    fn an_attempt_allows_for_slow_relays_and_ends_before_its_time_limit() {
        let relay = relay("smtp://127.0.0.1");
        let (few, many) = (relay.patience(1), relay.patience(limits::MAX_RECIPIENTS));
        assert!(many > few + few / 2, "{few:?} {many:?}");
        assert!(5 * relay.timeout > few + Duration::from_mins(3));
        let all = Deliver::timeout(&relay).unwrap();
        assert!(all <= crate::limits::MAX_TIMEOUT, "{all:?}");
    }

    #[test]
    fn a_password_goes_nowhere_without_tls_and_is_not_shown() {
        for bad in [
            "smtp://ada:secret@smtp.example.com",
            "smtp://smtp.example.com?tls=opportunistic",
            "http://ada:secret@smtp.example.com",
            "smtps://",
            "secret",
        ] {
            let error = SmtpDelivery::new(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Input, "{bad}");
            assert!(!error.message().contains("secret"), "{error}");
        }
        let relay = relay("smtps://ada:secret@smtp.example.com");
        assert!(!format!("{relay:?}").contains("secret"));
    }
}
