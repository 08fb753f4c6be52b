//! The object: posts, members, comments, who follows what, and the outbox.
//!
//! Contract: a comment is there if and only if its author's subscription waits to be confirmed, or is, and the mails about it are in
//! the outbox: they are one transaction. A comment that comes again with the same mark is the same comment, and causes no other
//! mail. Who has not confirmed a subscription gets one mail a day at most, whatever strangers type. Whoever writes a post follows it.

use abide::prelude::*;
use abide_patterns::outbox::{
    Change, Counts, DeadLetterFilter, Deliver, Destination, FanOut, Filter, Options, Outbox,
    OutboxError, Record, Status, Swept,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use thiserror::Error;

use crate::{
    AT_ONCE, Answer, Answers, Author, Comment, Confirm, Invalid, Letter, Letters, Limits, Mail,
    NewComment, NewPost, Notice, Post, Says, Site, Thread, Wanted,
    budget::{self, Budget, millis},
    limits,
    mails::{comment_url, confirm_url, excerpt, unsubscribe_url},
    token::{Confirmation, Subscription},
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
    // `since` is the member's first comment on the post; 0 if they have written the post. Who has not confirmed is told nothing.
    "CREATE TABLE IF NOT EXISTS follows (
         post         INTEGER NOT NULL REFERENCES posts,
         member       INTEGER NOT NULL REFERENCES members,
         since        INTEGER NOT NULL,
         asked_at     INTEGER NOT NULL,
         confirmed_at INTEGER,
         PRIMARY KEY (post, member)
     ) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS follows_unconfirmed ON follows (member) WHERE confirmed_at IS NULL",
    "CREATE INDEX IF NOT EXISTS follows_waiting ON follows (asked_at) WHERE confirmed_at IS NULL",
    budget::SCHEMA,
];

/// Subscriptions of blogs that did not ask whose address it is: their mails had the link that ends them.
const SUBSCRIPTIONS: &str = "
    INSERT INTO follows (post, member, since, asked_at, confirmed_at) SELECT post, member, since, 0, 0 FROM subscriptions;
    DROP TABLE subscriptions;
";

/// One blog.
#[durable_object]
pub struct Blog {
    state: State,
    env: Env,
    site: Arc<Site>,
    limits: Limits,
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

/// A mail that was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenUp {
    /// What is known of it.
    pub mail: Record,
    /// To whom it is, and about what, as things are now; nothing if there is nobody left to tell.
    pub about: Option<(String, String)>,
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
    /// The link was made too long ago.
    #[error("This link has expired. Comment again to get another.")]
    OldLink,
    /// It was done too often.
    #[error("There were too many {what} {from}. Try again in {} minutes.", .seconds.div_ceil(60))]
    TooMany {
        /// What.
        what: String,
        /// From where.
        from: String,
        /// When there may be more.
        seconds: u64,
    },
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
        let old = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'subscriptions'";
        if !storage.sql().exec(old, ())?.is_empty() {
            storage.transaction_sync(|| storage.sql().exec(SUBSCRIPTIONS, ()).map(drop))?;
        }
        let options = Options::clone(&*env.require()?);
        let outbox = Outbox::open(&state, env.require()?, options)?;
        let blog = Self {
            site: env.require()?,
            limits: env.get().map_or_else(Limits::default, |limits| *limits),
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
    /// Writes a post. Its author, whom the owner vouches for, follows it.
    pub async fn publish(&self, slug: String, post: NewPost) -> Result<Post, BlogError> {
        let storage = self.state.storage();
        storage.transaction_sync(|| {
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

    /// Takes a comment of a client, asks its author whether to subscribe, and enqueues the mails about it: all or nothing.
    pub async fn comment(
        &self,
        slug: String,
        comment: NewComment,
        client: String,
    ) -> Result<Posted, BlogError> {
        let post = self.post(&slug)?;
        let storage = self.state.storage();
        storage.transaction_sync(|| self.take(&post, &comment, &client))
    }

    /// The posts whose subscriptions a link from a mail confirms.
    pub async fn waiting(&self, token: String, client: String) -> Result<Vec<Post>, BlogError> {
        let Confirmation { member, .. } = self.confirmation(&token, &client)?;
        Ok(self.unconfirmed(member)?)
    }

    /// Confirms the subscriptions that a link from a mail is about; the posts. They may have been confirmed before.
    pub async fn confirm(&self, token: String, client: String) -> Result<Vec<Post>, BlogError> {
        let Confirmation { member, .. } = self.confirmation(&token, &client)?;
        let posts = self.unconfirmed(member)?;
        let sql = self.state.storage().sql();
        sql.exec(
            "UPDATE follows SET confirmed_at = ? WHERE member = ? AND confirmed_at IS NULL AND asked_at > ?",
            (self.now(), member, self.forgotten()),
        )?;
        Ok(posts)
    }

    /// What a mail says now; nothing if there is nobody left to tell.
    pub async fn letter(&self, mail: Mail) -> Result<Option<Letter>> {
        match mail {
            Mail::Notice(notice) => self.notice(notice),
            Mail::Confirm(confirm) => self.question(confirm),
        }
    }

    /// The title of the post that a link from a mail is about.
    pub async fn followed(&self, token: String, client: String) -> Result<Post, BlogError> {
        let Subscription { post, .. } = self.subscription(&token, &client)?;
        let sql = self.state.storage().sql();
        let post = sql
            .exec(&format!("{POST} WHERE id = ?"), (post,))?
            .optional()?;
        post.ok_or(BlogError::BadLink)
    }

    /// Ends the subscription that a link from a mail is about. It may have ended before.
    pub async fn unsubscribe(&self, token: String, client: String) -> Result<(), BlogError> {
        let Subscription { post, member } = self.subscription(&token, &client)?;
        self.state.storage().sql().exec(
            "DELETE FROM follows WHERE post = ? AND member = ?",
            (post, member),
        )?;
        Ok(())
    }

    /// Counts what a client shows as the owner's token, and refuses to look at any after too many wrong ones.
    pub async fn shown_token(&self, right: bool, client: String) -> Result<(), BlogError> {
        self.guess(&client, right.then_some(())).map(drop)
    }

    /// Mails that were given up, newest first, and what is known of all.
    pub async fn given_up(
        &self,
        before: Option<i64>,
    ) -> Result<(Counts, Vec<GivenUp>, Option<i64>), BlogError> {
        let page = self.outbox.dead_letters(&DeadLetterFilter {
            before,
            limit: MAILS,
            ..DeadLetterFilter::default()
        })?;
        let mails = page.records.into_iter().map(|mail| {
            let payload = self.outbox.payload(mail.id)?.unwrap_or_default();
            let letter = match Mail::of(&mail.kind, &payload) {
                Some(Mail::Notice(notice)) => self.notice(notice)?,
                Some(Mail::Confirm(confirm)) => self.question(confirm)?,
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

    /// Sends mails again that were given up, the oldest thousand.
    pub async fn redrive_all(&self) -> Result<Swept, BlogError> {
        Ok(self.outbox.redrive_all(&DeadLetterFilter::default())?)
    }

    /// Gives mails up for good, the oldest thousand of those that were given up.
    pub async fn discard_all(&self) -> Result<Swept, BlogError> {
        Ok(self.outbox.discard_all(&DeadLetterFilter::default())?)
    }
}

impl Blog {
    fn take(&self, post: &Post, new: &NewComment, client: &str) -> Result<Posted, BlogError> {
        let sql = self.state.storage().sql();
        let now = self.now();
        let member = self.member(&new.email, &new.name)?;
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
        let mailbox = mailbox(&new.email);
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
                return Err(too_many("comments", from, until, now));
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
        if !unconfirmed.is_empty() {
            self.ask_to_confirm(member, &mailbox)?;
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

    /// A mail for each follower; if there are many, one command that becomes them.
    fn tell_followers(&self, answer: Answer) -> Result<(), BlogError> {
        let few = Answers.batch(self.state.storage(), &answer, None, AT_ONCE)?;
        if few.next.is_some() {
            self.outbox.fan_out::<Answers>(&answer)?;
            return Ok(());
        }
        for message in &few.messages {
            self.outbox.enqueue(message)?;
        }
        Ok(())
    }

    /// A mail that asks whether to subscribe, unless there was one to this address, or too many to all, within a day.
    fn ask_to_confirm(&self, member: i64, mailbox: &str) -> Result<(), BlogError> {
        let sql = self.state.storage().sql();
        let now = self.now();
        let budget = |what, who, most| Budget::new(what, who, most, limits::CONFIRMATION_WINDOW);
        let address = budget("confirmation to", mailbox, 1);
        if address.exhausted(&sql, now)?.is_some()
            || budget("confirmations", "", limits::CONFIRMATIONS)
                .spend(&sql, now)?
                .is_some()
        {
            return Ok(());
        }
        address.spend(&sql, now)?;
        let confirm = Confirm {
            member,
            until: now.saturating_add(millis(limits::CONFIRM_WITHIN)),
        };
        Letters::<Confirm>::enqueue(&self.outbox, &confirm)?;
        Ok(())
    }

    /// A notice as it is now, if the member follows the post.
    fn notice(&self, notice: Notice) -> Result<Option<Letter>> {
        let Notice {
            post,
            comment,
            member,
        } = notice;
        let found: Option<(String, String, String, String, String)> = self
            .state
            .storage()
            .sql()
            .exec(
                "SELECT members.email, slug, title, comments.name, comments.text FROM follows
                 JOIN members ON members.id = follows.member
                 JOIN posts ON posts.id = follows.post
                 JOIN comments ON comments.id = ? AND comments.post = follows.post
                 WHERE follows.post = ? AND follows.member = ? AND confirmed_at IS NOT NULL",
                (comment, post, member),
            )?
            .optional()?;
        let Some((to, slug, title, author, text)) = found else {
            return Ok(None);
        };
        let secret = secret(self.state.storage())?;
        let subscription = Subscription { post, member };
        Ok(Some(Letter {
            to,
            says: Says::Commented {
                title,
                author,
                excerpt: excerpt(&text),
                url: comment_url(&self.site, &slug, comment),
                unsubscribe: unsubscribe_url(&self.site, subscription, &secret),
            },
        }))
    }

    /// The question whether to subscribe as it is now, if a subscription still waits for its answer.
    fn question(&self, confirm: Confirm) -> Result<Option<Letter>> {
        let Confirm { member, until } = confirm;
        let posts = self.unconfirmed(member)?;
        if posts.is_empty() || until <= self.now() {
            return Ok(None);
        }
        let storage = self.state.storage();
        let email = "SELECT email FROM members WHERE id = ?";
        let to: String = storage.sql().exec(email, (member,))?.one()?;
        let confirmation = Confirmation { member, until };
        Ok(Some(Letter {
            to,
            says: Says::Confirm {
                titles: posts.into_iter().map(|post| post.title).collect(),
                url: confirm_url(&self.site, confirmation, &secret(storage)?),
            },
        }))
    }

    /// The posts whose subscriptions a member has not confirmed.
    fn unconfirmed(&self, member: i64) -> Result<Vec<Post>> {
        let sql = self.state.storage().sql();
        sql.exec(
            &format!(
                "{POST} WHERE id IN (SELECT post FROM follows WHERE member = ? AND confirmed_at IS NULL AND asked_at > ?)
                 ORDER BY id DESC LIMIT ?"
            ),
            (member, self.forgotten(), limits::NAMED_POSTS),
        )?
        .to_array()
    }

    /// Subscriptions that were asked about before are forgotten.
    fn forgotten(&self) -> i64 {
        self.now().saturating_sub(millis(limits::CONFIRM_WITHIN))
    }

    fn forget_unconfirmed(&self) -> Result<()> {
        let forget = "DELETE FROM follows WHERE confirmed_at IS NULL AND asked_at <= ?";
        let sql = self.state.storage().sql();
        sql.exec(forget, (self.forgotten(),)).map(drop)
    }

    /// The member who has an address.
    fn member(&self, email: &str, name: &str) -> Result<i64> {
        let sql = self.state.storage().sql();
        sql.exec(
            "INSERT INTO members (email, name, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (email, name, self.now()),
        )?;
        sql.exec("SELECT id FROM members WHERE email = ?", (email,))?
            .one()
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

    fn subscription(&self, token: &str, client: &str) -> Result<Subscription, BlogError> {
        let secret = secret(self.state.storage())?;
        let subscription = self.guess(client, Subscription::of(token, &secret))?;
        subscription.ok_or(BlogError::BadLink)
    }

    fn confirmation(&self, token: &str, client: &str) -> Result<Confirmation, BlogError> {
        let secret = secret(self.state.storage())?;
        let confirmation = self.guess(client, Confirmation::of(token, &secret))?;
        let confirmation = confirmation.ok_or(BlogError::BadLink)?;
        if confirmation.until <= self.now() {
            return Err(BlogError::OldLink);
        }
        Ok(confirmation)
    }

    /// What a client's token is for, if it is right. After too many wrong ones nobody says of any whether it is right.
    fn guess<T>(&self, client: &str, token: Option<T>) -> Result<Option<T>, BlogError> {
        let sql = self.state.storage().sql();
        let now = self.now();
        let budget = Budget::new(
            "wrong tokens of",
            client,
            limits::WRONG_TOKENS,
            limits::WINDOW,
        );
        let exhausted = match token {
            Some(_) => budget.exhausted(&sql, now)?,
            None => budget.spend(&sql, now)?,
        };
        match exhausted {
            Some(until) => Err(too_many("wrong tokens", "from here", until, now)),
            None => Ok(token),
        }
    }

    fn now(&self) -> i64 {
        i64::try_from(self.env.clock().unix_millis()).unwrap_or(i64::MAX)
    }
}

fn too_many(what: &str, from: &str, until: i64, now: i64) -> BlogError {
    let seconds = u64::try_from(until.saturating_sub(now)).unwrap_or(0);
    BlogError::TooMany {
        what: what.to_owned(),
        from: from.to_owned(),
        seconds: seconds.div_ceil(1_000).max(1),
    }
}

/// What is counted as one address: most mail servers deliver `ada+1@…` and `ADA@…` to ada.
fn mailbox(email: &str) -> String {
    let email = email.to_lowercase();
    match email.rsplit_once('@') {
        Some((local, domain)) => {
            let local = local.split('+').next().unwrap_or(local);
            format!("{local}@{domain}")
        }
        None => email,
    }
}

/// The key of the links in mails.
pub(crate) fn secret(storage: &Storage) -> Result<Vec<u8>> {
    storage
        .get(SECRET)?
        .ok_or_else(|| Error::new("the blog has no key for its links"))
}
