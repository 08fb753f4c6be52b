//! The mails: what each kind says, who sends it, and how one comment becomes the mails to all who follow its post.
//!
//! Contract: a row holds what its mail says, not the mail; the mail is made from it at each attempt, and is the same each
//! time.

use std::{marker::PhantomData, time::Duration};

use abide::{Result, Storage};
use abide_patterns::{
    deliver::{Attachment, Email, SmtpDelivery},
    outbox::{Batch, Deliver, Delivery, Failure, FanOut, Message, Registry, Submitted},
};
use maud::{DOCTYPE, Markup, html};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Site, blog, token::Subscription};

/// A comment on a post with fewer followers than this enqueues their mails at once; with more it enqueues one fan-out.
pub const AT_ONCE: usize = 20;

/// Characters of a comment that its mails show; the rest is a click away.
const EXCERPT: usize = 600;

const MARK: &[u8] = include_bytes!("../assets/mark.png");

/// The picture's name in the mail.
const MARK_ID: &str = "mark";

/// Handlers and fan-outs of the blog.
pub fn registry(site: Site, smtp: SmtpDelivery) -> Registry {
    Registry::new()
        .with(Letters::<Notice>::new(site.clone(), smtp.clone()))
        .with(Letters::<Thanks>::new(site.clone(), smtp))
        .with_fan_out(Answers::new(site))
}

/// What a mail of a kind says.
pub trait Letter: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The kind that rows carry.
    const KIND: &'static str;

    /// The mail, the same each time.
    fn email(&self, site: &Site) -> Email;

    /// A line for people that tells it from others.
    fn summary(&self) -> String;
}

/// Sends letters of a kind by SMTP.
pub struct Letters<L> {
    site: Site,
    smtp: SmtpDelivery,
    letter: PhantomData<L>,
}

impl<L> Letters<L> {
    /// For the blog at this site.
    pub fn new(site: Site, smtp: SmtpDelivery) -> Self {
        Self {
            site,
            smtp,
            letter: PhantomData,
        }
    }
}

impl<L: Letter> Deliver for Letters<L> {
    type Payload = L;
    const KIND: &'static str = L::KIND;

    fn check(&self, letter: &L) -> Result<(), String> {
        self.smtp.check(&letter.email(&self.site))
    }

    fn destination(&self, letter: &L) -> String {
        self.smtp.destination(&letter.email(&self.site))
    }

    fn summary(&self, letter: &L) -> String {
        letter.summary()
    }

    fn timeout(&self) -> Option<Duration> {
        Deliver::timeout(&self.smtp)
    }

    async fn submit(&self, delivery: &Delivery, letter: &L) -> Result<Submitted, Failure> {
        self.smtp.submit(delivery, &letter.email(&self.site)).await
    }
}

/// To a follower of a post: somebody has commented on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The follower's address.
    pub to: String,
    /// Their name.
    pub name: String,
    /// The post's title.
    pub title: String,
    /// Who has commented.
    pub author: String,
    /// The beginning of what they said.
    pub excerpt: String,
    /// The comment's address.
    pub url: String,
    /// Where they end their subscription.
    pub unsubscribe: String,
}

/// To somebody who has commented for the first time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thanks {
    /// The member's address.
    pub to: String,
    /// Their name.
    pub name: String,
    /// The post's title.
    pub title: String,
    /// The comment's address.
    pub url: String,
    /// Where they end their subscription.
    pub unsubscribe: String,
}

impl Letter for Notice {
    const KIND: &'static str = "notice";

    fn email(&self, site: &Site) -> Email {
        let Self {
            name,
            title,
            author,
            excerpt,
            url,
            unsubscribe,
            ..
        } = self;
        let text = format!(
            "Hello {name},\n\n{author} commented on “{title}”:\n\n{excerpt}\n\nRead and answer: {url}\n\n-- \n\
             You get this mail because you commented, too. No more about this post: {unsubscribe}\n"
        );
        let body = html! {
            p { "Hello " (name) "," }
            p { b { (author) } " commented on “" (title) "”:" }
            blockquote style="margin:16px 0;padding:12px 16px;border-left:4px solid #0f766e;background:#f0fdfa;white-space:pre-line" {
                (excerpt)
            }
            (button(url, "Read and answer"))
        };
        Frame {
            site,
            to: &self.to,
            subject: &format!("{author} commented on “{title}”"),
            why: "You get this mail because you commented, too.",
            unsubscribe,
        }
        .email(text, &body)
    }

    fn summary(&self) -> String {
        format!("{} on “{}” to {}", self.author, self.title, self.to)
    }
}

impl Letter for Thanks {
    const KIND: &'static str = "thanks";

    fn email(&self, site: &Site) -> Email {
        let Self {
            name,
            title,
            url,
            unsubscribe,
            ..
        } = self;
        let text = format!(
            "Hello {name},\n\nthank you for your first comment, on “{title}”. It is good to have you here. We will tell you \
             when somebody comments, too.\n\nYour comment: {url}\n\n-- \nNo mails about this post: {unsubscribe}\n"
        );
        let body = html! {
            p { "Hello " (name) "," }
            p {
                "thank you for your first comment, on “" (title) "”. It is good to have you here. We will tell you when \
                 somebody comments, too."
            }
            (button(url, "See your comment"))
        };
        Frame {
            site,
            to: &self.to,
            subject: "Thank you for your first comment",
            why: "You get this mail because you commented.",
            unsubscribe,
        }
        .email(text, &body)
    }

    fn summary(&self) -> String {
        format!("Thanks for the first comment to {}", self.to)
    }
}

/// What all mails of the blog have around what they say.
struct Frame<'a> {
    site: &'a Site,
    to: &'a str,
    subject: &'a str,
    why: &'a str,
    unsubscribe: &'a str,
}

impl Frame<'_> {
    fn email(&self, text: String, body: &Markup) -> Email {
        let Self {
            site,
            to,
            subject,
            why,
            unsubscribe,
        } = *self;
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
                        p style="font-size:13px;color:#5b6c6a" {
                            (why) " "
                            a href=(unsubscribe) style="color:#5b6c6a" { "No more about this post" }
                        }
                    }
                }
            }
        };
        Email::new(&site.from, subject)
            .to(to)
            .text(text)
            .html(html.into_string())
            .attach(Attachment::new("mark.png", "image/png", MARK).inline(MARK_ID))
            .header("List-Unsubscribe", format!("<{unsubscribe}>"))
            .header("List-Unsubscribe-Post", "List-Unsubscribe=One-Click")
    }
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

/// A comment that those who follow its post are to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The post.
    pub post: i64,
    /// The comment. Who follows the post since a later one is not told.
    pub comment: i64,
    /// The member who wrote it. They are not told.
    pub author: i64,
}

/// Makes the [`Notice`]s of an [`Answer`].
pub struct Answers(Site);

#[derive(Deserialize)]
struct Follower {
    member: i64,
    email: String,
    name: String,
}

#[derive(Deserialize)]
struct About {
    slug: String,
    title: String,
    author: String,
    text: String,
}

impl Answers {
    /// For the blog at this site.
    pub fn new(site: Site) -> Self {
        Self(site)
    }
}

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
        let sql = storage.sql();
        let followers: Vec<Follower> = sql
            .exec(
                "SELECT member, email, name FROM subscriptions JOIN members ON members.id = member
                 WHERE post = ? AND member > ? AND since < ? AND member <> ? ORDER BY member LIMIT ?",
                (answer.post, after, answer.comment, answer.author, limit),
            )?
            .to_array()?;
        let about: About = sql
            .exec(
                "SELECT slug, title, comments.name AS author, comments.text AS text
                 FROM comments JOIN posts ON posts.id = comments.post WHERE comments.id = ?",
                (answer.comment,),
            )?
            .one()?;
        let secret = blog::secret(storage)?;
        let url = comment_url(&self.0, &about.slug, answer.comment);
        let excerpt = excerpt(&about.text);
        let next = followers
            .last()
            .filter(|_| i64::try_from(followers.len()) == Ok(limit))
            .map(|last| last.member.to_string());
        let messages = followers.into_iter().map(
            |Follower {
                 member,
                 email,
                 name,
             }| {
                let post = answer.post;
                let notice = Notice {
                    to: email,
                    name,
                    title: about.title.clone(),
                    author: about.author.clone(),
                    excerpt: excerpt.clone(),
                    url: url.clone(),
                    unsubscribe: unsubscribe_url(&self.0, Subscription { post, member }, &secret),
                };
                let key = format!("notice-{}-{member}", answer.comment);
                Ok(Letters::<Notice>::message(&notice)?.dedup_key(key))
            },
        );
        Ok(Batch {
            messages: messages.collect::<Result<Vec<Message>>>()?,
            next,
        })
    }
}

/// Where a comment is read.
pub(crate) fn comment_url(site: &Site, slug: &str, comment: i64) -> String {
    format!("{}{}", site.url, comment_path(slug, comment))
}

/// The same on the blog's own server.
pub(crate) fn comment_path(slug: &str, comment: i64) -> String {
    format!("/posts/{slug}?with={comment}#comment-{comment}")
}

/// Where a subscription is ended.
pub(crate) fn unsubscribe_url(site: &Site, subscription: Subscription, secret: &[u8]) -> String {
    format!(
        "{}/unsubscribe?token={}",
        site.url,
        subscription.token(secret)
    )
}

fn excerpt(text: &str) -> String {
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
