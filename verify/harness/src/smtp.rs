//! A mail server ([RFC 5321](https://www.rfc-editor.org/rfc/rfc5321)) that records its mails, and fails according to a
//! script.
//!
//! It speaks plain SMTP with the extensions `SIZE`, `8BITMIME`, `SMTPUTF8` and `PIPELINING`. It delivers nothing.

use std::sync::Arc;

use mail_parser::{Message, MessageParser};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use crate::{
    listener::Listener,
    record::{Record, Script},
};

/// Maximum size of a mail in bytes, unless a test sets another.
const MAX_MAIL: usize = 10 << 20;

/// Maximum length of a line in bytes (RFC 5321, 4.5.3.1, says 1,000 for text).
const MAX_LINE: u64 = 64 << 10;

/// An accepted mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// The sender of the envelope; empty for bounces.
    pub from: String,
    /// The recipients of the envelope.
    pub to: Vec<String>,
    /// The mail as it was sent, without dot stuffing.
    pub data: Vec<u8>,
    /// Whether the client received the confirmation.
    pub answered: bool,
}

impl Mail {
    /// Headers and parts.
    pub fn parse(&self) -> Message<'_> {
        MessageParser::default()
            .parse(&self.data)
            .expect("a mail has headers")
    }

    /// The `Message-ID`, without its brackets.
    pub fn message_id(&self) -> String {
        let message = self.parse();
        message.message_id().expect("a Message-ID").to_owned()
    }

    /// The subject.
    pub fn subject(&self) -> String {
        self.parse().subject().unwrap_or_default().to_owned()
    }
}

/// A stage of an SMTP transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmtpStage {
    /// The answer to `MAIL FROM`.
    Sender,
    /// The answer to `RCPT TO`.
    Recipient,
    /// The answer to `DATA`.
    Data,
    /// The answer to the mail itself.
    End,
}

/// The handling of one mail. At [`SmtpStage::End`] the mail is kept unless it is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmtpAct {
    /// Accept it.
    Take,
    /// Reject it at this stage, with a code from 400 to 599.
    Refuse(SmtpStage, u16),
    /// Close the connection at this stage, instead of responding.
    Drop(SmtpStage),
    /// Do not respond at this stage, and keep the connection open.
    Stall(SmtpStage),
}

#[derive(Debug)]
struct Shared {
    mails: Record<Mail>,
    script: Script<SmtpAct>,
    max_mail: usize,
}

/// A running mail server. Ends when dropped, with its connections.
#[derive(Debug)]
pub struct SmtpServer {
    listener: Listener,
    shared: Arc<Shared>,
}

impl SmtpServer {
    /// Starts one on a free local port. Call it inside a tokio runtime.
    pub async fn start() -> Self {
        Self::start_at("127.0.0.1:0", MAX_MAIL).await
    }

    /// Starts one on an address, which another one may have used before, with this maximum size of mails in bytes.
    pub async fn start_at(address: &str, max_mail: usize) -> Self {
        let shared = Arc::new(Shared {
            mails: Record::default(),
            script: Script::always(SmtpAct::Take),
            max_mail,
        });
        let serving = Arc::clone(&shared);
        let listener = Listener::start(address, move |stream| {
            let shared = Arc::clone(&serving);
            async move {
                // A client may disconnect at any time.
                let _ = Session::serve(stream, &shared).await;
            }
        })
        .await;
        Self { listener, shared }
    }

    /// Host and port.
    pub fn address(&self) -> String {
        self.listener.address().to_string()
    }

    /// `smtp://HOST:PORT`.
    pub fn url(&self) -> String {
        format!("smtp://{}", self.address())
    }

    /// Scripts the handling of the next mails, one each; further mails are accepted.
    pub fn script(&self, acts: impl IntoIterator<Item = SmtpAct>) {
        self.shared.script.append(acts);
    }

    /// Sets the handling of every mail from now on, replacing the script.
    pub fn always(&self, act: SmtpAct) {
        self.shared.script.replace(act);
    }

    /// The recorded mails, in order.
    pub fn received(&self) -> Vec<Mail> {
        self.shared.mails.all()
    }

    /// Waits until this many mails were recorded, and returns all.
    pub async fn wait_for(&self, count: usize) -> Vec<Mail> {
        self.shared.mails.wait_for(count, |_| true).await
    }
}

/// The next step of a connection.
enum Next {
    Say(String),
    Bye(&'static str),
    Drop,
    Stall,
}

/// One connection.
struct Session<'a> {
    shared: &'a Shared,
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    greeted: bool,
    act: SmtpAct,
    from: Option<String>,
    to: Vec<String>,
}

impl<'a> Session<'a> {
    async fn serve(stream: TcpStream, shared: &'a Shared) -> std::io::Result<()> {
        let (reader, writer) = stream.into_split();
        let mut session = Self {
            shared,
            reader: BufReader::new(reader),
            writer,
            greeted: false,
            act: SmtpAct::Take,
            from: None,
            to: Vec::new(),
        };
        session.say("220 double.test ESMTP").await?;
        while let Some(line) = session.line().await? {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            match session.answer(&line).await? {
                Next::Say(text) => session.say(&text).await?,
                Next::Bye(text) => return session.say(text).await,
                Next::Drop => return Ok(()),
                Next::Stall => {
                    session.reader.read_to_end(&mut Vec::new()).await?;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    async fn answer(&mut self, line: &str) -> std::io::Result<Next> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let verb = verb.to_ascii_uppercase();
        let said = match verb.as_str() {
            "EHLO" => {
                self.begin();
                let size = self.shared.max_mail;
                format!(
                    "250-double.test\r\n250-PIPELINING\r\n250-SIZE {size}\r\n250-8BITMIME\r\n250 SMTPUTF8"
                )
            }
            "HELO" => {
                self.begin();
                "250 double.test".to_owned()
            }
            "NOOP" => "250 OK".to_owned(),
            "RSET" => {
                self.reset();
                "250 OK".to_owned()
            }
            "QUIT" => return Ok(Next::Bye("221 Goodbye")),
            "VRFY" => "252 Send some mail, I will try".to_owned(),
            "MAIL" => return Ok(self.mail(rest)),
            "RCPT" => return Ok(self.rcpt(rest)),
            "DATA" => return self.data().await,
            _ => "500 Unknown command".to_owned(),
        };
        Ok(Next::Say(said))
    }

    fn begin(&mut self) {
        self.reset();
        self.greeted = true;
    }

    fn reset(&mut self) {
        self.from = None;
        self.to.clear();
    }

    fn mail(&mut self, rest: &str) -> Next {
        if !self.greeted || self.from.is_some() {
            return Next::Say("503 Bad sequence of commands".to_owned());
        }
        let Some((from, parameters)) = path(rest, "FROM:") else {
            return Next::Say("501 Expected MAIL FROM:<address>".to_owned());
        };
        let size = parameters.split(' ').find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.eq_ignore_ascii_case("SIZE")
                .then(|| value.parse().ok())?
        });
        if size.is_some_and(|size: usize| size > self.shared.max_mail) {
            return Next::Say("552 Too large".to_owned());
        }
        self.act = self.shared.script.next();
        if let Some(trouble) = self.trouble(SmtpStage::Sender) {
            return trouble;
        }
        self.from = Some(from);
        Next::Say("250 OK".to_owned())
    }

    fn rcpt(&mut self, rest: &str) -> Next {
        if self.from.is_none() {
            return Next::Say("503 Bad sequence of commands".to_owned());
        }
        let Some((to, _)) = path(rest, "TO:").filter(|(to, _)| !to.is_empty()) else {
            return Next::Say("501 Expected RCPT TO:<address>".to_owned());
        };
        if let Some(trouble) = self.trouble(SmtpStage::Recipient) {
            return trouble;
        }
        self.to.push(to);
        Next::Say("250 OK".to_owned())
    }

    async fn data(&mut self) -> std::io::Result<Next> {
        if self.to.is_empty() {
            return Ok(Next::Say("503 Bad sequence of commands".to_owned()));
        }
        if let Some(trouble) = self.trouble(SmtpStage::Data) {
            return Ok(trouble);
        }
        self.say("354 End with a dot on its own line").await?;
        let mut data = Vec::new();
        let mut size = 0;
        loop {
            let Some(line) = self.line().await? else {
                return Ok(Next::Drop);
            };
            if line == b".\r\n" {
                break;
            }
            let line = line.strip_prefix(b".").unwrap_or(&line);
            size += line.len();
            if size <= self.shared.max_mail {
                data.extend_from_slice(line);
            }
        }
        let from = self.from.take().unwrap_or_default();
        let to = std::mem::take(&mut self.to);
        if size > self.shared.max_mail {
            return Ok(Next::Say("552 Too large".to_owned()));
        }
        let trouble = self.trouble(SmtpStage::End);
        if !matches!(trouble, Some(Next::Say(_))) {
            let answered = trouble.is_none();
            self.shared.mails.change(|mails| {
                mails.push(Mail {
                    from,
                    to,
                    data,
                    answered,
                });
            });
        }
        Ok(trouble.unwrap_or_else(|| Next::Say("250 Taken".to_owned())))
    }

    /// The scripted failure at this stage, if any.
    fn trouble(&self, stage: SmtpStage) -> Option<Next> {
        match self.act {
            SmtpAct::Refuse(at, code) if at == stage => {
                Some(Next::Say(format!("{code} Refused by the script")))
            }
            SmtpAct::Drop(at) if at == stage => Some(Next::Drop),
            SmtpAct::Stall(at) if at == stage => Some(Next::Stall),
            _ => None,
        }
    }

    async fn say(&mut self, text: &str) -> std::io::Result<()> {
        self.writer
            .write_all(format!("{text}\r\n").as_bytes())
            .await
    }

    /// The next line with its end; `None` if the client has disconnected.
    async fn line(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        read_line(&mut self.reader).await
    }
}

async fn read_line(
    reader: &mut BufReader<impl AsyncRead + Unpin>,
) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    reader.take(MAX_LINE).read_until(b'\n', &mut line).await?;
    Ok(line.ends_with(b"\n").then_some(line))
}

/// The address of `FROM:<address>` and the rest of the line.
fn path<'a>(rest: &'a str, intro: &str) -> Option<(String, &'a str)> {
    let (head, rest) = rest.split_at_checked(intro.len())?;
    if !head.eq_ignore_ascii_case(intro) {
        return None;
    }
    let (address, rest) = rest.trim_start().strip_prefix('<')?.split_once('>')?;
    Some((address.to_owned(), rest.trim()))
}
