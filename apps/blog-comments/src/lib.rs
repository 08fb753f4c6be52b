//! The comments of a blog, with the transactional outbox: a comment, its author's subscription to the post, and the
//! resulting mails are one transaction.
//!
//! One object ([`Blog`]) holds the posts, the members, the subscriptions and the outbox. A commenter is asked by mail
//! to confirm their address and whether they want to be notified of later comments on that post; the first such mail
//! also thanks them, with a picture in it and a tag by which mail services count it. The author of a post follows it. Because the mails are rows of the same transaction, a comment never exists without its mails. Because
//! each mail has a stable `Message-ID`, a mail that is sent twice (its server accepted it but the response was lost)
//! can be recognized.
//!
//! It cannot be abused against others: an unconfirmed address gets at most one mail a day, and the comments of a client
//! or an address, and a client's wrong tokens, are limited ([`limits`]). Rows of the outbox hold ids, so a mail has the
//! content as of its sending, and is not sent after an unsubscription.
#![forbid(unsafe_code)]

mod blog;
mod budget;
mod comment;
mod http;
pub mod limits;
mod mails;
mod owner;
mod page;
mod token;

pub use blog::{Blog, BlogError, GivenUp, MailDetails, Mailbox, Posted, ThankYou, ThanksState};
pub use comment::{
    Author, Comment, Invalid, MAX_EMAIL, MAX_MARK, MAX_NAME, MAX_SLUG, MAX_TEXT, MAX_TITLE,
    NewComment, NewPost, Post, Thread, Wanted,
};
pub use http::router;
pub use limits::Limits;
pub use mails::{
    AT_ONCE, Answer, Answers, Confirm, Letter, Letters, Mail, MailKind, Notice, Question, Says,
    Thanks, registry,
};

use std::{fmt, time::Duration};

use abide::{
    outbox::handlers::Email,
    outbox::{OutboxOptions, RetryPolicy},
};

/// The name of the one blog that the program serves.
pub const NAME: &str = "blog";

/// The configuration of the blog.
#[derive(Clone)]
pub struct Site {
    /// Its title.
    pub title: String,
    /// Its public URL, without a trailing slash: links in mails begin with it.
    pub url: String,
    /// The sender of its mails, such as `Blog <blog@example.com>`.
    pub from: String,
    /// The token for writing posts and seeing mails; without one, no client may.
    pub owner_token: Option<String>,
    /// The header in which mails have their tag, `thanks`, `confirm` or `notice`: mail services read it in their own
    /// header, such as `X-PM-Tag` or `X-Mailgun-Tag`.
    pub tag_header: String,
}

impl fmt::Debug for Site {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site")
            .field("title", &self.title)
            .field("url", &self.url)
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

impl Site {
    /// Rejects a configuration that no mail could be built with; the text says what would be valid.
    pub fn checked(self) -> Result<Self, String> {
        if !self.url.starts_with("http://") && !self.url.starts_with("https://") {
            return Err(format!(
                "`{}` is not a valid blog URL such as https://blog.example.com",
                self.url
            ));
        }
        let mail = Email::new(&self.from, &self.title)
            .to(&self.from)
            .text("-")
            .header("List-Unsubscribe", &self.url)
            .header(&self.tag_header, "thanks");
        mail.check()?;
        if self.owner_token.as_deref().is_some_and(str::is_empty) {
            return Err("the owner's token is empty: omit it or set one".to_owned());
        }
        Ok(self)
    }
}

/// The options for delivering mails: the first retry after this time, then doubling, up to twelve attempts. With two
/// seconds this takes a little more than an hour.
pub fn options(first_retry: Duration) -> OutboxOptions {
    OutboxOptions::default().retry(RetryPolicy::Exponential {
        base: first_retry,
        max: Duration::from_hours(1),
        max_attempts: 12,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blog_that_could_send_no_mail_does_not_start() {
        let site = Site {
            title: "Blog".to_owned(),
            url: "https://blog.test".to_owned(),
            from: "Blog <blog@blog.test>".to_owned(),
            owner_token: None,
            tag_header: "X-Tag".to_owned(),
        };
        assert!(site.clone().checked().is_ok());
        for wrong in [
            Site {
                from: "sender".to_owned(),
                ..site.clone()
            },
            Site {
                url: "blog.test".to_owned(),
                ..site.clone()
            },
            Site {
                url: "https://blog.test/\r\nX: y".to_owned(),
                ..site.clone()
            },
            Site {
                tag_header: "Subject".to_owned(),
                ..site.clone()
            },
            Site {
                tag_header: "X Tag".to_owned(),
                ..site
            },
        ] {
            assert!(wrong.clone().checked().is_err(), "{wrong:?}");
        }
    }
}
