//! The object: posts, members, comments, subscriptions, and the outbox.
//!
//! Contract: a comment, its author's unconfirmed or confirmed subscription, and the mails about it are one transaction.
//! A comment sent again with the same mark is the same comment, and causes no other mail. An unconfirmed address gets
//! at most one mail a day, whatever strangers type. A member is thanked once: for the first comment, or for a later one if
//! there may be no mail at the first. The author of a post follows it.

use abide::outbox::{
    BulkResult, Counts, DeadLetterFilter, FanOut, MessageFilter, Outbox, OutboxError,
    OutboxOptions, Record, Status,
};
use abide::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::{
    AT_ONCE, Answer, Answers, Author, Comment, Letter, Limits, Mail, NewComment, NewPost, Post,
    Site, Thread, Wanted,
    budget::Budget,
    limits,
    token::{Confirmation, Subscription},
};

mod error;
mod followers;
mod mailbox;
mod schema;
mod thanks;

pub use error::BlogError;
pub use mailbox::{GivenUp, MailDetails, Mailbox};
pub use thanks::{ThankYou, ThanksState};

/// Comments on one page.
const PAGE: i64 = 100;

/// Posts on the first page.
const POSTS: i64 = 100;

/// Mails on one page of their list.
const MAILS: usize = 100;

const POST: &str = "SELECT id, slug, title, text, at, comments FROM posts";

/// One blog.
#[durable_object]
pub struct Blog {
    ctx: Ctx,
    env: Env,
    site: Arc<Site>,
    limits: Limits,
    outbox: Outbox,
}

/// An accepted comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posted {
    /// The comment.
    pub id: i64,
    /// True if it already existed: it was sent again with the same mark.
    pub repeated: bool,
}

impl DurableObject for Blog {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        schema::create(ctx.storage())?;
        followers::make_secret(ctx.storage())?;
        let options = OutboxOptions::clone(&*env.require()?);
        let outbox = Outbox::open(&ctx, options)?;
        thanks::watch(ctx.storage(), &outbox)?;
        let blog = Self {
            site: env.require()?,
            limits: env.get().map_or_else(Limits::default, |limits| *limits),
            ctx,
            env,
            outbox,
        };
        blog.welcome()?;
        Ok(blog)
    }
}

#[rpc]
impl Blog {
    /// Writes a post. Its author, for whom the owner vouches, follows it.
    pub async fn publish(&self, slug: String, post: NewPost) -> Result<Post, BlogError> {
        let storage = self.ctx.storage();
        storage.transaction(|| {
            let sql = storage.sql();
            let now = self.now();
            let new: Option<i64> = sql
                .exec(
                    "INSERT INTO posts (slug, title, text, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id",
                    (slug.as_str(), post.title.as_str(), post.text.as_str(), now),
                )?
                .optional()?;
            let Some(id) = new else {
                return Err(BlogError::PostTaken(slug.clone()));
            };
            if let Some(Author { name, email }) = &post.author {
                let member = self.member(email, name)?;
                sql.exec(
                    "INSERT INTO follows (post, member, since, asked_at, confirmed_at) VALUES (?, ?, 0, ?, ?)",
                    (id, member, now, now),
                )?;
            }
            self.post(&slug)
        })
    }

    /// The newest posts, newest first.
    pub async fn posts(&self) -> Result<Vec<Post>> {
        let sql = self.ctx.sql();
        sql.exec(&format!("{POST} ORDER BY id DESC LIMIT ?"), (POSTS,))?
            .all()
    }

    /// A post with a page of its comments.
    pub async fn read(&self, slug: String, wanted: Wanted) -> Result<Thread, BlogError> {
        let post = self.post(&slug)?;
        let sql = self.ctx.sql();
        let before = match wanted.with {
            Some(with) => sql
                .exec(
                    "SELECT id FROM comments WHERE post = ? AND id > ? AND removed_at IS NULL ORDER BY id LIMIT 1 OFFSET ?",
                    (post.id, with, PAGE / 2),
                )?
                .optional()?,
            None => wanted.before,
        };
        let mut comments: Vec<Comment> = sql
            .exec(
                "SELECT id, name, text, at FROM comments WHERE post = ? AND id < ? AND removed_at IS NULL ORDER BY id DESC LIMIT ?",
                (post.id, before.unwrap_or(i64::MAX), PAGE + 1),
            )?
            .all()?;
        let more = i64::try_from(comments.len()).is_ok_and(|count| count > PAGE);
        if more {
            comments.pop();
        }
        comments.reverse();
        let older = comments.first().filter(|_| more).map(|oldest| oldest.id);
        let newest = sql
            .exec(
                "SELECT 1 FROM comments WHERE post = ? AND id >= ? AND removed_at IS NULL LIMIT 1",
                (post.id, before.unwrap_or(i64::MAX)),
            )?
            .is_empty();
        Ok(Thread {
            post,
            comments,
            older,
            newest,
        })
    }

    /// Accepts a comment of a client, asks its author whether to subscribe, and enqueues the mails about it: all or
    /// nothing.
    pub async fn comment(
        &self,
        slug: String,
        comment: NewComment,
        client: String,
    ) -> Result<Posted, BlogError> {
        let post = self.post(&slug)?;
        let storage = self.ctx.storage();
        storage.transaction(|| self.take(&post, &comment, &client))
    }

    /// Removes a comment: nothing of its content is kept. Its mark is, so that it does not come back when it is sent
    /// again.
    pub async fn remove(&self, slug: String, comment: i64) -> Result<(), BlogError> {
        let post = self.post(&slug)?;
        let storage = self.ctx.storage();
        storage.transaction(|| {
            let removed = storage.sql().exec(
                "UPDATE comments SET name = '', text = '', removed_at = ? WHERE id = ? AND post = ? AND removed_at IS NULL
                 RETURNING 1",
                (self.now(), comment, post.id),
            )?;
            if removed.is_empty() {
                return Err(BlogError::NoComment(comment));
            }
            let count = "UPDATE posts SET comments = comments - 1 WHERE id = ?";
            storage.sql().exec(count, (post.id,))?;
            Ok(())
        })
    }

    /// The posts whose subscriptions a link from a mail would confirm.
    pub async fn waiting(&self, token: String, client: String) -> Result<Vec<Post>, BlogError> {
        let Confirmation { member, .. } = self.confirmation(&token, &client)?;
        Ok(self.unconfirmed(member)?)
    }

    /// Confirms the subscriptions of a link from a mail; returns the posts. They may already have been confirmed.
    pub async fn confirm(&self, token: String, client: String) -> Result<Vec<Post>, BlogError> {
        let Confirmation { member, .. } = self.confirmation(&token, &client)?;
        let posts = self.unconfirmed(member)?;
        let sql = self.ctx.sql();
        sql.exec(
            "UPDATE follows SET confirmed_at = ? WHERE member = ? AND confirmed_at IS NULL AND asked_at > ?",
            (self.now(), member, self.forgotten()),
        )?;
        Ok(posts)
    }

    /// The current content of a mail; `None` if its recipient no longer wants it.
    pub async fn letter(&self, mail: Mail) -> Result<Option<Letter>> {
        self.content(mail)
    }

    /// Thank-you mails, those of the newest members first, and where the next page begins.
    pub async fn thanks(
        &self,
        before: Option<i64>,
    ) -> Result<(Vec<ThankYou>, Option<i64>), BlogError> {
        self.thank_yous(before)
    }

    /// The title of the post of a link from a mail.
    pub async fn followed(&self, token: String, client: String) -> Result<Post, BlogError> {
        let Subscription { post, .. } = self.subscription(&token, &client)?;
        let sql = self.ctx.sql();
        let post = sql
            .exec(&format!("{POST} WHERE id = ?"), (post,))?
            .optional()?;
        post.ok_or(BlogError::BadLink)
    }

    /// Ends the subscription of a link from a mail. It may already have ended.
    pub async fn unsubscribe(&self, token: String, client: String) -> Result<(), BlogError> {
        let Subscription { post, member } = self.subscription(&token, &client)?;
        self.ctx.sql().exec(
            "DELETE FROM follows WHERE post = ? AND member = ?",
            (post, member),
        )?;
        Ok(())
    }

    /// Counts a client's attempt with the owner's token, and rejects all after too many wrong ones.
    pub async fn shown_token(&self, right: bool, client: String) -> Result<(), BlogError> {
        self.guess(&client, right.then_some(())).map(drop)
    }

    /// Failed mails, newest first, and the counts of all mails.
    pub async fn given_up(
        &self,
        before: Option<i64>,
    ) -> Result<(Counts, Vec<GivenUp>, Option<i64>), BlogError> {
        let page = self
            .outbox
            .dead_letters(&DeadLetterFilter::default().before(before).limit(MAILS))?;
        let mails = page.records.into_iter().map(|mail| {
            let payload = self.outbox.payload(mail.id)?.unwrap_or_default();
            let letter = match Mail::of(&mail.kind, &payload) {
                Some(mail) => self.content(mail)?,
                None => None,
            };
            let about = letter.map(|letter| (letter.to.clone(), letter.line()));
            Ok(GivenUp { mail, about })
        });
        let mails = mails.collect::<Result<Vec<_>, BlogError>>()?;
        Ok((self.outbox.counts()?, mails, page.next))
    }

    /// The mails, newest first.
    pub async fn mails(
        &self,
        status: Option<Status>,
        before: Option<i64>,
    ) -> Result<Mailbox, BlogError> {
        let page = self.outbox.list(
            &MessageFilter::default()
                .status(status)
                .before(before)
                .limit(MAILS),
        )?;
        Ok(Mailbox {
            counts: self.outbox.counts()?,
            destinations: self.outbox.destinations(MAILS)?,
            mails: page.records,
            next: page.next,
        })
    }

    /// One mail and its history.
    pub async fn mail(&self, id: i64) -> Result<MailDetails, BlogError> {
        let mail = self.outbox.get(id)?.ok_or(OutboxError::NotFound { id })?;
        let history = self.outbox.history(id)?;
        Ok(MailDetails { mail, history })
    }

    /// Sends a failed mail again.
    pub async fn redrive(&self, id: i64) -> Result<Record, BlogError> {
        Ok(self.outbox.redrive(id)?)
    }

    /// Discards a failed mail.
    pub async fn discard(&self, id: i64) -> Result<Record, BlogError> {
        Ok(self.outbox.discard(id)?)
    }

    /// Sends failed mails again, the oldest thousand.
    pub async fn redrive_all(&self) -> Result<BulkResult, BlogError> {
        Ok(self.outbox.redrive_all(&DeadLetterFilter::default())?)
    }

    /// Discards failed mails, the oldest thousand.
    pub async fn discard_all(&self) -> Result<BulkResult, BlogError> {
        Ok(self.outbox.discard_all(&DeadLetterFilter::default())?)
    }
}

impl Blog {
    /// The current content of a mail.
    fn content(&self, mail: Mail) -> Result<Option<Letter>> {
        match mail {
            Mail::Notice(notice) => self.notice(notice),
            Mail::Confirm(confirm) => self.question(confirm),
            Mail::Thanks(thanks) => self.thank_you(thanks),
        }
    }

    fn take(&self, post: &Post, new: &NewComment, client: &str) -> Result<Posted, BlogError> {
        let sql = self.ctx.sql();
        let now = self.now();
        let member = self.member(&new.email, &new.name)?;
        let before: Option<(i64, i64, String, bool)> = sql
            .exec(
                "SELECT id, post, text, removed_at IS NOT NULL FROM comments WHERE member = ? AND mark = ?",
                (member, new.mark.as_str()),
            )?
            .optional()?;
        if let Some((id, on, text, removed)) = before {
            if on != post.id || (text != new.text && !removed) {
                return Err(BlogError::MarkReused);
            }
            return Ok(Posted { id, repeated: true });
        }
        let mailbox = followers::mailbox(&new.email);
        for (from, budget) in [
            (
                "from here",
                Budget::new(
                    "comments of client",
                    client,
                    self.limits.comments_per_client,
                    limits::WINDOW,
                ),
            ),
            (
                "with this address",
                Budget::new(
                    "comments of address",
                    &mailbox,
                    self.limits.comments_per_address,
                    limits::WINDOW,
                ),
            ),
        ] {
            if let Some(until) = budget.spend(&sql, now)? {
                return Err(BlogError::too_many("comments", from, until, now));
            }
        }
        let id: i64 = sql
            .exec(
                "INSERT INTO comments (post, member, name, text, at, mark) VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
                (
                    post.id,
                    member,
                    new.name.as_str(),
                    new.text.as_str(),
                    now,
                    new.mark.as_str(),
                ),
            )?
            .one()?;
        sql.exec(
            "UPDATE posts SET comments = comments + 1 WHERE id = ?",
            (post.id,),
        )?;
        self.forget_unconfirmed()?;
        let unconfirmed = sql.exec(
            "INSERT INTO follows (post, member, since, asked_at) VALUES (?, ?, ?, ?)
             ON CONFLICT DO UPDATE SET asked_at = excluded.asked_at WHERE confirmed_at IS NULL RETURNING 1",
            (post.id, member, id, now),
        )?;
        if unconfirmed.is_empty() {
            self.thank(post.id, member)?;
        } else if self.may_write_to(&mailbox)? && !self.thank(post.id, member)? {
            self.ask_to_confirm(member)?;
        }
        self.tell_followers(Answer {
            post: post.id,
            comment: id,
            author: member,
        })?;
        Ok(Posted {
            id,
            repeated: false,
        })
    }

    /// A mail for each follower; if there are many, one command that expands to them.
    fn tell_followers(&self, answer: Answer) -> Result<(), BlogError> {
        let few = Answers.batch(self.ctx.storage(), &answer, None, AT_ONCE)?;
        if few.next.is_some() {
            self.outbox.fan_out::<Answers>(&answer)?;
            return Ok(());
        }
        for message in &few.messages {
            self.outbox.enqueue(message)?;
        }
        Ok(())
    }

    /// The member with an address.
    fn member(&self, email: &str, name: &str) -> Result<i64> {
        let sql = self.ctx.sql();
        sql.exec(
            "INSERT INTO members (email, name, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (email, name, self.now()),
        )?;
        sql.exec("SELECT id FROM members WHERE email = ?", (email,))?
            .one()
    }

    /// An empty blog starts with a post, so that there is something to comment on.
    fn welcome(&self) -> Result<()> {
        self.ctx.sql().exec(
            "INSERT INTO posts (slug, title, text, at)
             SELECT 'hello', 'Hello', ?, ? WHERE NOT EXISTS (SELECT 1 FROM posts)",
            (include_str!("../assets/hello.txt").trim(), self.now()),
        )?;
        Ok(())
    }

    fn post(&self, slug: &str) -> Result<Post, BlogError> {
        let sql = self.ctx.sql();
        let post = sql
            .exec(&format!("{POST} WHERE slug = ?"), (slug,))?
            .optional()?;
        post.ok_or_else(|| BlogError::NoPost(slug.to_owned()))
    }

    fn now(&self) -> i64 {
        self.env.now().unix_millis()
    }
}
