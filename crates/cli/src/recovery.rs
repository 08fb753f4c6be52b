//! `abide bookmark`, `abide restore`, `abide fork` and `abide activate`: an object's history.
//!
//! Activation runs the object's code, so it needs a running node. For the others, if no node serves the data directory, it is opened directly; otherwise, or with `--admin`, the running node is
//! queried.

use std::{io::Write, str::FromStr};

use abide::{
    Activation, Bookmark, FoundObject,
    clock::{Clock as _, SystemClock},
};
use abide_storage::{ObjectKey, Store};
use anyhow::{Context, Result};
use clap::Args;
use jiff::{Span, SpanRelativeTo, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    backup::CopyArgs,
    node::{NodeArgs, Source},
    object::ObjectArg,
};

/// The options that select an object of a node.
#[derive(Args)]
pub(crate) struct ObjectArgs {
    #[command(flatten)]
    pub(crate) object: ObjectArg,

    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

/// The options that select a point in the object's history.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct MomentArgs {
    /// The last commit at or before a time, such as 2026-03-01T12:00:00Z, or -15m for a quarter of an hour ago
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<Time>,

    /// The commit of a bookmark
    #[arg(long)]
    bookmark: Option<Bookmark>,
}

#[derive(Args)]
pub(crate) struct BookmarkArgs {
    #[command(flatten)]
    object: ObjectArgs,

    /// The last commit at or before a time, such as 2026-03-01T12:00:00Z or -15m [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<Time>,
}

#[derive(Args)]
pub(crate) struct RestoreArgs {
    /// The object: Class/name, its id, or the first digits of its id; the name alone if only one class has it
    #[arg(
        value_name = "OBJECT",
        required_unless_present = "from",
        conflicts_with = "from"
    )]
    object: Option<String>,

    #[command(flatten)]
    node: NodeArgs,

    /// The last commit at or before a time, such as 2026-03-01T12:00:00Z, or -15m for a quarter of an hour ago
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        conflicts_with = "bookmark"
    )]
    at: Option<Time>,

    /// The commit of a bookmark
    #[arg(long, conflicts_with = "from")]
    bookmark: Option<Bookmark>,

    /// Leave the object dormant: it answers calls and does nothing else until `abide activate`
    #[arg(long, conflicts_with = "from")]
    dormant: bool,

    #[command(flatten)]
    copy: CopyArgs,
}

#[derive(Args)]
pub(crate) struct ActivateArgs {
    #[command(flatten)]
    object: ObjectArgs,

    /// Take over the work that the object has inherited (messages, timers, alarms, running steps) instead of dropping it
    #[arg(long = "continue")]
    take_over: bool,
}

#[derive(Args)]
pub(crate) struct ForkArgs {
    #[command(flatten)]
    object: ObjectArgs,

    #[command(flatten)]
    at: MomentArgs,

    /// The copy: a name of the same class, or CLASS/NAME. The object must be new, or exist and be empty; an id will do, too
    #[arg(long, value_name = "NAME")]
    to: String,
}

/// A time: an RFC 3339 time, or how long ago, which counts from the clock of the node that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// Milliseconds since 1970.
    At(u64),
    /// Milliseconds before now.
    Ago(u64),
}

impl FromStr for Time {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.starts_with('-') {
            let span: Span = text.parse()?;
            let ago = span.to_duration(SpanRelativeTo::days_are_24_hours())?;
            let millis = u64::try_from(-ago.as_millis());
            return Ok(Self::Ago(millis.context("the time is too far away")?));
        }
        let time: Timestamp = text
            .parse()
            .context("expected a time such as 2026-03-01T12:00:00Z, or -15m")?;
        let millis = u64::try_from(time.as_millisecond());
        Ok(Self::At(millis.context("the time is before 1970")?))
    }
}

impl Time {
    /// Milliseconds since 1970, for a data directory that no node serves.
    fn unix_millis(self) -> u64 {
        match self {
            Self::At(millis) => millis,
            Self::Ago(millis) => SystemClock::new().unix_millis().saturating_sub(millis),
        }
    }
}

/// A point in time, in the admin listener's format.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Moment {
    Time(u64),
    Ago(u64),
    Bookmark(Bookmark),
}

impl From<Time> for Moment {
    fn from(time: Time) -> Self {
        match time {
            Time::At(millis) => Self::Time(millis),
            Time::Ago(millis) => Self::Ago(millis),
        }
    }
}

impl MomentArgs {
    fn moment(&self) -> Result<Moment> {
        Moment::of(self.at, self.bookmark)
    }
}

impl Moment {
    fn of(at: Option<Time>, bookmark: Option<Bookmark>) -> Result<Self> {
        Self::given(at, bookmark).context("specify the point in time with --at or --bookmark")
    }

    /// The point of two options, if one of them is there.
    pub(crate) fn given(at: Option<Time>, bookmark: Option<Bookmark>) -> Option<Self> {
        match at {
            Some(time) => Some(time.into()),
            None => bookmark.map(Self::Bookmark),
        }
    }

    pub(crate) fn find(self, store: &Store, key: ObjectKey) -> Result<Bookmark> {
        match self {
            Self::Time(millis) => Ok(store.bookmark_at(key, Time::At(millis).unix_millis())?),
            Self::Ago(millis) => Ok(store.bookmark_at(key, Time::Ago(millis).unix_millis())?),
            Self::Bookmark(bookmark) => Ok(bookmark),
        }
    }
}

#[derive(Deserialize)]
struct BookmarkBody {
    bookmark: Bookmark,
}

#[derive(Serialize)]
struct Restore {
    #[serde(flatten)]
    to: Moment,
    dormant: bool,
}

#[derive(Serialize)]
struct Activate {
    inherited: Activation,
}

#[derive(Deserialize)]
struct Restored {
    undo: Bookmark,
}

#[derive(Serialize)]
struct Fork<'a> {
    #[serde(flatten)]
    at: Moment,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<&'a str>,
}

#[derive(Deserialize)]
struct Forked {
    id: String,
}

pub(crate) fn bookmark(args: &BookmarkArgs, out: &mut impl Write) -> Result<()> {
    let object = &args.object.object;
    let bookmark = match args.object.node.source()? {
        Source::Node(node) => {
            let at = match args.at {
                None => String::new(),
                Some(Time::At(millis)) => format!("?at={millis}"),
                Some(Time::Ago(millis)) => format!("?ago={millis}"),
            };
            let path = object.on_node(&node)?.path("objects", "bookmark");
            node.get::<BookmarkBody>(&format!("{path}{at}"))?.bookmark
        }
        Source::Data(data) => {
            let key = object.in_history(&data)?.key;
            let bookmark = match args.at {
                None => data.store.bookmark(key)?,
                Some(at) => data.store.bookmark_at(key, at.unix_millis())?,
            };
            data.close()?;
            bookmark
        }
    };
    writeln!(out, "{bookmark}")?;
    Ok(())
}

pub(crate) fn restore(args: &RestoreArgs, out: &mut impl Write) -> Result<()> {
    let Some(object) = &args.object else {
        let at = args.at.map(Time::unix_millis);
        return args.copy.restore(&args.node.data, at, out);
    };
    let object = ObjectArg::new(object);
    let to = Moment::of(args.at, args.bookmark)?;
    let undo = match args.node.source()? {
        Source::Node(node) => {
            let path = object.on_node(&node)?.path("objects", "restore");
            let dormant = args.dormant;
            node.post::<Restored>(&path, &Restore { to, dormant })?.undo
        }
        Source::Data(data) => {
            let found = object.in_history(&data)?;
            let to = to.find(&data.store, found.key)?;
            let undo = data.audited("restore", Some(&found), Some(to.to_string()), || {
                Ok(if args.dormant {
                    data.store.restore_dormant(found.key, &to)?
                } else {
                    data.store.restore(found.key, &to)?
                })
            })?;
            data.close()?;
            undo
        }
    };
    if args.dormant {
        writeln!(out, "dormant until `abide activate … --continue`")?;
    }
    writeln!(out, "restored; to undo it: --bookmark {undo}")?;
    Ok(())
}

pub(crate) fn activate(args: &ActivateArgs, out: &mut impl Write) -> Result<()> {
    let node = args.object.node.node()?;
    let object = args.object.object.on_node(&node)?;
    let inherited = if args.take_over {
        Activation::Continue
    } else {
        Activation::Fresh
    };
    node.post::<()>(&object.path("objects", "activate"), &Activate { inherited })?;
    let work = match inherited {
        Activation::Fresh => "dropped",
        Activation::Continue => "continues",
    };
    writeln!(out, "activated; the work that it had inherited {work}")?;
    Ok(())
}

pub(crate) fn fork(args: &ForkArgs, out: &mut impl Write) -> Result<()> {
    let object = &args.object.object;
    let at = args.at.moment()?;
    // What is before a slash is always a class, so that a mistyped one is refused.
    let (class, name) = match args.to.split_once('/') {
        Some((class, name)) => (Some(class), name),
        None => (None, &*args.to),
    };
    let (class, id) = match args.object.node.source()? {
        Source::Node(node) => {
            let from = object.on_node(&node)?;
            let fork = Fork { at, name, class };
            let path = from.path("objects", "fork");
            let id = node.post::<Forked>(&path, &fork)?.id;
            (class.map_or(from.class, str::to_owned), id)
        }
        Source::Data(data) => {
            let from = object.in_history(&data)?;
            let at = at.find(&data.store, from.key)?;
            let to = FoundObject::in_class(&data.store, class.unwrap_or(&from.class), name)?;
            let detail = format!("at {at} as {to}");
            data.audited("fork", Some(&from), Some(detail), || {
                let name = to.name.as_deref();
                Ok(data.store.fork(from.key, &at, to.key, name)?)
            })?;
            data.close()?;
            (to.class.clone(), to.id().to_string())
        }
    };
    let is_named = id != name.to_ascii_lowercase();
    writeln!(out, "{class}\t{id}\t{}", if is_named { name } else { "-" })?;
    writeln!(
        out,
        "dormant: it answers calls and does nothing else; to let it act: abide activate {class}/{name}"
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_rfc_3339_or_how_long_ago() {
        let read = |text: &str| text.parse::<Time>().ok();
        let at = Some(Time::At(1_000_000_000_000));
        assert_eq!(read("-15m"), Some(Time::Ago(900_000)));
        assert_eq!(read("-0s"), Some(Time::Ago(0)));
        assert_eq!(read("-1d12h"), Some(Time::Ago(129_600_000)));
        assert_eq!(read("2001-09-09T01:46:40Z"), at);
        assert_eq!(read("2001-09-09T03:46:40+02:00"), at);
        assert_eq!(read("1969-01-01T00:00:00Z"), None);
        assert_eq!(read("15m"), None);
        assert_eq!(read("yesterday"), None);
    }
}
