//! The thank-you mail after a member's first comment, and whether it has arrived.
//!
//! Contract: a member is thanked once. The record is a row with the member as its key, written in the transaction of
//! the comment that also enqueues the mail. So it depends neither on how long the outbox remembers its mails nor on
//! whether the comment is deleted. The outbox's callbacks write the mail's end into the row, in the transaction that
//! ends the mail.

use abide::outbox::{Deliver, Ended, Outbox};
use abide::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Blog, BlogError};
use crate::{
    Letter, Letters, Question, Says, Thanks,
    budget::millis,
    limits,
    mails::{MailKind, confirm_url},
    token::Confirmation,
};

/// Thank-you mails on one page of their list.
const PAGE: i64 = 50;

/// A thank-you mail, as the owner sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThankYou {
    /// The member; with `name` and `email` who that is.
    pub member: i64,
    /// The name with which they commented first.
    pub name: String,
    /// Their address.
    pub email: String,
    /// What has become of the mail.
    pub state: ThanksState,
    /// Since when, in milliseconds since 1970.
    pub since: i64,
    /// Why it has failed.
    pub error: Option<String>,
}

/// What has become of a thank-you mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThanksState {
    /// It is on its way.
    Waiting,
    /// The mail server has accepted it.
    Sent,
    /// It was given up. The owner can have it sent again.
    Failed,
}

impl Blog {
    /// Thanks a member for a comment on a post, unless they have been thanked. True if the mail was enqueued; it also
    /// asks whether to subscribe.
    pub(super) fn thank(&self, post: i64, member: i64) -> Result<bool, BlogError> {
        let now = self.now();
        let first = self.ctx.sql().exec(
            "INSERT INTO thanks (member, state, since) VALUES (?, 'waiting', ?) ON CONFLICT DO NOTHING RETURNING 1",
            (member, now),
        )?;
        if first.is_empty() {
            return Ok(false);
        }
        let thanks = Thanks {
            post,
            member,
            until: now.saturating_add(millis(limits::CONFIRM_WITHIN)),
        };
        Letters::<Thanks>::enqueue(&self.outbox, &thanks)?;
        Ok(true)
    }

    /// The current content of a thank-you mail. It asks for confirmation while a subscription waits for it.
    pub(super) fn thank_you(&self, thanks: Thanks) -> Result<Option<Letter>> {
        let Thanks {
            post,
            member,
            until,
        } = thanks;
        let storage = self.ctx.storage();
        let found: Option<(String, String)> = storage
            .sql()
            .exec(
                "SELECT email, title FROM members, posts WHERE members.id = ? AND posts.id = ?",
                (member, post),
            )?
            .optional()?;
        let Some((to, title)) = found else {
            return Ok(None);
        };
        let posts = self.unconfirmed(member)?;
        let question = if posts.is_empty() || until <= self.now() {
            None
        } else {
            let confirmation = Confirmation { member, until };
            Some(Question {
                titles: posts.into_iter().map(|post| post.title).collect(),
                url: confirm_url(
                    &self.site,
                    confirmation,
                    &super::followers::secret(storage)?,
                ),
            })
        };
        let says = Says::Thanks { title, question };
        Ok(Some(Letter { to, says }))
    }

    /// Thank-you mails, those of the newest members first, and where the next page begins.
    pub(super) fn thank_yous(
        &self,
        before: Option<i64>,
    ) -> Result<(Vec<ThankYou>, Option<i64>), BlogError> {
        let mut found: Vec<ThankYou> = self
            .ctx.sql()
            .exec(
                "SELECT member, name, email, state, since, error FROM thanks JOIN members ON members.id = member
                 WHERE member < ? ORDER BY member DESC LIMIT ?",
                (before.unwrap_or(i64::MAX), PAGE + 1),
            )?
            .all()?;
        let more = i64::try_from(found.len()).is_ok_and(|count| count > PAGE);
        if more {
            found.pop();
        }
        let next = found.last().filter(|_| more).map(|last| last.member);
        Ok((found, next))
    }
}

/// Has the outbox write the end of each thank-you mail into its row.
pub(super) fn watch(storage: &Storage, outbox: &Outbox) -> Result<()> {
    let sent = storage.clone();
    outbox.on_sent(Thanks::KIND, move |_, ended| note(&sent, ended, "sent"))?;
    let failed = storage.clone();
    outbox.on_failed(Thanks::KIND, move |_, ended| note(&failed, ended, "failed"))
}

fn note(storage: &Storage, ended: &Ended, state: &str) -> Result<()> {
    let thanks: Thanks = ended.read()?;
    let error = ended.record.last_error.as_ref();
    storage
        .sql()
        .exec(
            "UPDATE thanks SET state = ?2, since = ?3, error = iif(?2 = 'failed', ?4, NULL) WHERE member = ?1",
            (thanks.member, state, ended.record.updated_at, error),
        )
        .map(drop)
}
