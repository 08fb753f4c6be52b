//! Posts and comments, and their validation.

use abide::outbox::handlers::Email;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Maximum length of a name in characters.
pub const MAX_NAME: usize = 60;

/// Maximum length of an address in bytes (RFC 5321, 4.5.3.1.3, less its brackets).
pub const MAX_EMAIL: usize = 254;

/// Maximum length of a comment or a post in characters.
pub const MAX_TEXT: usize = 10_000;

/// Maximum length of a post's title in characters.
pub const MAX_TITLE: usize = 200;

/// Maximum length of a post's slug in bytes.
pub const MAX_SLUG: usize = 80;

/// Maximum length in bytes of the mark that identifies a repeated comment.
pub const MAX_MARK: usize = 64;

/// A comment as its author sends it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewComment {
    /// The author's name.
    pub name: String,
    /// The author's address. It is never shown.
    pub email: String,
    /// What they say.
    pub text: String,
    /// A comment sent again with the same mark is the same comment.
    #[serde(default)]
    pub mark: String,
}

/// A post as its author sends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewPost {
    /// One line.
    pub title: String,
    /// Paragraphs, with an empty line between them.
    pub text: String,
    /// The author, who is notified of comments; optional.
    #[serde(default)]
    pub author: Option<Author>,
}

/// The author of a post.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Author {
    /// Their name.
    pub name: String,
    /// Their address. It is never shown.
    pub email: String,
}

/// A post.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Post {
    /// Increases with each post.
    pub id: i64,
    /// Its slug.
    pub slug: String,
    /// One line.
    pub title: String,
    /// Paragraphs, with an empty line between them.
    pub text: String,
    /// When it was written, in milliseconds since 1970.
    pub at: i64,
    /// Comments on it.
    pub comments: i64,
}

/// A comment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comment {
    /// Increases with each comment of the blog.
    pub id: i64,
    /// Who says it.
    pub name: String,
    /// What they say.
    pub text: String,
    /// When, in milliseconds since 1970.
    pub at: i64,
}

/// A post and a page of its comments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// The post.
    pub post: Post,
    /// Oldest first.
    pub comments: Vec<Comment>,
    /// Where the page before this one ends, if there is one.
    pub older: Option<i64>,
    /// Whether these are the newest.
    pub newest: bool,
}

/// Selects comments of a post; by default the newest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Those before this one.
    pub before: Option<i64>,
    /// This one, and those around it.
    pub with: Option<i64>,
}

/// Why input is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum Invalid {
    /// A name without a visible character, or a long one, or one with control characters.
    #[error("A name must have 1 to {MAX_NAME} characters in one line.")]
    Name,
    /// No address.
    #[error("An address must look like ada@example.org and have at most {MAX_EMAIL} bytes.")]
    Email,
    /// An empty or a long text.
    #[error("A text must have 1 to {MAX_TEXT} characters.")]
    Text,
    /// An empty or a long mark.
    #[error("A mark (or an Idempotency-Key) must have 1 to {MAX_MARK} bytes.")]
    Mark,
    /// An empty or a long title.
    #[error("A title must have 1 to {MAX_TITLE} characters in one line.")]
    Title,
    /// A name in an address with other characters.
    #[error(
        "The name in a post's address must have 1 to {MAX_SLUG} of the characters a-z, 0-9 and -."
    )]
    Slug,
    /// A form without its fields.
    #[error("The form is not valid: {0}.")]
    Form(String),
}

impl NewComment {
    /// Trims and checks it.
    pub fn checked(self) -> Result<Self, Invalid> {
        let name = one_line(&self.name, MAX_NAME).ok_or(Invalid::Name)?;
        let email = address(&self.email)?;
        if !(1..=MAX_MARK).contains(&self.mark.len()) {
            return Err(Invalid::Mark);
        }
        Ok(Self {
            name,
            email,
            text: paragraphs(&self.text)?,
            mark: self.mark,
        })
    }
}

impl NewPost {
    /// Trims and checks it.
    pub fn checked(self) -> Result<Self, Invalid> {
        Ok(Self {
            title: one_line(&self.title, MAX_TITLE).ok_or(Invalid::Title)?,
            text: paragraphs(&self.text)?,
            author: self.author.map(Author::checked).transpose()?,
        })
    }
}

impl Author {
    fn checked(self) -> Result<Self, Invalid> {
        Ok(Self {
            name: one_line(&self.name, MAX_NAME).ok_or(Invalid::Name)?,
            email: address(&self.email)?,
        })
    }
}

/// Checks a post's slug.
pub(crate) fn slug(text: &str) -> Result<String, Invalid> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=MAX_SLUG).contains(&text.len()) && text.chars().all(fits) {
        Ok(text.to_owned())
    } else {
        Err(Invalid::Slug)
    }
}

fn one_line(text: &str, most: usize) -> Option<String> {
    let text = text.trim();
    let fits = (1..=most).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    fits.then(|| text.to_owned())
}

/// Browsers end lines with CRLF; only line feeds and tabs are kept of all control characters.
fn paragraphs(text: &str) -> Result<String, Invalid> {
    let kept = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    let text: String = text.chars().filter(kept).collect();
    let text = text.trim();
    if text.is_empty() || text.chars().count() > MAX_TEXT {
        return Err(Invalid::Text);
    }
    Ok(text.to_owned())
}

/// A bare address that can receive mail.
fn address(text: &str) -> Result<String, Invalid> {
    let text = text.trim();
    let bare = text.len() <= MAX_EMAIL && !text.contains(['<', '>', '"', ' ']);
    if bare && Email::new(text, "-").to(text).text("-").check().is_ok() {
        Ok(text.to_owned())
    } else {
        Err(Invalid::Email)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comment() -> NewComment {
        NewComment {
            name: " Ada ".to_owned(),
            email: " ada@example.org ".to_owned(),
            text: "Hello\r\n\r\nthere\u{0}\n".to_owned(),
            mark: "1".to_owned(),
        }
    }

    #[test]
    fn a_comment_is_trimmed() {
        let checked = comment().checked().unwrap();
        assert_eq!(
            (&*checked.name, &*checked.email, &*checked.text),
            ("Ada", "ada@example.org", "Hello\n\nthere")
        );
    }

    #[test]
    fn what_makes_no_comment_is_refused() {
        let refused = |change: &dyn Fn(&mut NewComment)| {
            let mut comment = comment();
            change(&mut comment);
            comment.checked().unwrap_err()
        };
        for name in ["", " ", "a\nb", &"x".repeat(MAX_NAME + 1)] {
            assert_eq!(
                refused(&|comment| name.clone_into(&mut comment.name)),
                Invalid::Name
            );
        }
        let long = format!("{}@example.org", "x".repeat(MAX_EMAIL));
        for email in [
            "",
            "ada",
            "a@b\r\nBcc: x@y.z",
            "Ada <ada@example.org>",
            &long,
        ] {
            assert_eq!(
                refused(&|comment| email.clone_into(&mut comment.email)),
                Invalid::Email
            );
        }
        assert_eq!(
            refused(&|comment| comment.text = "\u{0} \r\n".to_owned()),
            Invalid::Text
        );
        assert_eq!(
            refused(&|comment| comment.text = "é".repeat(MAX_TEXT + 1)),
            Invalid::Text
        );
        assert_eq!(refused(&|comment| comment.mark.clear()), Invalid::Mark);
    }

    #[test]
    fn a_slug_is_plain() {
        assert!(slug("hello-2026").is_ok());
        for bad in ["", "Hello", "a b", "a/b", "é", &"x".repeat(MAX_SLUG + 1)] {
            assert_eq!(slug(bad), Err(Invalid::Slug), "{bad:?}");
        }
    }
}
