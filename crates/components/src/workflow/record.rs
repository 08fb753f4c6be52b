//! The state of instances and their steps.

use std::fmt;

use abide_macros::Setters;

use serde::{Deserialize, Serialize};

use super::{Failure, FailureKind};

/// The status of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It runs, sleeps, or waits for an event.
    Running,
    /// Paused: nothing new begins until it is resumed.
    Paused,
    /// The program does not match its history, or panics: it continues when the program is fixed. Its error says what
    /// to do.
    Stuck,
    /// It has finished with a result.
    Completed,
    /// It has finished with a failure.
    Failed,
    /// It has finished because it was canceled.
    Canceled,
}

impl Status {
    pub(super) const ALL: [Self; 6] = [
        Self::Running,
        Self::Paused,
        Self::Stuck,
        Self::Completed,
        Self::Failed,
        Self::Canceled,
    ];

    /// As it is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stuck => "stuck",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }

    /// True if nothing happens any more, unless it is restarted.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of an instance. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InstanceRecord {
    /// The workflow's name.
    pub workflow: String,
    /// The instance's id.
    pub id: String,
    /// Where it is.
    pub status: Status,
    /// How often it was started or restarted, or has continued as new.
    pub run: i64,
    /// Why it failed, was canceled, or is stuck.
    pub error: Option<String>,
    /// Why it is being canceled, if it is.
    pub cancel: Option<String>,
    /// The id of the instance whose child it is.
    pub parent: Option<String>,
    /// When it was started.
    pub created_at: i64,
    /// When its status last changed.
    pub updated_at: i64,
    /// When it ended.
    pub finished_at: Option<i64>,
}

/// The result of waiting for an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended<T> {
    /// Not yet.
    No,
    /// With a result.
    Completed(T),
    /// Without one.
    Failed(Failure),
}

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A function that is called until it succeeds.
    Step,
    /// A sleep.
    Sleep,
    /// A wait for an event.
    Event,
    /// Another instance.
    Child,
}

impl StepKind {
    /// As it is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Sleep => "sleep",
            Self::Event => "event",
            Self::Child => "child",
        }
    }
}

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// It was requested, and has not begun.
    New,
    /// An attempt is running.
    Running,
    /// It waits: for its next attempt, its time, its event or its child.
    Waiting,
    /// It has its result.
    Done,
    /// It has failed.
    Failed,
    /// It was canceled before it had a result.
    Canceled,
}

impl StepState {
    /// As it is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }
}

/// A step of an instance: its name, and which use of that name. `"poll"` is the first, `("poll", 2)` the second.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StepName {
    /// The name that the workflow gave it.
    pub name: String,
    /// Which use of the name it is, from 1.
    pub occurrence: u32,
}

impl From<&str> for StepName {
    fn from(name: &str) -> Self {
        (name, 1).into()
    }
}

impl From<&String> for StepName {
    fn from(name: &String) -> Self {
        name.as_str().into()
    }
}

impl From<(&str, u32)> for StepName {
    fn from((name, occurrence): (&str, u32)) -> Self {
        Self {
            name: name.to_owned(),
            occurrence,
        }
    }
}

impl From<&StepRecord> for StepName {
    fn from(step: &StepRecord) -> Self {
        (step.name.as_str(), step.occurrence).into()
    }
}

/// For people: two may look the same.
impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.occurrence {
            1 => f.write_str(&self.name),
            occurrence => write!(f, "{} ({occurrence})", self.name),
        }
    }
}

/// One entry of an instance's history. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepRecord {
    /// Its id; ids are in the order of requests.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// Which use of its name it is, from 1.
    pub occurrence: u32,
    /// Its kind.
    pub kind: StepKind,
    /// Its state.
    pub state: StepState,
    /// Attempts that have begun.
    pub attempts: u32,
    /// Its position in the order in which the workflow received results. A step with a result and without a position
    /// waits for its turn, or the workflow no longer waited for it.
    pub seq: Option<i64>,
    /// When it is retried, ends, or is given up.
    pub due: Option<i64>,
    /// The last error.
    pub error: Option<String>,
    /// What that means for the step.
    pub failure: Option<FailureKind>,
    /// When it was requested.
    pub asked_at: i64,
    /// When its last attempt began.
    pub started_at: Option<i64>,
    /// When it had its result, or when the workflow received it, if an earlier received result had a later time.
    pub finished_at: Option<i64>,
}

/// An instance as its directory lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The instance's id.
    pub id: String,
    /// Where it is.
    pub status: Status,
    /// Why it failed, was canceled, or is stuck.
    pub error: Option<String>,
    /// When it was started.
    pub created_at: i64,
    /// When its status last changed.
    pub updated_at: i64,
}

/// A time of an instance, by which instances are found and listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListBy {
    /// When it was started.
    #[default]
    Started,
    /// When its status last changed: when it ended, if it has.
    Changed,
}

/// A filter for listing instances, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Setters)]
#[non_exhaustive]
pub struct Filter {
    /// Only those with this status.
    #[setters(into)]
    pub status: Option<Status>,
    /// The time to which `from` and `before` refer, and by which the list is ordered.
    pub by: ListBy,
    /// Only those of this time or later, in milliseconds since 1970.
    #[setters(into)]
    pub from: Option<i64>,
    /// Only those of an earlier time.
    #[setters(into)]
    pub before: Option<i64>,
    /// Only those after this one in the list: [`Page::next`] of the page before, which was asked for by the same time.
    #[setters(into)]
    pub after: Option<(i64, String)>,
    /// At most this many; 0, or more than [`MAX_PAGE`](super::limits::MAX_PAGE), counts as that.
    pub limit: usize,
}

/// A page of instances, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Page {
    /// The instances.
    pub instances: Vec<Listed>,
    /// For [`Filter::after`], if there are more.
    pub next: Option<(i64, String)>,
}
