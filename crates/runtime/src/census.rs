//! The activity of a worker, for a node that waits until it is idle.

/// How often a worker lets others go first before it reports: what is ready has run then.
pub(crate) const YIELDS: usize = 3;

/// The activity of one worker.
pub(crate) struct Census {
    /// How many turns its objects have had.
    pub(crate) turns: u64,
    /// The objects that do not rest, and why.
    pub(crate) busy: Vec<String>,
    /// Something of no particular object is on its way.
    pub(crate) is_moving: bool,
    /// The object that had the last turn.
    pub(crate) last: Option<String>,
}
