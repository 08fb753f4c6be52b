//! What a seed decides before a run begins.

use std::time::Duration;

use fastrand::Rng;

use abide_cluster::Reads;

/// The time in which things happen. Afterwards everything works, for [`CALM`].
pub const STORMY: Duration = Duration::from_mins(1);

/// In this time every shard must have an owner again that answers, and every log must be archived and removed.
pub const CALM: Duration = Duration::from_mins(1);

/// A cluster, and what happens to it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides everything else.
    pub seed: u64,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of shards.
    pub shards: u16,
    /// When replies may leave.
    pub reads: Reads,
    /// Whether a failover keeps everything that was confirmed.
    pub is_synchronous: bool,
    /// What happens, and when.
    pub events: Vec<(Duration, Trouble)>,
}

/// What happens to a cluster.
#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    /// A process is killed, and starts again after a time.
    Kill(usize, Duration),
    /// A process leaves the cluster, and starts again a while after it has ended.
    Leave(usize),
    /// A process is suspended for a time.
    Pause(usize, Duration),
    /// A node does not reach the database for a time.
    Cut(usize, Duration),
    /// The standby is not reached for a time.
    NoStandby(Duration),
    /// The waits for the standby are cancelled.
    CancelWaits,
    /// The standby becomes the primary.
    FailOver,
    /// A node gives a shard away.
    Move,
}

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let nodes = rng.usize(2..=4);
        let is_synchronous = rng.u8(..8) != 0;
        let reads = if rng.bool() {
            Reads::Leased
        } else {
            Reads::Confirmed
        };
        let count = rng.usize(1..=12);
        let events = (0..count).map(|_| {
            let at = Duration::from_millis(rng.u64(..STORMY.as_millis() as u64));
            (at, Trouble::draw(&mut rng, nodes))
        });
        let mut events: Vec<_> = events.collect();
        if rng.u8(..3) == 0 {
            // The standby is lost, waits for it are cancelled, and it becomes the primary without what they waited for.
            let at = Duration::from_millis(rng.u64(..STORMY.as_millis() as u64));
            let ms = Duration::from_millis;
            events.extend([
                (at, Trouble::NoStandby(ms(4_000))),
                (at + ms(rng.u64(..2_000)), Trouble::CancelWaits),
                (at + ms(rng.u64(2_000..4_000)), Trouble::FailOver),
            ]);
        }
        let shards = rng.u16(1..=6);
        Self {
            seed,
            nodes,
            shards,
            reads,
            is_synchronous,
            events,
        }
    }
}

impl Trouble {
    fn draw(rng: &mut Rng, nodes: usize) -> Self {
        let node = rng.usize(..nodes);
        let mut time = |most: u64| Duration::from_millis(rng.u64(100..most * 1_000));
        let (short, long) = (time(4), time(20));
        match rng.u8(..16) {
            0 | 1 => Self::Kill(node, short),
            2..=4 => Self::Pause(node, long),
            5 | 6 => Self::Cut(node, long),
            7 => Self::NoStandby(long),
            8 => Self::CancelWaits,
            9 | 10 => Self::FailOver,
            11 | 12 => Self::Leave(node),
            _ => Self::Move,
        }
    }
}
