//! Followers: the confirmation of subscriptions, their notices, and the links in their mails.

use abide::outbox::Deliver;
use abide::prelude::*;

use super::{Blog, BlogError, POST};
use crate::{
    Confirm, Letter, Letters, Notice, Post, Question, Says,
    budget::{Budget, millis},
    limits,
    mails::{comment_url, confirm_url, excerpt, unsubscribe_url},
    token::{Confirmation, Subscription},
};

/// The storage key of the secret for the links in mails.
const SECRET: &str = "secret";

impl Blog {
    /// Whether a mail may be sent to an unconfirmed address: not if there was one, or too many to all such addresses
    /// together, within a day. It counts as sent.
    pub(super) fn may_write_to(&self, mailbox: &str) -> Result<bool> {
        let sql = self.ctx.sql();
        let now = self.now();
        let budget = |what, who, most| Budget::new(what, who, most, limits::CONFIRMATION_WINDOW);
        let address = budget("confirmation to", mailbox, 1);
        if address.exhausted(&sql, now)?.is_some()
            || budget("confirmations", "", limits::CONFIRMATIONS)
                .spend(&sql, now)?
                .is_some()
        {
            return Ok(false);
        }
        address.spend(&sql, now)?;
        Ok(true)
    }

    /// Enqueues a confirmation mail.
    pub(super) fn ask_to_confirm(&self, member: i64) -> Result<(), BlogError> {
        let now = self.now();
        let confirm = Confirm {
            member,
            until: now.saturating_add(millis(limits::CONFIRM_WITHIN)),
        };
        Letters::<Confirm>::enqueue(&self.outbox, &confirm)?;
        Ok(())
    }

    /// The current content of a notice, if the member follows the post.
    pub(super) fn notice(&self, notice: Notice) -> Result<Option<Letter>> {
        let Notice {
            post,
            comment,
            member,
        } = notice;
        let found: Option<(String, String, String, String, String)> = self
            .ctx.sql()
            .exec(
                "SELECT members.email, slug, title, comments.name, comments.text FROM follows
                 JOIN members ON members.id = follows.member
                 JOIN posts ON posts.id = follows.post
                 JOIN comments ON comments.id = ? AND comments.post = follows.post AND removed_at IS NULL
                 WHERE follows.post = ? AND follows.member = ? AND confirmed_at IS NOT NULL",
                (comment, post, member),
            )?
            .optional()?;
        let Some((to, slug, title, author, text)) = found else {
            return Ok(None);
        };
        let secret = secret(self.ctx.storage())?;
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

    /// The current content of a confirmation mail, if a subscription still waits for it.
    pub(super) fn question(&self, confirm: Confirm) -> Result<Option<Letter>> {
        let Confirm { member, until } = confirm;
        let posts = self.unconfirmed(member)?;
        if posts.is_empty() || until <= self.now() {
            return Ok(None);
        }
        let storage = self.ctx.storage();
        let email = "SELECT email FROM members WHERE id = ?";
        let to: String = storage.sql().exec(email, (member,))?.one()?;
        let confirmation = Confirmation { member, until };
        Ok(Some(Letter {
            to,
            says: Says::Confirm(Question {
                titles: posts.into_iter().map(|post| post.title).collect(),
                url: confirm_url(&self.site, confirmation, &secret(storage)?),
            }),
        }))
    }

    /// The posts whose subscriptions a member has not confirmed.
    pub(super) fn unconfirmed(&self, member: i64) -> Result<Vec<Post>> {
        let sql = self.ctx.sql();
        sql.exec(
            &format!(
                "{POST} WHERE id IN (SELECT post FROM follows WHERE member = ? AND confirmed_at IS NULL AND asked_at > ?)
                 ORDER BY id DESC LIMIT ?"
            ),
            (member, self.forgotten(), limits::NAMED_POSTS),
        )?
        .all()
    }

    /// Subscriptions requested before this time have expired.
    pub(super) fn forgotten(&self) -> i64 {
        self.now().saturating_sub(millis(limits::CONFIRM_WITHIN))
    }

    pub(super) fn forget_unconfirmed(&self) -> Result<()> {
        let forget = "DELETE FROM follows WHERE confirmed_at IS NULL AND asked_at <= ?";
        let sql = self.ctx.sql();
        sql.exec(forget, (self.forgotten(),)).map(drop)
    }

    pub(super) fn subscription(
        &self,
        token: &str,
        client: &str,
    ) -> Result<Subscription, BlogError> {
        let secret = secret(self.ctx.storage())?;
        let subscription = self.guess(client, Subscription::of(token, &secret))?;
        subscription.ok_or(BlogError::BadLink)
    }

    pub(super) fn confirmation(
        &self,
        token: &str,
        client: &str,
    ) -> Result<Confirmation, BlogError> {
        let secret = secret(self.ctx.storage())?;
        let confirmation = self.guess(client, Confirmation::of(token, &secret))?;
        let confirmation = confirmation.ok_or(BlogError::BadLink)?;
        if confirmation.until <= self.now() {
            return Err(BlogError::OldLink);
        }
        Ok(confirmation)
    }

    /// Verifies a client's token. After too many wrong ones, no token of the client is checked.
    pub(super) fn guess<T>(&self, client: &str, token: Option<T>) -> Result<Option<T>, BlogError> {
        let sql = self.ctx.sql();
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
            Some(until) => Err(BlogError::too_many("wrong tokens", "from here", until, now)),
            None => Ok(token),
        }
    }
}

/// Normalizes an address for rate limits: most mail servers deliver `ada+1@…` and `ADA@…` to ada.
pub(super) fn mailbox(email: &str) -> String {
    let email = email.to_lowercase();
    match email.rsplit_once('@') {
        Some((local, domain)) => {
            let local = local.split('+').next().unwrap_or(local);
            format!("{local}@{domain}")
        }
        None => email,
    }
}

/// Creates the secret for the links in mails, once.
pub(super) fn make_secret(storage: &Storage) -> Result<()> {
    if storage.get::<Vec<u8>>(SECRET)?.is_none() {
        let mut secret = [0_u8; 32];
        getrandom::fill(&mut secret).map_err(Error::from_std)?;
        storage.put(SECRET, &secret.to_vec())?;
    }
    Ok(())
}

/// The secret for the links in mails.
pub(super) fn secret(storage: &Storage) -> Result<Vec<u8>> {
    storage
        .get(SECRET)?
        .ok_or_else(|| Error::new("the blog has no key for its links"))
}
