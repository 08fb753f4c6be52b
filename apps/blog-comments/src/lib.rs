//! The comments of a blog, with the transactional outbox: a comment, its author's subscription to the post, and the
//! mails that it is to cause are one transaction.
//!
//! One object ([`Blog`]) holds the posts, the members, who follows what, and the outbox. Whoever comments is asked by mail whether
//! the address is theirs and they want to be told about later comments on that post; whoever writes a post follows it. Because the
//! mails are rows of the same transaction, there is no moment at which a comment is there and its mails are not; because each mail
//! has a `Message-ID` that stays, a mail that is sent twice (its server took it and the answer was lost) can be told.
//!
//! Strangers cannot use it against others: an address that has not confirmed gets one mail a day, and how often a client and an
//! address may comment, and how many wrong tokens a client may show, is bounded ([`limits`]). Rows of the outbox hold ids, so a
//! mail says what is true when it is sent, and who has unsubscribed since gets none.
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

pub use blog::{Blog, BlogError, GivenUp, MailDetails, Mailbox, Posted};
pub use comment::{
    Author, Comment, Invalid, MAX_EMAIL, MAX_MARK, MAX_NAME, MAX_SLUG, MAX_TEXT, MAX_TITLE,
    NewComment, NewPost, Post, Thread, Wanted,
};
pub use http::router;
pub use limits::Limits;
pub use mails::{
    AT_ONCE, Answer, Answers, Confirm, Ids, Letter, Letters, Mail, Notice, Says, registry,
};

use std::{fmt, time::Duration};

use abide::{
    outbox::handlers::Email,
    outbox::{Options, RetryPolicy},
};

/// The name under which the class is registered.
pub const BINDING: &str = "BLOG";

/// The name of the one blog that the program serves.
pub const NAME: &str = "blog";

/// What the program was told about the blog.
#[derive(Clone)]
pub struct Site {
    /// What it is called.
    pub title: String,
    /// Where readers find it, without a slash at the end: links in mails begin with it.
    pub url: String,
    /// Whose mails they are, such as `Blog <blog@example.com>`.
    pub from: String,
    /// Who knows it may write posts and see mails; nobody may if there is none.
    pub owner_token: Option<String>,
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
    /// Refuses what no mail could be made with; the text says what would do.
    pub fn checked(self) -> Result<Self, String> {
        if !self.url.starts_with("http://") && !self.url.starts_with("https://") {
            return Err(format!(
                "`{}` is no address of a blog such as https://blog.example.com",
                self.url
            ));
        }
        let mail = Email::new(&self.from, &self.title)
            .to(&self.from)
            .text("-")
            .header("List-Unsubscribe", &self.url);
        mail.check()?;
        if self.owner_token.as_deref().is_some_and(str::is_empty) {
            return Err("the owner's token is empty: leave it out, or give one".to_owned());
        }
        Ok(self)
    }
}

/// How mails are delivered: tried again after so long at first, then after twice as long each time, and up to twelve times
/// in all. With two seconds at first that takes a little more than an hour.
pub fn options(first_retry: Duration) -> Options {
    Options::default().retry(RetryPolicy::Exponential {
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
        };
        assert!(site.clone().checked().is_ok());
        for wrong in [
            Site {
                from: "nobody".to_owned(),
                ..site.clone()
            },
            Site {
                url: "blog.test".to_owned(),
                ..site.clone()
            },
            Site {
                url: "https://blog.test/\r\nX: y".to_owned(),
                ..site
            },
        ] {
            assert!(wrong.clone().checked().is_err(), "{wrong:?}");
        }
    }
}
