//! The mails: the content of each kind, their delivery, and the fan-out of a comment to all followers of its post.
//!
//! Contract: a row holds ids, not the content of its mail. At each attempt the blog is asked for the current content.
//! If the recipient has unsubscribed or the subscription has expired, nothing is sent and the mail counts as sent.

use std::{marker::PhantomData, time::Duration};

use abide::{Result, Storage};
use abide::{
    outbox::handlers::{Attachment, Email, SmtpDelivery},
    outbox::{Batch, Deliver, Delivery, Failure, FanOut, OutboxMessage, Registry, Submitted},
};
use maud::{DOCTYPE, Markup, html};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    Blog, Site,
    token::{Confirmation, Subscription},
};

/// A comment on a post with fewer followers than this enqueues their mails at once; with more it enqueues one fan-out.
pub const AT_ONCE: usize = 20;

/// Maximum length of a comment's excerpt in its mails.
const EXCERPT: usize = 600;

const MARK: &[u8] = include_bytes!("../assets/mark.png");

/// The picture's name in the mail.
const MARK_ID: &str = "mark";

/// Handlers and fan-outs of the blog.
pub fn registry(site: Site, smtp: SmtpDelivery) -> Registry {
    Registry::new()
        .with(Letters::<Notice>::new(site.clone(), smtp.clone()))
        .with(Letters::<Confirm>::new(site.clone(), smtp.clone()))
        .with(Letters::<Thanks>::new(site, smtp))
        .with_fan_out(Answers)
}

/// The ids in a row of a kind.
pub trait MailKind:
    Copy + Into<Mail> + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// The kind of the rows, and the tag of the mails.
    const KIND: &'static str;
}

/// To a follower of a post: there is a new comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The post.
    pub post: i64,
    /// The comment.
    pub comment: i64,
    /// The follower.
    pub member: i64,
}

/// To an address that was used for a comment: asks for confirmation of the address and the subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirm {
    /// The member with this address, if they confirm.
    pub member: i64,
    /// When the confirmation expires, in milliseconds since 1970.
    pub until: i64,
}

/// To the author of a comment, after their first: says thank you, and asks for confirmation as [`Confirm`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thanks {
    /// The post.
    pub post: i64,
    /// The member.
    pub member: i64,
    /// When the confirmation expires, in milliseconds since 1970.
    pub until: i64,
}

/// A mail by its ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mail {
    /// See [`Notice`].
    Notice(Notice),
    /// See [`Confirm`].
    Confirm(Confirm),
    /// See [`Thanks`].
    Thanks(Thanks),
}

impl MailKind for Notice {
    const KIND: &'static str = "notice";
}

impl MailKind for Confirm {
    const KIND: &'static str = "confirm";
}

impl MailKind for Thanks {
    const KIND: &'static str = "thanks";
}

impl From<Notice> for Mail {
    fn from(ids: Notice) -> Self {
        Self::Notice(ids)
    }
}

impl From<Confirm> for Mail {
    fn from(ids: Confirm) -> Self {
        Self::Confirm(ids)
    }
}

impl From<Thanks> for Mail {
    fn from(ids: Thanks) -> Self {
        Self::Thanks(ids)
    }
}

impl Mail {
    /// The mail of a row, if its kind is known.
    pub(crate) fn of(kind: &str, payload: &str) -> Option<Self> {
        match kind {
            Notice::KIND => serde_json::from_str(payload).ok().map(Self::Notice),
            Confirm::KIND => serde_json::from_str(payload).ok().map(Self::Confirm),
            Thanks::KIND => serde_json::from_str(payload).ok().map(Self::Thanks),
            _ => None,
        }
    }

    fn summary(self) -> String {
        match self {
            Self::Notice(Notice {
                comment, member, ..
            }) => format!("comment {comment} to member {member}"),
            Self::Confirm(Confirm { member, .. }) => format!("confirmation to member {member}"),
            Self::Thanks(Thanks { member, .. }) => format!("thanks to member {member}"),
        }
    }
}

/// The current content of a mail, and its recipient.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letter {
    /// The address.
    pub to: String,
    /// Its content.
    pub says: Says,
}

/// The content of a mail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Says {
    /// A reader has commented on a post.
    Commented {
        /// The post's title.
        title: String,
        /// Who has commented.
        author: String,
        /// The beginning of what they said.
        excerpt: String,
        /// The comment's address.
        url: String,
        /// The unsubscribe link.
        unsubscribe: String,
    },
    /// A comment was posted with this address. The mail contains no text from its author.
    Confirm(Question),
    /// The first comment was posted with this address. The mail contains no text from its author.
    Thanks {
        /// The post's title.
        title: String,
        /// What it asks, if a subscription waits for confirmation.
        question: Option<Question>,
    },
}

/// Asks whether to subscribe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The titles of the posts.
    pub titles: Vec<String>,
    /// The confirmation link.
    pub url: String,
}

/// Sends mails of a kind by SMTP.
pub struct Letters<I> {
    site: Site,
    smtp: SmtpDelivery,
    ids: PhantomData<I>,
}

impl<I> Letters<I> {
    /// A handler for the blog at this site.
    pub fn new(site: Site, smtp: SmtpDelivery) -> Self {
        Self {
            site,
            smtp,
            ids: PhantomData,
        }
    }
}

impl<I: MailKind> Deliver for Letters<I> {
    type Payload = I;
    const KIND: &'static str = I::KIND;

    fn destination(&self, _: &I) -> String {
        // One relay takes all mails.
        self.smtp.destination(&Email::new(&self.site.from, ""))
    }

    fn summary(&self, ids: &I) -> String {
        (*ids).into().summary()
    }

    fn timeout(&self) -> Option<Duration> {
        Deliver::timeout(&self.smtp)
    }

    async fn submit(&self, delivery: &Delivery, ids: &I) -> Result<Submitted, Failure> {
        let blog = delivery.env().try_object::<Blog>()?;
        let letter = blog.get(delivery.object()).letter((*ids).into()).await;
        let letter = letter.map_err(|error| {
            let text = format!("the content of the mail could not be read: {error}");
            // This is a local failure: the mail server was not contacted.
            if error.retryable() {
                Failure::not_sent(text)
            } else {
                Failure::refused(text)
            }
        })?;
        match letter {
            Some(letter) => self.smtp.submit(delivery, &letter.email(&self.site)).await,
            None => Ok(Submitted::Done),
        }
    }
}

impl Letter {
    /// The mail.
    pub fn email(&self, site: &Site) -> Email {
        let mail = match &self.says {
            Says::Commented {
                title,
                author,
                excerpt,
                url,
                unsubscribe,
            } => {
                let text = format!(
                    "Hello,\n\n{author} commented on “{title}”:\n\n{excerpt}\n\nRead and answer: {url}\n\n-- \n\
                     You get this mail because you follow this post. No more about it: {unsubscribe}\n"
                );
                let body = html! {
                    p { "Hello," }
                    p { b { (author) } " commented on “" (title) "”:" }
                    blockquote style="margin:16px 0;padding:12px 16px;border-left:4px solid #0f766e;background:#f0fdfa;white-space:pre-line" {
                        (excerpt)
                    }
                    (button(url, "Read and answer"))
                };
                let foot = html! {
                    "You get this mail because you follow this post. "
                    a href=(unsubscribe) style="color:#5b6c6a" { "No more about it" }
                };
                let subject = format!("{author} commented on “{title}”");
                framed(site, &self.to, &subject, text, &body, &foot)
                    .header("List-Unsubscribe", format!("<{unsubscribe}>"))
                    .header("List-Unsubscribe-Post", "List-Unsubscribe=One-Click")
            }
            Says::Confirm(Question { titles, url }) => {
                let posts = titles.join("\n- ");
                let text = format!(
                    "Hello,\n\nsomebody has commented with your address on\n\n- {posts}\n\nIf it was you, and you want a mail when \
                     there is an answer: {url}\n\n-- \nIf it was not you, do nothing: there will be no mails about answers.\n"
                );
                let body = html! {
                    p { "Hello," }
                    p { "a comment was written with your address on" }
                    ul { @for title in titles { li { (title) } } }
                    p { "If it was you, and you want a mail when there is an answer:" }
                    (button(url, "Tell me about answers"))
                };
                let foot = html! {
                    "If it was not you, do nothing: there will be no mails about answers."
                };
                let subject = "Do you want to hear about answers?";
                framed(site, &self.to, subject, text, &body, &foot)
            }
            Says::Thanks { title, question } => thanks(site, &self.to, title, question.as_ref()),
        };
        mail.header(&site.tag_header, self.says.tag())
    }

    /// A one-line description.
    pub(crate) fn line(&self) -> String {
        match &self.says {
            Says::Commented { title, author, .. } => format!("{author} commented on “{title}”"),
            Says::Confirm(Question { titles, .. }) => {
                format!("Confirmation for “{}”", titles.join("”, “"))
            }
            Says::Thanks { title, .. } => format!("Thanks for a comment on “{title}”"),
        }
    }
}

impl Says {
    /// What mail services count the mail as.
    fn tag(&self) -> &'static str {
        match self {
            Self::Commented { .. } => Notice::KIND,
            Self::Confirm(_) => Confirm::KIND,
            Self::Thanks { .. } => Thanks::KIND,
        }
    }
}

/// The mail after a member's first comment.
fn thanks(site: &Site, to: &str, title: &str, question: Option<&Question>) -> Email {
    let ask = question.map_or_else(String::new, |Question { titles, url }| {
        let posts = titles.join("\n- ");
        format!(
            "If you want a mail when there is an answer on\n\n- {posts}\n\nfollow this link: {url}\n\n"
        )
    });
    let text = format!(
        "Hello,\n\nthank you for your comment on “{title}”. It is your first here.\n\n{ask}-- \n\
         If it was not you, do nothing: there will be no mails about answers.\n"
    );
    let body = html! {
        p { img src={ "cid:" (MARK_ID) } alt="A heart" width="96" height="96"; }
        p { "Hello," }
        p { "thank you for your comment on “" (title) "”. It is your first here." }
        @if let Some(Question { titles, url }) = question {
            p { "Do you want a mail when there is an answer on these?" }
            ul { @for title in titles { li { (title) } } }
            (button(url, "Tell me about answers"))
        }
    };
    let foot = html! { "If it was not you, do nothing: there will be no mails about answers." };
    let subject = format!("Thank you for your comment on “{title}”");
    framed(site, to, &subject, text, &body, &foot)
}

/// Adds the frame that all mails of the blog share.
fn framed(
    site: &Site,
    to: &str,
    subject: &str,
    text: String,
    body: &Markup,
    foot: &Markup,
) -> Email {
    let html = html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; title { (subject) } }
            body style="margin:0;background:#f4f6f6;font:16px/1.5 system-ui,sans-serif;color:#132322" {
                div style="max-width:560px;margin:0 auto;padding:32px 20px" {
                    p style="margin:0 0 20px" {
                        img src={ "cid:" (MARK_ID) } alt="" width="48" height="48" style="vertical-align:middle;margin-right:12px";
                        b style="font-size:18px" { (site.title) }
                    }
                    div style="background:#fff;border:1px solid #dbe4e3;border-radius:14px;padding:8px 24px 20px" { (body) }
                    p style="font-size:13px;color:#5b6c6a" { (foot) }
                }
            }
        }
    };
    Email::new(&site.from, subject)
        .to(to)
        .text(text)
        .html(html.into_string())
        .attach(Attachment::new("mark.png", "image/png", MARK).inline(MARK_ID))
}

fn button(url: &str, text: &str) -> Markup {
    html! {
        p {
            a href=(url) style="display:inline-block;background:#0f766e;color:#fff;text-decoration:none;font-weight:600;padding:10px 18px;border-radius:10px" {
                (text)
            }
        }
    }
}

/// A comment whose followers are to be notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The post.
    pub post: i64,
    /// The comment. Members who follow the post since a later one are not notified.
    pub comment: i64,
    /// The member who wrote it, who is not notified.
    pub author: i64,
}

/// Expands an [`Answer`] into [`Notice`]s.
#[derive(Clone, Copy, Debug)]
pub struct Answers;

impl FanOut for Answers {
    type Command = Answer;
    const NAME: &'static str = "answers";

    fn batch(
        &self,
        storage: &Storage,
        answer: &Answer,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Batch> {
        let after: i64 = after
            .map_or(Ok(0), str::parse)
            .map_err(abide::Error::from_std)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let followers: Vec<i64> = storage
            .sql()
            .exec(
                "SELECT member FROM follows WHERE post = ? AND member > ? AND since < ? AND member <> ?
                 AND confirmed_at IS NOT NULL ORDER BY member LIMIT ?",
                (answer.post, after, answer.comment, answer.author, limit),
            )?
            .all()?;
        let next = followers
            .last()
            .filter(|_| i64::try_from(followers.len()) == Ok(limit))
            .map(i64::to_string);
        let &Answer { post, comment, .. } = answer;
        let messages = followers.into_iter().map(|member| {
            let notice = Notice {
                post,
                comment,
                member,
            };
            let key = format!("notice-{comment}-{member}");
            Ok(Letters::<Notice>::message(&notice)?.dedup_key(key))
        });
        Ok(Batch {
            messages: messages.collect::<Result<Vec<OutboxMessage>>>()?,
            next,
        })
    }
}

/// The URL of a comment.
pub(crate) fn comment_url(site: &Site, slug: &str, comment: i64) -> String {
    format!("{}{}", site.url, comment_path(slug, comment))
}

/// The path of a comment on the blog's own server.
pub(crate) fn comment_path(slug: &str, comment: i64) -> String {
    format!("/posts/{slug}?with={comment}#comment-{comment}")
}

/// The unsubscribe URL.
pub(crate) fn unsubscribe_url(site: &Site, subscription: Subscription, secret: &[u8]) -> String {
    let token = subscription.token(secret);
    format!("{}/unsubscribe?token={token}", site.url)
}

/// The confirmation URL.
pub(crate) fn confirm_url(site: &Site, confirmation: Confirmation, secret: &[u8]) -> String {
    let token = confirmation.token(secret);
    format!("{}/confirm?token={token}", site.url)
}

/// The beginning of a comment.
pub(crate) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_comment_is_cut_between_characters() {
        assert_eq!(excerpt("short"), "short");
        let cut = excerpt(&"é".repeat(EXCERPT + 1));
        assert_eq!(cut.chars().count(), EXCERPT + 1);
        assert!(cut.ends_with("é…"));
    }
}
