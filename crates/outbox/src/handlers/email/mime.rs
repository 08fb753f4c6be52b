//! An email in MIME format.
//!
//! Contract: the bytes are the same on every attempt: `Message-ID` and the boundaries come from the idempotency key,
//! and `Date` is when the email was enqueued. So a receiver can detect duplicates.

use std::time::{Duration, UNIX_EPOCH};

use lettre::{
    Message,
    message::{
        Attachment as Part, Body, MultiPart, MultiPartKind, SinglePart,
        header::{ContentTransferEncoding, HeaderName, HeaderValue},
    },
};

use url::Host;

use super::{Attachment, Email, mail::mailbox};

/// The email with this key, enqueued at this time in milliseconds since 1970.
pub(super) fn message(mail: &Email, key: &str, created_at: i64) -> Result<Message, String> {
    let from = mailbox(&mail.from)?;
    let date = Duration::from_millis(u64::try_from(created_at).unwrap_or_default());
    let mut builder = Message::builder()
        .message_id(Some(format!("<{key}@{}>", ascii(from.email.domain())?)))
        .date(UNIX_EPOCH + date)
        .from(from)
        .subject(&mail.subject);
    for address in &mail.to {
        builder = builder.to(mailbox(address)?);
    }
    for address in &mail.cc {
        builder = builder.cc(mailbox(address)?);
    }
    // They are only for the envelope: the builder leaves them out of the header.
    for address in &mail.bcc {
        builder = builder.bcc(mailbox(address)?);
    }
    if let Some(address) = &mail.reply_to {
        builder = builder.reply_to(mailbox(address)?);
    }
    for (name, value) in &mail.headers {
        let name = HeaderName::new_from_ascii(name.clone()).map_err(|error| error.to_string())?;
        builder = builder.raw_header(HeaderValue::new(name, value.clone()));
    }
    let built = match Parts::new(key).mail(mail)? {
        Node::Single(part) => builder.singlepart(part),
        Node::Multi(part) => builder.multipart(part),
    };
    built.map_err(|error| error.to_string())
}

/// Normalizes line endings; a bare CR also ends a line.
fn lines(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// A domain in ASCII, for the `Message-ID`.
fn ascii(domain: &str) -> Result<String, String> {
    if domain.is_ascii() {
        return Ok(domain.to_owned());
    }
    let host =
        Host::parse(domain).map_err(|error| format!("`{domain}` is not a domain: {error}"))?;
    Ok(host.to_string())
}

/// A MIME part, with or without nested parts.
enum Node {
    Single(SinglePart),
    Multi(MultiPart),
}

/// Creates nested parts, each with its own boundary.
struct Parts<'a> {
    key: &'a str,
    made: u32,
}

impl<'a> Parts<'a> {
    fn new(key: &'a str) -> Self {
        Self { key, made: 0 }
    }

    /// Text and HTML are alternatives; images belong to the HTML, files to the whole.
    fn mail(mut self, mail: &Email) -> Result<Node, String> {
        let (shown, files): (Vec<_>, Vec<_>) = mail
            .attachments
            .iter()
            .partition(|attachment| attachment.content_id.is_some());
        let text = mail.text.as_deref().map(lines);
        let html = mail.html.as_deref().map(lines);
        let text = text.map(SinglePart::plain).map(Node::Single);
        let html = html.map(SinglePart::html).map(Node::Single);
        let html = html
            .map(|html| self.with_files(MultiPartKind::Related, html, &shown))
            .transpose()?;
        let content = match (text, html) {
            (Some(text), Some(html)) => {
                let both = self.begin(MultiPartKind::Alternative);
                Node::Multi(append(append(both, text), html))
            }
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return Err("an email has a text, or HTML, or both".to_owned()),
        };
        self.with_files(MultiPartKind::Mixed, content, &files)
    }

    fn with_files(
        &mut self,
        kind: MultiPartKind,
        first: Node,
        files: &[&Attachment],
    ) -> Result<Node, String> {
        if files.is_empty() {
            return Ok(first);
        }
        let mut whole = append(self.begin(kind), first);
        for file in files {
            let part = match &file.content_id {
                Some(id) => Part::new_inline_with_name(id.clone(), file.name.clone()),
                None => Part::new(file.name.clone()),
            };
            // Always encode: a relay may treat a bare CR or LF in an attachment as the end of a line, and the rest as
            // commands.
            let content = Body::new_with_encoding(file.content()?, ContentTransferEncoding::Base64)
                .map_err(|_| format!("the attachment `{}` cannot be encoded", file.name))?;
            whole = whole.singlepart(part.body(content, file.content_type()?));
        }
        Ok(Node::Multi(whole))
    }

    fn begin(&mut self, kind: MultiPartKind) -> MultiPart {
        self.made += 1;
        MultiPart::builder()
            .kind(kind)
            .boundary(format!("{}_{}", self.key, self.made))
            .build()
    }
}

fn append(whole: MultiPart, part: Node) -> MultiPart {
    match part {
        Node::Single(part) => whole.singlepart(part),
        Node::Multi(part) => whole.multipart(part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(mail: &Email) -> String {
        let message = message(mail, "key_1", 784_111_777_000).unwrap();
        String::from_utf8(message.formatted()).unwrap()
    }

    #[test]
    fn a_mail_is_the_same_at_every_attempt_and_hides_blind_copies() {
        let mail = Email {
            bcc: vec!["grace@example.org".to_owned()],
            ..Email::new("seats@example.com", "Grüße")
        };
        let mail = mail.to("Ada <ada@example.org>").text("Hello");
        let sent = bytes(&mail.clone().html("<p>Hello</p>"));
        assert_eq!(sent, bytes(&mail.clone().html("<p>Hello</p>")));
        assert!(
            sent.contains("Message-ID: <key_1@example.com>\r\n"),
            "{sent}"
        );
        assert!(
            sent.contains("Date: Sun, 06 Nov 1994 08:49:37 +0000\r\n"),
            "{sent}"
        );
        assert!(sent.contains("Subject: =?utf-8?b?"), "{sent}");
        assert!(!sent.contains("grace"), "{sent}");
        let message = message(&mail, "key_1", 0).unwrap();
        let to: Vec<_> = message
            .envelope()
            .to()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(to, ["ada@example.org", "grace@example.org"]);
    }

    #[test]
    fn pictures_are_related_to_the_html_and_files_to_the_whole() {
        let mail = Email::new("seats@example.com", "Your seat")
            .to("ada@example.org")
            .text("Hello")
            .html("<img src=\"cid:logo\">")
            .attach(Attachment::new("logo.png", "image/png", [1, 2, 3]).inline("logo"))
            .attach(Attachment::new("ticket.pdf", "application/pdf", [4, 5, 6]));
        let sent = bytes(&mail);
        let order: Vec<_> = [
            "multipart/mixed",
            "multipart/alternative",
            "text/plain",
            "multipart/related",
            "text/html",
            "Content-ID: <logo>",
            "application/pdf",
        ]
        .iter()
        .map(|part| {
            sent.find(part)
                .unwrap_or_else(|| panic!("{part} in {sent}"))
        })
        .collect();
        assert!(order.is_sorted(), "{sent}");
        assert!(sent.contains("Content-Disposition: attachment; filename=\"ticket.pdf\""));
    }

    #[test]
    fn no_line_ends_but_with_cr_and_lf() {
        let smuggled =
            "Hello\r.\rMAIL FROM:<evil@example.com>\n.\nRCPT TO:<x>\r\n.\r\nDATA\r\r\n\n\r";
        let mail = Email::new("seats@example.com", "Your seat")
            .to("ada@example.org")
            .text(smuggled)
            .html(smuggled)
            .attach(Attachment::new("a.txt", "text/plain", smuggled))
            .attach(Attachment::new("b.png", "image/png", smuggled).inline("b"));
        let sent = bytes(&mail);
        let rest = sent.replace("\r\n", "");
        assert!(!rest.contains(['\r', '\n']), "{sent:?}");
        assert!(rest.contains("MAIL FROM:<evil"), "the text is there");
    }

    #[test]
    fn a_sender_s_domain_of_other_letters_makes_a_message_id() {
        let mail = Email::new("seats@exämple.com", "Seat")
            .to("ada@example.org")
            .text("14C");
        let sent = bytes(&mail);
        let line = sent
            .lines()
            .find(|line| line.starts_with("Message-ID:"))
            .unwrap();
        assert!(line.starts_with("Message-ID: <key_1@"), "{sent}");
        let from = sent.lines().find(|line| line.starts_with("From:")).unwrap();
        assert!(!from.contains("=?"), "{sent}");
    }
}
