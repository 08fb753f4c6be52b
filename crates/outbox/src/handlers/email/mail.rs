//! An email as a message.
//!
//! Contract: an email that passes [`check`](Email::check) is sent with exactly the given header: addresses are valid,
//! and no text can inject a line break.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use lettre::message::{Mailbox, header::ContentType};
use serde::{Deserialize, Serialize};

use crate::handlers::limits;

/// An email. Addresses are `ada@example.org` or `Ada Lovelace <ada@example.org>`.
///
/// ```
/// use abide::outbox::handlers::Email;
///
/// let mail = Email::new("Seats <seats@example.com>", "Your seat")
///     .to("ada@example.org")
///     .text("Seat 14C is yours.")
///     .html("<p>Seat <b>14C</b> is yours.</p>");
/// assert_eq!(mail.check(), Ok(()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Email {
    /// The sender.
    pub from: String,
    /// The recipients. With `cc` and `bcc` 1 to 100.
    #[serde(default)]
    pub to: Vec<String>,
    /// Recipients of a copy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cc: Vec<String>,
    /// Recipients of a hidden copy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bcc: Vec<String>,
    /// The address for replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// The subject: one line.
    pub subject: String,
    /// The content as plain text. An email has this or `html`, or both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The content as HTML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// Files, and images that the HTML shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// More headers, such as `List-Unsubscribe`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// An attachment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attachment {
    /// The file's name.
    pub name: String,
    /// Its type, such as `image/png`.
    pub content_type: String,
    /// Its bytes, in base64 with padding.
    pub content_base64: String,
    /// If present, the HTML can show the file under this name: `<img src="cid:logo">`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_id: Option<String>,
}

impl Attachment {
    /// A file.
    pub fn new(
        name: impl Into<String>,
        content_type: impl Into<String>,
        content: impl AsRef<[u8]>,
    ) -> Self {
        Self {
            name: name.into(),
            content_type: content_type.into(),
            content_base64: STANDARD.encode(content),
            content_id: None,
        }
    }

    /// A file that the HTML can show as `cid:` and this name.
    #[must_use]
    pub fn inline(mut self, content_id: impl Into<String>) -> Self {
        self.content_id = Some(content_id.into());
        self
    }

    pub(super) fn content(&self) -> Result<Vec<u8>, String> {
        let content = STANDARD.decode(&self.content_base64);
        content.map_err(|error| format!("attachment `{}` is not valid base64: {error}", self.name))
    }

    pub(super) fn content_type(&self) -> Result<ContentType, String> {
        ContentType::parse(&self.content_type).map_err(|_| {
            format!(
                "attachment `{}`: `{}` is not a content type such as image/png",
                self.name, self.content_type
            )
        })
    }
}

impl Email {
    /// An email without recipients and content.
    pub fn new(from: impl Into<String>, subject: impl Into<String>) -> Self {
        Self {
            from: from.into(),
            subject: subject.into(),
            ..Self::default()
        }
    }

    /// Adds a recipient.
    #[must_use]
    pub fn to(mut self, address: impl Into<String>) -> Self {
        self.to.push(address.into());
        self
    }

    /// Sets [`text`](Self::text).
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Sets [`html`](Self::html).
    #[must_use]
    pub fn html(mut self, html: impl Into<String>) -> Self {
        self.html = Some(html.into());
        self
    }

    /// Adds a file.
    #[must_use]
    pub fn attach(mut self, attachment: Attachment) -> Self {
        self.attachments.push(attachment);
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Validates the email; an error's text says what is valid.
    pub fn check(&self) -> Result<(), String> {
        mailbox(&self.from)?;
        for address in self.recipients().chain(&self.reply_to) {
            mailbox(address)?;
        }
        let recipients = self.recipients().count();
        if !(1..=limits::MAX_RECIPIENTS).contains(&recipients) {
            return Err(format!(
                "an email has 1 to {} recipients, not {recipients}",
                limits::MAX_RECIPIENTS
            ));
        }
        line("the subject", &self.subject)?;
        if self.text.is_none() && self.html.is_none() {
            return Err("an email has a text, or HTML, or both".to_owned());
        }
        self.check_headers()?;
        self.check_attachments()
    }

    fn check_headers(&self) -> Result<(), String> {
        if self.headers.len() > limits::MAX_HEADERS {
            return Err(format!(
                "there are {} headers; at most {} are allowed",
                self.headers.len(),
                limits::MAX_HEADERS
            ));
        }
        for (name, value) in &self.headers {
            let printable = |c: char| c.is_ascii_graphic() && c != ':';
            if !(1..=64).contains(&name.len()) || !name.chars().all(printable) {
                return Err(format!("`{name}` is not a valid header name"));
            }
            let lower = name.to_ascii_lowercase();
            let is_own = ["content-", "resent-"]
                .iter()
                .any(|own| lower.starts_with(own));
            if is_own || OWN_HEADERS.contains(&&*lower) {
                return Err(format!(
                    "header `{name}` is derived from the email's other fields"
                ));
            }
            line(&format!("header `{name}`"), value)?;
        }
        Ok(())
    }

    fn check_attachments(&self) -> Result<(), String> {
        if self.attachments.len() > limits::MAX_ATTACHMENTS {
            return Err(format!(
                "there are {} attachments; at most {} are allowed",
                self.attachments.len(),
                limits::MAX_ATTACHMENTS
            ));
        }
        for attachment in &self.attachments {
            line("an attachment's name", &attachment.name)?;
            if attachment.name.is_empty() {
                return Err("an attachment has no name".to_owned());
            }
            if let Some(id) = &attachment.content_id {
                let plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
                if !(1..=128).contains(&id.len()) || !id.chars().all(plain) {
                    return Err(format!(
                        "`{id}` is not a content id: use 1 to 128 letters, digits and `._-@`"
                    ));
                }
                if self.html.is_none() {
                    return Err(format!("there is no HTML that could show `cid:{id}`"));
                }
            }
            attachment.content_type()?;
            attachment.content()?;
        }
        Ok(())
    }

    /// All recipients.
    pub(super) fn recipients(&self) -> impl Iterator<Item = &String> {
        self.to.iter().chain(&self.cc).chain(&self.bcc)
    }

    /// A line for people, `ADDRESS: SUBJECT`: truncated, it still names the recipient.
    pub(super) fn summary(&self) -> String {
        let first = self.recipients().next().map_or("", |first| bare(first));
        match self.recipients().count() {
            0 | 1 => format!("{first}: {}", self.subject),
            many => format!("{first} and {} more: {}", many - 1, self.subject),
        }
    }
}

/// An address without the name before it.
fn bare(mailbox: &str) -> &str {
    let address = mailbox.rsplit_once('<').map(|(_, address)| address.trim());
    address.map_or(mailbox.trim(), |address| address.trim_end_matches('>'))
}

/// Headers that are derived from an email's fields, and those that servers add.
const OWN_HEADERS: [&str; 15] = [
    "from",
    "sender",
    "to",
    "cc",
    "bcc",
    "reply-to",
    "subject",
    "date",
    "message-id",
    "mime-version",
    "return-path",
    "received",
    "dkim-signature",
    "authentication-results",
    "errors-to",
];

/// An address with or without a name.
pub(super) fn mailbox(text: &str) -> Result<Mailbox, String> {
    line("an address", text)?;
    text.parse()
        .map_err(|error| format!("`{text}` is not an address such as ada@example.org: {error}"))
}

/// Refuses a text with line breaks.
fn line(what: &str, text: &str) -> Result<(), String> {
    if text.chars().any(char::is_control) {
        return Err(format!(
            "{what} has line breaks or other control characters"
        ));
    }
    if text.chars().count() > limits::MAX_HEADER_VALUE {
        return Err(format!(
            "{what} has more than {} characters",
            limits::MAX_HEADER_VALUE
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail() -> Email {
        Email::new("Seats <seats@example.com>", "Grüße")
            .to("ada@example.org")
            .text("Hello")
    }

    fn why_not(mail: &Email) -> String {
        mail.check().unwrap_err()
    }

    #[test]
    fn what_would_end_a_line_of_the_header_is_refused() {
        let evil = "x\r\nBcc: all@example.org";
        assert!(
            why_not(&Email {
                subject: evil.into(),
                ..mail()
            })
            .contains("subject")
        );
        assert!(why_not(&mail().to(format!("{evil}@example.org"))).contains("address"));
        assert!(why_not(&mail().header("X-Tag", evil)).contains("X-Tag"));
        assert!(why_not(&mail().header("X-Tag\r\nBcc", "x")).contains("not a valid header name"));
        for name in ["Bcc", "Resent-Bcc", "Resent-To", "Errors-To"] {
            assert!(why_not(&mail().header(name, "eve@example.org")).contains(name));
        }
        let named = Attachment::new(evil, "text/plain", "x");
        assert!(why_not(&mail().attach(named)).contains("name"));
        let typed = Attachment::new("a.png", format!("image/png\r\n{evil}"), "x");
        assert!(why_not(&mail().attach(typed)).contains("content type"));
        let shown = Attachment::new("a.png", "image/png", "x").inline("a>\r\nX: y");
        assert!(why_not(&mail().html("x").attach(shown)).contains("content id"));
    }

    #[test]
    fn what_is_no_mail_is_refused_and_told_why() {
        assert_eq!(mail().check(), Ok(()));
        assert!(why_not(&mail().to("unknown")).contains("`unknown` is not an address"));
        assert!(
            why_not(&Email {
                to: vec![],
                ..mail()
            })
            .contains("recipients")
        );
        assert!(
            why_not(&Email {
                text: None,
                ..mail()
            })
            .contains("a text, or HTML")
        );
        assert!(why_not(&mail().header("Message-ID", "<x@y>")).contains("Message-ID"));
        let mut bad = Attachment::new("a.png", "image/png", "x");
        bad.content_base64.push('!');
        assert!(why_not(&mail().attach(bad)).contains("not valid base64"));
        let lone = Attachment::new("a.png", "image/png", "x").inline("a");
        assert!(why_not(&mail().attach(lone)).contains("no HTML"));
        let many = (0..101).fold(mail(), |mail, n| mail.to(format!("n{n}@example.org")));
        assert!(why_not(&many).contains("not 102"));
    }
}
