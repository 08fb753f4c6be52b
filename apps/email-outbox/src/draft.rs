//! A draft, before it becomes a mail.

use abide::outbox::handlers::Email;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Maximum number of recipients of a draft.
pub const MAX_RECIPIENTS: usize = 50_000;

/// Maximum length of a subject in characters.
const MAX_SUBJECT: usize = 200;

/// Maximum length of a text in bytes.
const MAX_TEXT: usize = 100 << 10;

/// A mail to one or more recipients; each gets a separate mail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draft {
    /// The recipients, without duplicates.
    pub to: Vec<String>,
    /// The subject.
    pub subject: String,
    /// What it says.
    pub text: String,
}

/// Why a draft is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum Invalid {
    /// The mail has no recipient.
    #[error("Enter at least one recipient.")]
    NoRecipients,
    /// Too many would get it.
    #[error("A mail may have at most {MAX_RECIPIENTS} recipients; these are {0}.")]
    TooManyRecipients(usize),
    /// One of the recipients is no address.
    #[error("“{0}” is not an e-mail address.")]
    Address(String),
    /// There is no subject.
    #[error("Give the mail a subject.")]
    NoSubject,
    /// The subject is too long.
    #[error("A subject may have at most {MAX_SUBJECT} characters; this one has {0}.")]
    SubjectTooLong(usize),
    /// The subject has a line break or the like.
    #[error("A subject must be one line of text.")]
    SubjectForm,
    /// There is no text.
    #[error("Write something.")]
    NoText,
    /// The text is too long.
    #[error("A text may have at most {MAX_TEXT} bytes; this one has {0}.")]
    TextTooLong(usize),
}

impl Draft {
    /// A draft with recipients as typed or pasted: separated by line breaks, commas or semicolons.
    pub fn parse(to: &str, subject: &str, text: &str) -> Self {
        let to = to.split([',', ';', '\n', '\r']).map(str::trim);
        Self {
            to: to.filter(|to| !to.is_empty()).map(str::to_owned).collect(),
            subject: subject.trim().to_owned(),
            // Browsers end lines as HTTP does.
            text: text.replace("\r\n", "\n"),
        }
    }

    /// The mail to one of them.
    pub(crate) fn mail(&self, from: &str, to: &str) -> Email {
        Email::new(from, &*self.subject).to(to).text(&*self.text)
    }

    /// The draft without duplicate recipients, if it can be sent.
    pub fn check(mut self) -> Result<Self, Invalid> {
        let mut known = std::collections::HashSet::new();
        self.to.retain(|to| known.insert(to.to_lowercase()));
        if let Some(wrong) = self.to.iter().find(|to| !is_address(to)) {
            return Err(Invalid::Address(wrong.clone()));
        }
        let subject = self.subject.chars().count();
        match self.to.len() {
            0 => Err(Invalid::NoRecipients),
            many if many > MAX_RECIPIENTS => Err(Invalid::TooManyRecipients(many)),
            _ if subject == 0 => Err(Invalid::NoSubject),
            _ if subject > MAX_SUBJECT => Err(Invalid::SubjectTooLong(subject)),
            _ if self.subject.chars().any(char::is_control) => Err(Invalid::SubjectForm),
            _ if self.text.trim().is_empty() => Err(Invalid::NoText),
            _ if self.text.len() > MAX_TEXT => Err(Invalid::TextTooLong(self.text.len())),
            _ => Ok(self),
        }
    }
}

/// Validates an address, `ada@example.com` or `Ada Lovelace <ada@example.com>`; whether the mailbox exists only its
/// server knows.
fn is_address(text: &str) -> bool {
    let mail = Email::new("sender@example.com", "subject")
        .to(text)
        .text("text");
    mail.check().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipients_are_taken_as_people_paste_them_and_each_once() {
        let draft = Draft::parse(
            " ada@example.com, grace@example.com;\r\nADA@example.com\n\n alan@example.com ,",
            " Hello ",
            "a\r\nb",
        );
        let draft = draft.check().unwrap();
        assert_eq!(
            draft.to,
            ["ada@example.com", "grace@example.com", "alan@example.com"]
        );
        assert_eq!((&*draft.subject, &*draft.text), ("Hello", "a\nb"));
    }

    #[test]
    fn a_recipient_may_have_a_name() {
        let draft = Draft::parse("Ada Lovelace <ada@example.com>", "s", "t");
        assert_eq!(draft.clone().check(), Ok(draft));
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_a_sentence() {
        let refused = |to: &str, subject: &str, text: &str| {
            Draft::parse(to, subject, text).check().unwrap_err()
        };
        assert_eq!(refused(" ,\n", "s", "t"), Invalid::NoRecipients);
        for wrong in ["ada", "@example.com", "a@b@c", "a b@example.com", "ada@"] {
            assert_eq!(refused(wrong, "s", "t"), Invalid::Address(wrong.into()));
        }
        assert_eq!(refused("a@b.c", " ", "t"), Invalid::NoSubject);
        assert_eq!(refused("a@b.c", "s\u{7}t", "t"), Invalid::SubjectForm);
        assert_eq!(
            refused("a@b.c", &"é".repeat(201), "t"),
            Invalid::SubjectTooLong(201)
        );
        assert_eq!(refused("a@b.c", "s", "\n \n"), Invalid::NoText);
        let many = (0..=MAX_RECIPIENTS)
            .map(|number| format!("{number}@b.c"))
            .collect::<Vec<_>>()
            .join("\n");
        assert_eq!(
            refused(&many, "s", "t"),
            Invalid::TooManyRecipients(MAX_RECIPIENTS + 1)
        );
    }
}
