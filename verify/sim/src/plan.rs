//! The schedule of a simulation: data that a seed determines, and from which steps can be removed.
//!
//! Each step is self-contained, so removing one changes no other.

use std::fmt;

use clap::ValueEnum;

use crate::{
    bucket::Weather,
    classes::DeliveryOptions,
    history::{Act, ObjectNo, Op, OpId, SenderNo, SlateNo, SocketNo, Value},
    random::Random,
};

/// An operation on the node, or an event of its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A client sends an operation whose values are padded with this many bytes, and does not wait.
    Client(OpId, Op, u32),
    /// A client opens a WebSocket to an object.
    Open(SocketNo, ObjectNo),
    /// The client of a WebSocket sends a value. If there is no socket, it first opens one to an object.
    Say(SocketNo, ObjectNo, Value),
    /// The connection of a WebSocket breaks.
    Break(SocketNo),
    /// Everything that is ready runs this many times; nothing is written.
    Rounds(u32),
    /// Everything runs until nothing can, and a disk that is not slow writes.
    Settle,
    /// The log writes one group.
    Write,
    /// The store prepares segments and takes a checkpoint if one is due.
    Maintain,
    /// The store takes a checkpoint.
    Checkpoint,
    /// This many milliseconds pass.
    Pass(u32),
    /// The wall clock is set forward, or back, by this many milliseconds.
    Wall(i32),
    /// From now on the log is written only by explicit steps; or immediately again.
    Slow(bool),
    /// The disk has only this many bytes left.
    Full(u32),
    /// The disk has space again.
    Room,
    /// Syncs fail from now on, until the process has ended.
    FailSyncs,
    /// The next sync fails.
    FailSync,
    /// The process is killed.
    Kill,
    /// The machine loses power after this many more disk changes, and which unsynced writes survive depends on the
    /// number. With a second number of changes, it loses power again after that many changes of the recovery.
    PowerLoss(u32, u64, Option<u32>),
    /// The process is stopped cleanly and started again.
    Restart,
    /// The object store, or the way to it, changes.
    Store(Weather),
    /// Nothing but this many seconds of time: everything runs, is written and copied.
    Idle(u32),
    /// The machine is given up, and replaced by one with the newest copy, if there is one. Nothing if there is none.
    Lose {
        /// Its process runs on for a while, with its disk.
        runs_on: bool,
        /// The new one starts before it has everything.
        lazily: bool,
    },
    /// A client that does not know of the replacement sends an operation to a process that runs on. Nothing if none does.
    Stray(OpId, Op),
}

/// Whether a node copies its history to an object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copying {
    /// It does not.
    Off,
    /// It does.
    On,
    /// It does, and acknowledges nothing before it is copied.
    Awaited,
}

/// The configuration of a node and its machine, and the events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The seed of the node's randomness.
    pub seed: u64,
    /// Its focus.
    pub focus: Option<Focus>,
    /// Workers of the node.
    pub workers: usize,
    /// Objects.
    pub objects: ObjectNo,
    /// Objects with outboxes.
    pub senders: SenderNo,
    /// Objects with one value.
    pub slates: SlateNo,
    /// The delivery options of the outboxes.
    pub(crate) delivery_options: DeliveryOptions,
    /// Bytes of log after which a checkpoint begins.
    pub checkpoint_bytes: u64,
    /// Copies of its history.
    pub copying: Copying,
    /// The steps.
    pub steps: Vec<Step>,
}

/// The focus of a plan, to reach states sooner that only rare schedules reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Focus {
    /// Records of one size, checkpoints, power losses: log segments are recycled.
    Log,
    /// Alarms, and processes that end while they are firing.
    Alarms,
    /// WebSocket messages to objects that wait, are reset and are evicted.
    Sockets,
    /// Messages with one ordering key, some of which become dead letters.
    DeadLetters,
    /// Objects that are erased and leave memory, and later ones in their place.
    Slates,
    /// An object store that fails, and machines that are lost.
    Copies,
}

/// The features of a plan: each plan omits some, so that rare ones are combined often (Groce et al., "Swarm testing",
/// ISSTA 2012).
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a separate fact, in any combination"
)]
struct Swarm {
    full: bool,
    syncs: bool,
    slow: bool,
    clocks: bool,
    kills: bool,
    power: bool,
    restarts: bool,
    big: bool,
    sockets: bool,
    alarms: bool,
    outboxes: bool,
    wait: bool,
    slates: bool,
    focus: Option<Focus>,
}

impl Plan {
    /// The plan of a seed; half of the steps are about the focus, if there is one.
    pub fn new(seed: u64, focus: Option<Focus>) -> Self {
        let mut random = Random::new(seed);
        let objects = 1 + random.below(3) as ObjectNo;
        let workers = 1 + random.below(3) as usize;
        let checkpoint_bytes = 32 << (10 + random.below(5));
        let swarm = Swarm {
            full: random.one_in(4),
            syncs: random.one_in(4),
            slow: random.one_in(2),
            clocks: random.one_in(2),
            kills: random.one_in(2),
            power: !random.one_in(4),
            restarts: random.one_in(3),
            big: random.one_in(3),
            sockets: random.one_in(2),
            alarms: random.one_in(2),
            outboxes: random.one_in(3) || focus == Some(Focus::DeadLetters),
            wait: random.one_in(2) || focus == Some(Focus::DeadLetters),
            slates: random.one_in(2) || focus == Some(Focus::Slates),
            focus,
        };
        let count = 10 + random.below(50);
        let mut ops = 0;
        let mut steps: Vec<_> = (0..count)
            .map(|_| step(&mut random, &swarm, objects, &mut ops))
            .collect();
        let ticks = random.one_in(3);
        // With its own numbers: plans without copies are as they would be if there were none.
        let mut random = Random::new(!seed);
        let copying = match random.below(6) {
            0 => Copying::On,
            1 => Copying::Awaited,
            _ if focus != Some(Focus::Copies) => Copying::Off,
            number if number.is_multiple_of(2) => Copying::On,
            _ => Copying::Awaited,
        };
        if copying != Copying::Off {
            add_copies(&mut random, objects, &mut ops, &mut steps);
        }
        Self {
            seed,
            focus,
            workers,
            objects,
            senders: if swarm.outboxes { SENDERS } else { 0 },
            slates: if swarm.slates { SLATES } else { 0 },
            delivery_options: DeliveryOptions {
                wait: swarm.wait,
                ticks,
            },
            checkpoint_bytes,
            copying,
            steps,
        }
    }
}

impl Plan {
    /// The plan of a seed; half of all seeds have a focus, each in turn.
    pub fn varied(seed: u64) -> Self {
        let all = Focus::value_variants();
        let focus = all.get(seed as usize % (2 * all.len()));
        Self::new(seed, focus.copied())
    }

    /// The arguments of `abide-sim replay` for it.
    pub fn name(&self) -> String {
        let focus = self.focus.and_then(|focus| focus.to_possible_value());
        focus.map_or_else(
            || self.seed.to_string(),
            |focus| format!("{} --focus {}", self.seed, focus.get_name()),
        )
    }
}

/// WebSockets that clients have open at the same time.
const SOCKETS: u32 = 3;

/// Objects with outboxes, if there are any.
const SENDERS: SenderNo = 2;

/// Objects with one value, if there are any.
const SLATES: SlateNo = 2;

/// Values that one operation may have.
const VALUES: u32 = 16;

/// Values that one operation may append in a transaction.
const MOST: u32 = 4;

fn step(random: &mut Random, swarm: &Swarm, objects: ObjectNo, ops: &mut OpId) -> Step {
    if let Some(focus) = swarm.focus
        && random.one_in(2)
    {
        return focus.step(random, ops);
    }
    match random.below(100) {
        0..50 => {
            *ops += 1;
            let object = random.below(u32::from(objects)) as ObjectNo;
            let value = *ops * VALUES;
            if swarm.slates && random.one_in(6) {
                let slate = random.below(u32::from(SLATES)) as SlateNo;
                let op = match random.below(3) {
                    0 => Op::Erase(slate),
                    1 => Op::Look(slate),
                    _ => write(random, slate, value),
                };
                return Step::Client(*ops, op, pad(random, swarm.big));
            }
            if swarm.sockets && random.one_in(3) {
                let socket = random.below(SOCKETS);
                return match random.below(8) {
                    0 => Step::Open(socket, object),
                    1 if random.one_in(2) => Step::Break(socket),
                    _ => Step::Say(socket, object, value),
                };
            }
            if swarm.outboxes && random.one_in(2) {
                return Step::Client(*ops, post(random, value, swarm.wait), 0);
            }
            if swarm.alarms && random.one_in(4) {
                let op = if random.one_in(5) {
                    Op::Cancel(object, value)
                } else {
                    let most = [1_500, 1_500, 15_000][random.below(3) as usize];
                    let after = random.below(most);
                    Op::Alarm(
                        object,
                        [value, value + 1],
                        after,
                        random.below(6).saturating_sub(3),
                    )
                };
                return Step::Client(*ops, op, 0);
            }
            let op = match random.below(19) {
                0..5 => {
                    let count = 1 + random.below(MOST);
                    Op::Append(object, (value..value + count).collect())
                }
                5 | 6 => Op::Pair(object, [value, value + 1]),
                7..10 => Op::Read(object),
                10 => Op::Panic(object, value),
                16 => Op::Alone(object, [value, value + 1]),
                17 => Op::Refused(object, value),
                18 => Op::Twice(object, value),
                11..14 => {
                    let to = random.below(u32::from(objects)) as ObjectNo;
                    Op::Relay(object, value, to, value + 1)
                }
                _ => Op::Tell(object, [value, value + 1]),
            };
            Step::Client(*ops, op, pad(random, swarm.big))
        }
        50..62 => Step::Rounds(1 + random.below(8)),
        62..70 => Step::Settle,
        70..76 => Step::Write,
        76..78 => Step::Maintain,
        78..80 => Step::Checkpoint,
        80..84 => Step::Pass(match random.below(3) {
            0 => random.below(20_000),
            _ => random.below(1_500),
        }),
        84 | 85 if swarm.clocks => {
            let by = random.below(20_000).cast_signed();
            Step::Wall(if random.one_in(2) { by } else { -by })
        }
        86 | 87 if swarm.slow => Step::Slow(!random.one_in(3)),
        88 if swarm.full => Step::Full(match random.below(3) {
            0 => 0,
            1 => random.below(20_000),
            _ => random.below(1_000_000),
        }),
        89 if swarm.full => Step::Room,
        90 if swarm.syncs => Step::FailSyncs,
        98 if swarm.syncs => Step::FailSync,
        91 | 92 if swarm.kills => Step::Kill,
        93..97 if swarm.power => power_loss(random),
        97 if swarm.restarts => Step::Restart,
        _ => Step::Rounds(1),
    }
}

/// Adds steps that an object store makes possible: half as many.
fn add_copies(random: &mut Random, objects: ObjectNo, ops: &mut OpId, steps: &mut Vec<Step>) {
    let loses = !random.one_in(4);
    let fails = !random.one_in(4);
    for _ in 0..steps.len() / 2 {
        let at = random.below(steps.len() as u32 + 1) as usize;
        let step = match random.below(16) {
            0..6 => Step::Idle(1 + random.below(4)),
            6 => Step::Idle(random.below(40)),
            7..10 if fails => Step::Store(weather(random)),
            10 | 11 => Step::Store(Weather::Fine),
            12 if loses => Step::Lose {
                runs_on: random.one_in(2),
                lazily: random.one_in(2),
            },
            13 | 14 if loses => {
                *ops += 1;
                let object = random.below(u32::from(objects)) as ObjectNo;
                Step::Stray(*ops, Op::Append(object, vec![*ops * VALUES]))
            }
            _ => Step::Settle,
        };
        steps.insert(at, step);
    }
}

fn weather(random: &mut Random) -> Weather {
    match random.below(10) {
        0 => Weather::Slow,
        1 => Weather::Unreachable,
        2 => Weather::Busy,
        3 => Weather::Full,
        4 => Weather::Denied,
        _ => Weather::Rough,
    }
}

impl Focus {
    /// A step of the focus: all of them use the first object, or the first object with an outbox.
    fn step(self, random: &mut Random, ops: &mut OpId) -> Step {
        *ops += 1;
        let (id, value) = (*ops, *ops * VALUES);
        let client = |op| Step::Client(id, op, 0);
        match self {
            Self::Log => match random.below(8) {
                0..5 => client(Op::Append(0, vec![value])),
                5 => Step::Settle,
                6 => Step::Checkpoint,
                _ => power_loss(random),
            },
            Self::Alarms => match random.below(8) {
                0..2 => client(Op::Alarm(0, [value, value + 1], random.below(1_500), 0)),
                2..4 => Step::Pass(random.below(4_000)),
                4 => Step::Rounds(1 + random.below(4)),
                5 => Step::Write,
                6 => Step::Kill,
                _ => power_loss(random),
            },
            Self::Sockets => match random.below(16) {
                0 => Step::Open(random.below(2), 0),
                1..10 => Step::Say(random.below(2), 0, value),
                10 => client(Op::Alone(0, [value, value + 1])),
                11 | 12 => client(Op::Panic(0, value)),
                13 => Step::Pass(random.below(20_000)),
                _ => Step::Rounds(1),
            },
            Self::DeadLetters => match random.below(8) {
                0..6 => {
                    let acts = random.one_in(3).then_some(Act::Reject);
                    client(Op::Post(0, 0, value, Some(0), acts.into_iter().collect()))
                }
                6 => Step::Settle,
                _ => Step::Pass(random.below(1_500)),
            },
            Self::Slates => match random.below(16) {
                0..4 => Step::Client(id, write(random, 0, value), pad(random, true)),
                4..6 => client(Op::Erase(0)),
                6 => client(Op::Look(0)),
                7..10 => Step::Pass(random.below(4_000)),
                10 | 11 => Step::Settle,
                12 => Step::Rounds(1 + random.below(4)),
                13 => Step::Checkpoint,
                14 => Step::Kill,
                _ => power_loss(random),
            },
            Self::Copies => match random.below(16) {
                0..5 => client(Op::Append(0, vec![value])),
                5..9 => Step::Idle(1 + random.below(3)),
                9 => Step::Store(weather(random)),
                10 => Step::Store(Weather::Fine),
                11 => Step::Checkpoint,
                12 => Step::Kill,
                13 => Step::Stray(id, Op::Append(0, vec![value])),
                14 => Step::Settle,
                _ => Step::Lose {
                    runs_on: random.one_in(2),
                    lazily: random.one_in(2),
                },
            },
        }
    }
}

/// A write to a slate, which its alarm may erase.
fn write(random: &mut Random, slate: SlateNo, value: Value) -> Op {
    let after = random.one_in(4).then(|| random.below(3_000));
    Op::Write(slate, value + u32::from(random.one_in(3)), after)
}

/// The size of a value.
fn pad(random: &mut Random, big: bool) -> u32 {
    match random.below(8) {
        0 if big => random.below(40_000),
        0..3 => random.below(3_000),
        _ => random.below(100),
    }
}

fn power_loss(random: &mut Random) -> Step {
    let after = match random.below(3) {
        0 => 0,
        1 => random.below(4),
        _ => random.below(30),
    };
    let again = random.one_in(3).then(|| random.below(30));
    Step::PowerLoss(after, random.draw(), again)
}

/// An operation on an outbox. Dead letters are redriven only where their successors wait for them: elsewhere that would
/// reverse the order.
fn post(random: &mut Random, value: Value, wait: bool) -> Op {
    let from = random.below(u32::from(SENDERS)) as SenderNo;
    match random.below(16) {
        0 => Op::Reset(from),
        1 | 2 if wait => Op::Redrive(from),
        3 => Op::Circulate(from, (value..value + random.below(VALUES)).collect()),
        _ => {
            let key = random.one_in(2).then(|| random.below(2) as u8);
            Op::Post(from, random.below(3) as u8, value, key, acts(random))
        }
    }
}

/// How the receiver handles a message before it accepts it.
fn acts(random: &mut Random) -> Vec<Act> {
    let mut acts = Vec::new();
    for _ in 0..random.below(4) {
        match random.below(8) {
            0..2 => acts.push(Act::Refuse),
            2 => acts.push(Act::Throttle),
            3 => acts.push(Act::Hang),
            4 => acts.push(Act::Lose),
            5 => acts.push(Act::Panic),
            _ => {
                acts.push(Act::Accept);
                for _ in 0..random.below(3) {
                    acts.push(match random.below(3) {
                        0 => Act::Throttle,
                        1 => Act::Refuse,
                        _ => Act::Hang,
                    });
                }
                return acts;
            }
        }
    }
    if random.one_in(6) {
        acts.push(Act::Reject);
    }
    acts
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}: {} objects, {} workers, a checkpoint each {} KiB of log, copies {}",
            self.name(),
            self.objects,
            self.workers,
            self.checkpoint_bytes >> 10,
            match self.copying {
                Copying::Off => "off",
                Copying::On => "on",
                Copying::Awaited => "awaited",
            }
        )?;
        for (number, step) in self.steps.iter().enumerate() {
            writeln!(f, "{number:4}  {step:?}")?;
        }
        Ok(())
    }
}
