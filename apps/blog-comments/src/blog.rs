//! The object: posts, members, comments, who follows what, and the outbox.
//!
//! Contract: a comment is there if and only if its author follows the post and the mails about it are in the outbox: they
//! are one transaction. A comment that comes again with the same mark is the same comment, and causes no other mail.

use abide::prelude::*;
use abide_patterns::outbox::{
    Change, Counts, Deliver, Destination, FanOut, Filter, Options, Outbox, OutboxError, Record,
    Status,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use thiserror::Error;

use crate::{
    AT_ONCE, Answer, Answers, Comment, Invalid, Letters, NewComment, NewPost, Post, Site, Thanks,
    Thread, Wanted,
    mails::{comment_url, unsubscribe_url},
    token::Subscription,
};

/// Comments on one page.
const PAGE: i64 = 100;

/// Posts on the first page.
const POSTS: i64 = 100;

/// Mails on one page of their list.
const MAILS: usize = 100;

/// Where the key of the links in mails is kept.
const SECRET: &str = "secret";

const POST: &str = "SELECT id, slug, title, text, at, comments FROM posts";

const SCHEMA: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS posts (
         id       INTEGER PRIMARY KEY,
         slug     TEXT NOT NULL UNIQUE,
         title    TEXT NOT NULL,
         text     TEXT NOT NULL,
         at       INTEGER NOT NULL,
         comments INTEGER NOT NULL DEFAULT 0
     )",
    "CREATE TABLE IF NOT EXISTS members (
         id    INTEGER PRIMARY KEY,
         email TEXT NOT NULL UNIQUE COLLATE NOCASE,
         name  TEXT NOT NULL,
         at    INTEGER NOT NULL
     )",
    "CREATE TABLE IF NOT EXISTS comments (
         id     INTEGER PRIMARY KEY AUTOINCREMENT,
         post   INTEGER NOT NULL REFERENCES posts,
         member INTEGER NOT NULL REFERENCES members,
         name   TEXT NOT NULL,
         text   TEXT NOT NULL,
         at     INTEGER NOT NULL,
         mark   TEXT NOT NULL,
         UNIQUE (member, mark)
     )",
    "CREATE INDEX IF NOT EXISTS comments_of_post ON comments (post, id)",
    // `since` is the member's first comment on the post.
    "CREATE TABLE IF NOT EXISTS subscriptions (
         post   INTEGER NOT NULL REFERENCES posts,
         member INTEGER NOT NULL REFERENCES members,
         since  INTEGER NOT NULL REFERENCES comments,
         PRIMARY KEY (post, member)
     ) WITHOUT ROWID",
];

/// One blog.
#[durable_object]
pub struct Blog {
    state: State,
    env: Env,
    site: Arc<Site>,
    outbox: Outbox,
}

/// A comment that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posted {
    /// The comment.
    pub id: i64,
    /// True if it was there: it came again with the same mark.
    pub repeated: bool,
}

/// The outbox, a page of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mailbox {
    /// Mails by status.
    pub counts: Counts,
    /// The mail server, and whether it is left alone for a while.
    pub destinations: Vec<Destination>,
    /// Newest first.
    pub mails: Vec<Record>,
    /// Where the next page begins, if there is one.
    pub next: Option<i64>,
}

/// One mail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailDetails {
    /// What is known of it.
    pub mail: Record,
    /// What happened to it, oldest first.
    pub history: Vec<Change>,
}

/// Why the blog did not do what it was asked. Nothing changed.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
pub enum BlogError {
    /// There is no such post.
    #[error("There is no post {0}.")]
    NoPost(String),
    /// There is another post at this address.
    #[error("There is a post {0} already.")]
    PostTaken(String),
    /// It makes no sense.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The mark belongs to a comment that says something else.
    #[error("The mark belongs to another comment of yours: a new comment needs a new mark.")]
    MarkReused,
    /// The link was not made by this blog.
    #[error("This link is not one from our mails. Please copy it whole.")]
    BadLink,
    /// The outbox refused.
    #[error(transparent)]
    Outbox(#[from] OutboxError),
    /// The storage failed.
    #[error(transparent)]
    Object(#[from] Error),
}

impl DurableObject for Blog {
    fn new(state: State, env: Env) -> Result<Self> {
        let storage = state.storage();
        for statement in SCHEMA {
            storage.sql().exec(statement, ())?;
        }
        if storage.get::<Vec<u8>>(SECRET)?.is_none() {
            let mut secret = [0_u8; 32];
            getrandom::fill(&mut secret).map_err(Error::from_std)?;
            storage.put(SECRET, &secret.to_vec())?;
        }
        let options = Options::clone(&*env.require()?);
        let outbox = Outbox::open(&state, env.require()?, options)?;
        let blog = Self {
            site: env.require()?,
            state,
            env,
            outbox,
        };
        blog.welcome()?;
        Ok(blog)
    }

    async fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        self.outbox.alarm()
    }
}

#[rpc]
impl Blog {
    /// Writes a post.
    pub async fn publish(&self, slug: String, post: NewPost) -> Result<Post, BlogError> {
        let sql = self.state.storage().sql();
        let new = sql.exec(
            "INSERT INTO posts (slug, title, text, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id",
            (slug.as_str(), post.title, post.text, self.now()),
        )?;
        if new.is_empty() {
            return Err(BlogError::PostTaken(slug));
        }
        self.post(&slug)
    }

    /// The newest posts, newest first.
    pub async fn posts(&self) -> Result<Vec<Post>> {
        let sql = self.state.storage().sql();
        sql.exec(&format!("{POST} ORDER BY id DESC LIMIT ?"), (POSTS,))?
            .to_array()
    }

    /// A post with a page of its comments.
    pub async fn read(&self, slug: String, wanted: Wanted) -> Result<Thread, BlogError> {
        let post = self.post(&slug)?;
        let sql = self.state.storage().sql();
        let before = match wanted.with {
            Some(with) => sql
                .exec(
                    "SELECT id FROM comments WHERE post = ? AND id > ? ORDER BY id LIMIT 1 OFFSET ?",
                    (post.id, with, PAGE / 2),
                )?
                .optional()?,
            None => wanted.before,
        };
        let mut comments: Vec<Comment> = sql
            .exec(
                "SELECT id, name, text, at FROM comments WHERE post = ? AND id < ? ORDER BY id DESC LIMIT ?",
                (post.id, before.unwrap_or(i64::MAX), PAGE + 1),
            )?
            .to_array()?;
        let more = i64::try_from(comments.len()).is_ok_and(|count| count > PAGE);
        if more {
            comments.pop();
        }
        comments.reverse();
        let older = comments.first().filter(|_| more).map(|oldest| oldest.id);
        let newest = sql
            .exec(
                "SELECT 1 FROM comments WHERE post = ? AND id >= ? LIMIT 1",
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

    /// Takes a comment, subscribes its author, and enqueues the mails about it: all or nothing.
    pub async fn comment(&self, slug: String, comment: NewComment) -> Result<Posted, BlogError> {
        let post = self.post(&slug)?;
        let storage = self.state.storage();
        storage.transaction_sync(|| self.take(&post, &comment))
    }

    /// The title of the post that a link from a mail is about.
    pub async fn followed(&self, token: String) -> Result<Post, BlogError> {
        let Subscription { post, .. } = self.subscription(&token)?;
        let sql = self.state.storage().sql();
        let post = sql
            .exec(&format!("{POST} WHERE id = ?"), (post,))?
            .optional()?;
        post.ok_or(BlogError::BadLink)
    }

    /// Ends the subscription that a link from a mail is about. It may have ended before.
    pub async fn unsubscribe(&self, token: String) -> Result<(), BlogError> {
        let Subscription { post, member } = self.subscription(&token)?;
        self.state.storage().sql().exec(
            "DELETE FROM subscriptions WHERE post = ? AND member = ?",
            (post, member),
        )?;
        Ok(())
    }

    /// The mails, newest first.
    pub async fn mails(
        &self,
        status: Option<Status>,
        before: Option<i64>,
    ) -> Result<Mailbox, BlogError> {
        let page = self.outbox.list(&Filter {
            status,
            before,
            limit: MAILS,
        })?;
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

    /// Sends a mail again that was given up.
    pub async fn redrive(&self, id: i64) -> Result<Record, BlogError> {
        Ok(self.outbox.redrive(id)?)
    }

    /// Gives a mail up for good.
    pub async fn discard(&self, id: i64) -> Result<Record, BlogError> {
        Ok(self.outbox.discard(id)?)
    }
}

impl Blog {
    fn take(&self, post: &Post, new: &NewComment) -> Result<Posted, BlogError> {
        let sql = self.state.storage().sql();
        let now = self.now();
        sql.exec(
            "INSERT INTO members (email, name, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (new.email.as_str(), new.name.as_str(), now),
        )?;
        let member: i64 = sql
            .exec(
                "SELECT id FROM members WHERE email = ?",
                (new.email.as_str(),),
            )?
            .one()?;
        let before: Option<(i64, i64, String)> = sql
            .exec(
                "SELECT id, post, text FROM comments WHERE member = ? AND mark = ?",
                (member, new.mark.as_str()),
            )?
            .optional()?;
        if let Some((id, on, text)) = before {
            if on != post.id || text != new.text {
                return Err(BlogError::MarkReused);
            }
            return Ok(Posted { id, repeated: true });
        }
        let first = sql
            .exec("SELECT 1 FROM comments WHERE member = ? LIMIT 1", (member,))?
            .is_empty();
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
        sql.exec(
            "INSERT INTO subscriptions (post, member, since) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (post.id, member, id),
        )?;
        self.tell_followers(Answer {
            post: post.id,
            comment: id,
            author: member,
        })?;
        if first {
            self.thank(post, id, member, new)?;
        }
        Ok(Posted {
            id,
            repeated: false,
        })
    }

    /// A mail for each follower; if there are many, one command that becomes them.
    fn tell_followers(&self, answer: Answer) -> Result<(), BlogError> {
        let answers = Answers::new(Site::clone(&self.site));
        let few = answers.batch(self.state.storage(), &answer, None, AT_ONCE)?;
        if few.next.is_some() {
            self.outbox.fan_out::<Answers>(&answer)?;
            return Ok(());
        }
        for message in &few.messages {
            self.outbox.enqueue(message)?;
        }
        Ok(())
    }

    fn thank(
        &self,
        post: &Post,
        comment: i64,
        member: i64,
        new: &NewComment,
    ) -> Result<(), BlogError> {
        let subscription = Subscription {
            post: post.id,
            member,
        };
        let thanks = Thanks {
            to: new.email.clone(),
            name: new.name.clone(),
            title: post.title.clone(),
            url: comment_url(&self.site, &post.slug, comment),
            unsubscribe: unsubscribe_url(&self.site, subscription, &secret(self.state.storage())?),
        };
        Letters::<Thanks>::enqueue(&self.outbox, &thanks)?;
        Ok(())
    }

    /// An empty blog begins with a post, so that there is something to comment on.
    fn welcome(&self) -> Result<()> {
        self.state.storage().sql().exec(
            "INSERT INTO posts (slug, title, text, at)
             SELECT 'hello', 'Hello', ?, ? WHERE NOT EXISTS (SELECT 1 FROM posts)",
            (include_str!("../assets/hello.txt").trim(), self.now()),
        )?;
        Ok(())
    }

    fn post(&self, slug: &str) -> Result<Post, BlogError> {
        let sql = self.state.storage().sql();
        let post = sql
            .exec(&format!("{POST} WHERE slug = ?"), (slug,))?
            .optional()?;
        post.ok_or_else(|| BlogError::NoPost(slug.to_owned()))
    }

    fn subscription(&self, token: &str) -> Result<Subscription, BlogError> {
        let secret = secret(self.state.storage())?;
        Subscription::of(token, &secret).ok_or(BlogError::BadLink)
    }

    fn now(&self) -> i64 {
        i64::try_from(self.env.clock().unix_millis()).unwrap_or(i64::MAX)
    }
}

/// The key of the links in mails.
pub(crate) fn secret(storage: &Storage) -> Result<Vec<u8>> {
    storage
        .get(SECRET)?
        .ok_or_else(|| Error::new("the blog has no key for its links"))
}
