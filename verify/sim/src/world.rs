//! A machine, its process, and its clients, on which a plan is executed.

use std::{collections::BTreeMap, time::Duration};

use abide::{
    clock::{Clock as _, TestClock},
    storage::SimDisk,
};

use crate::{
    bucket::Weather,
    client,
    copies::{Place, Unrestored, has_copy, restore},
    history::{Event, History, ObjectNo, Op, OpId, ProcessEnd, SocketNo},
    life::Life,
    machine::{HonestMachine, Machine},
    meanwhile,
    plan::{Plan, Step},
    receiver::Receiver,
    socket::Socket,
};

/// The time for everything to finish at the end, in steps.
const LAST_PASSES: u32 = 12;
const MAX_LAST_PASSES: u32 = 400;
const SOON: Duration = Duration::from_secs(90);
const LAST_PASS: Duration = Duration::from_secs(1);

/// The wait of an alarm that many processes have not survived.
const LONGEST_WAIT: Duration = Duration::from_hours(8);

/// Greater than the number of any operation of a plan.
const LAST_OPS: OpId = 1 << 24;

/// Executes a plan. Returns its history.
pub fn run(plan: &Plan) -> History {
    run_on(plan, &HonestMachine)
}

/// Executes a plan, on a machine that may lie.
pub fn run_on(plan: &Plan, machine: &dyn Machine) -> History {
    let history = History::default();
    let clock = TestClock::new();
    let place = match Place::new(plan.copying, plan.seed, &clock) {
        Ok(place) => place,
        Err(error) => panic!("no directory for the files of copies: {error}"),
    };
    if let Some(place) = &place {
        history.note(Event::Copies(place.is_awaited));
    }
    let mut world = World {
        plan,
        machine,
        history: history.clone(),
        clock,
        disk: SimDisk::new(),
        life: None,
        place,
        zombie: None,
        durable: 0,
        slow: false,
        capacity: None,
        power: None,
        sockets: BTreeMap::new(),
        opened: 0,
        receiver: Receiver::default(),
    };
    if world.begin() {
        for (number, step) in plan.steps.iter().enumerate() {
            if !world.step(number, step) {
                return history;
            }
        }
        world.finish();
    }
    history
}

struct World<'a> {
    plan: &'a Plan,
    machine: &'a dyn Machine,
    history: History,
    clock: TestClock,
    disk: SimDisk,
    life: Option<Life>,
    /// None without copies.
    place: Option<Place>,
    /// A process whose machine was given up.
    zombie: Option<Life>,
    /// The position up to which the log is known to be durable.
    durable: u64,
    slow: bool,
    capacity: Option<u64>,
    /// The scheduled power loss.
    power: Option<PowerLoss>,
    /// The clients' WebSockets of this life, by their number in the plan, with their unique numbers.
    sockets: BTreeMap<SocketNo, (SocketNo, Socket)>,
    opened: SocketNo,
    receiver: Receiver,
}

#[derive(Clone, Copy)]
struct PowerLoss {
    seed: u64,
    again: Option<u32>,
}

impl World<'_> {
    /// Starts the process, again if the machine loses power in the meantime. Returns false if the simulation is over.
    fn begin(&mut self) -> bool {
        loop {
            self.disk.set_capacity(self.capacity);
            match Life::begin(
                self.plan,
                self.machine,
                &self.disk,
                &self.clock,
                &self.history,
                &self.receiver,
                self.place.as_mut(),
            ) {
                Ok(life) => {
                    self.life = Some(life);
                    return true;
                }
                Err(_) if self.disk.has_stopped() => {
                    self.history.note(Event::Died(ProcessEnd::PowerLoss));
                    self.lose_power();
                }
                Err(_) if self.capacity.is_some() => self.capacity = None,
                // A directory with runs in the store is opened once the store answers.
                Err(_) if self.mend_store() => {}
                Err(error) => {
                    self.history.note(Event::Refused(error));
                    return false;
                }
            }
        }
    }

    /// Returns whether the store may have failed, and does no longer.
    fn mend_store(&self) -> bool {
        let place = self.place.as_ref();
        place.is_some_and(|place| place.bucket.set_weather(Weather::Fine) != Weather::Fine)
    }

    /// Replaces the disk by its state after a power loss.
    fn lose_power(&mut self) {
        let power = self.power.take();
        let seed = power.map_or(0, |power| power.seed);
        self.disk = self.disk.crash(seed);
        if let Some(again) = power.and_then(|power| power.again) {
            self.arm(again, seed.wrapping_add(1), None);
        }
    }

    fn arm(&mut self, after: u32, seed: u64, again: Option<u32>) {
        self.power = Some(PowerLoss { seed, again });
        self.disk
            .stop_at(self.disk.changes().saturating_add(u64::from(after)));
    }

    fn step(&mut self, number: usize, step: &Step) -> bool {
        let Some(life) = &self.life else { return false };
        match step {
            Step::Client(id, op, pad) => client::send(life, *id, op, *pad),
            Step::Open(at, object) => {
                self.sockets.remove(at);
                open(&mut self.sockets, &mut self.opened, life, *at, *object);
            }
            Step::Say(at, object, value) => {
                let (number, socket) =
                    open(&mut self.sockets, &mut self.opened, life, *at, *object);
                life.recorder
                    .note(Event::Said(*number, socket.object, *value));
                socket.say(*value);
            }
            Step::Break(at) => drop(self.sockets.remove(at)),
            Step::Rounds(count) => life.executor.rounds(*count),
            Step::Settle => life.settle(self.slow),
            Step::Write => {
                life.write_group();
            }
            // Their result is visible in their effects.
            Step::Maintain => meanwhile::beside(&life.executor, || {
                drop(life.node.store().run_maintenance());
            }),
            Step::Checkpoint => meanwhile::beside(&life.executor, || {
                drop(life.node.store().checkpoint());
            }),
            Step::Pass(millis) => self
                .clock
                .advance(Duration::from_millis(u64::from(*millis))),
            Step::Wall(millis) => {
                let now = self.clock.unix_millis().cast_signed();
                self.history.note(Event::Clock(now));
                self.clock.set_wall(i64::from(*millis));
            }
            Step::Slow(slow) => self.slow = *slow,
            Step::Full(left) => {
                self.capacity = Some(self.disk.used() + u64::from(*left));
                self.disk.set_capacity(self.capacity);
            }
            Step::Room => {
                self.capacity = None;
                self.disk.set_capacity(None);
            }
            Step::FailSyncs => self.disk.fail_syncs(true),
            Step::FailSync => self.disk.fail_sync(),
            Step::Store(weather) => {
                if let Some(place) = &self.place {
                    place.bucket.set_weather(*weather);
                }
            }
            Step::Idle(seconds) => {
                for _ in 0..*seconds {
                    life.idle(self.slow);
                    self.clock.advance(Duration::from_secs(1));
                    limp(&mut self.zombie);
                }
                life.idle(self.slow);
            }
            Step::Lose { runs_on, lazily } => {
                if !self.lose(*runs_on, *lazily) {
                    return false;
                }
            }
            Step::Stray(id, op) => {
                if let Some(zombie) = &self.zombie {
                    client::send(zombie, *id, op, 0);
                }
            }
            Step::Kill => {
                if !self.die(ProcessEnd::Kill) {
                    return false;
                }
            }
            Step::PowerLoss(after, seed, again) => self.arm(*after, *seed, *again),
            Step::Restart => {
                if !self.die(ProcessEnd::Stop) {
                    return false;
                }
            }
        }
        self.history
            .note(Event::Stepped(number as u32, self.disk.changes()));
        limp(&mut self.zombie);
        self.look_at_log();
        self.look()
    }

    /// Records how much of the log is durable, if there are copies.
    fn look_at_log(&mut self) {
        let Some(life) = self.life.as_ref().filter(|_| self.place.is_some()) else {
            return;
        };
        let durable = life.node.store().durable_here().get();
        if durable > self.durable {
            self.durable = durable;
            self.history.note(Event::Durable(durable));
        }
    }

    /// Gives the machine up for one with the newest copy.
    fn lose(&mut self, runs_on: bool, lazily: bool) -> bool {
        let Some(place) = &mut self.place else {
            return true;
        };
        if !has_copy(place) {
            return true;
        }
        let Some(life) = self.life.take() else {
            return false;
        };
        self.sockets.clear();
        if let Some(zombie) = self.zombie.take() {
            zombie.end();
        }
        self.history.note(Event::Died(ProcessEnd::Loss));
        if runs_on && place.is_awaited {
            self.history.give_up();
        } else {
            self.history.next_life();
        }
        if runs_on {
            self.zombie = Some(life);
        } else {
            life.end();
        }
        match restore(place, lazily, || limp(&mut self.zombie)) {
            Ok(disk) => self.disk = disk,
            // Nothing is promised of the rest.
            Err(Unrestored::Incomplete) => return false,
            Err(Unrestored::Failed(error)) => {
                self.history.note(Event::Refused(error));
                return false;
            }
        }
        self.power = None;
        self.capacity = None;
        self.begin()
    }

    /// Ends the process if its machine or its log has failed.
    fn look(&mut self) -> bool {
        // It does not start again.
        if let Some(why) = self.life.as_ref().and_then(Life::superseded) {
            self.history.note(Event::Failed(why));
            return false;
        }
        // The next life may immediately fail in the same way.
        loop {
            let death = match &self.life {
                Some(_) if self.disk.has_stopped() => ProcessEnd::PowerLoss,
                Some(life) if life.has_failed() => ProcessEnd::Failure,
                Some(_) => return true,
                None => return false,
            };
            if !self.die(death) {
                return false;
            }
        }
    }

    /// Ends this life and begins the next.
    fn die(&mut self, death: ProcessEnd) -> bool {
        let Some(life) = self.life.take() else {
            return false;
        };
        self.sockets.clear();
        if death == ProcessEnd::Stop {
            let disk = life.disk.clone();
            if let Err(error) = life.stop(&self.clock)
                && !disk.has_stopped()
                && self.capacity.is_none()
                && !disk.syncs_fail()
            {
                self.history.note(Event::Failed(error));
                return false;
            }
            self.history.note(Event::Died(death));
            self.history.next_life();
            if disk.has_stopped() {
                self.lose_power();
            } else if disk.syncs_fail() {
                self.disk = disk.crash(disk.changes());
            }
            // Otherwise the disk is unchanged: a lock that was not released would be noticed.
            return self.begin();
        }
        self.history.note(Event::Died(death));
        self.history.next_life();
        match death {
            ProcessEnd::PowerLoss => self.lose_power(),
            // Data that a failed sync has not written is lost with the machine's power, or stays in its cache, where
            // the next life finds it.
            ProcessEnd::Failure => {
                if !life.disk.syncs_fail() {
                    self.history
                        .note(Event::Failed("the node failed without a cause".to_owned()));
                }
                let changes = self.disk.changes();
                self.disk = if changes.is_multiple_of(2) {
                    self.disk.crash(changes)
                } else {
                    self.disk.after_kill()
                };
                self.power = None;
            }
            ProcessEnd::Kill | ProcessEnd::Stop | ProcessEnd::Loss => {
                self.disk = self.disk.after_kill();
                self.power = None;
            }
        }
        life.end();
        self.begin()
    }

    /// Gives everything time on a healthy disk, then reads the state; after a last power loss it must be the same.
    fn finish(&mut self) {
        self.heal();
        if !self.rest() {
            return;
        }
        self.erase_some();
        if !self.rest() {
            return;
        }
        self.read_all();
        if !self.rest() {
            return;
        }
        for id in self.history.unanswered() {
            self.history.note(Event::Hangs(id));
        }
        self.find_slates();
        self.last_checkpoint();
        self.find_slates();
        self.history.note(Event::Disk(self.disk.digest()));
        if !self.end_machine() {
            return;
        }
        self.find_slates();
        let Some(life) = &self.life else { return };
        for slate in 0..self.plan.slates {
            client::look_at_slate(life, slate);
        }
        for object in 0..self.plan.objects {
            client::look(life, object);
        }
        for sender in 0..self.plan.senders {
            client::look_at_outbox(life, sender);
        }
        life.settle(false);
        if self.place.is_some() {
            // What a start has found is released once it is copied.
            self.rest();
        }
    }

    /// The power fails, or the machine is lost after everything was copied.
    fn end_machine(&mut self) -> bool {
        if self.place.is_some() && self.plan.seed.is_multiple_of(2) {
            return self.rest() && self.lose(false, self.plan.seed.is_multiple_of(4));
        }
        self.power = Some(PowerLoss {
            seed: self.plan.seed,
            again: None,
        });
        self.die(ProcessEnd::PowerLoss)
    }

    fn heal(&mut self) {
        self.slow = false;
        self.capacity = None;
        self.disk.set_capacity(None);
        self.disk.stop_at(u64::MAX);
        self.power = None;
        if let Some(place) = &self.place {
            place.bucket.set_weather(Weather::Fine);
        }
        self.history.note(Event::Healed);
    }

    fn rest(&mut self) -> bool {
        for pass in 0..MAX_LAST_PASSES {
            let Some(life) = &self.life else { return false };
            life.settle(false);
            let mut time = LAST_PASS;
            if pass >= LAST_PASSES && !life.alarm_within(SOON) && !life.is_behind() {
                match life.next_retry() {
                    Some(wait) if wait <= LONGEST_WAIT => time = wait,
                    _ => break,
                }
            }
            drop(life.node.store().run_maintenance());
            self.clock.advance(time);
            limp(&mut self.zombie);
            self.look_at_log();
            if !self.look() {
                return false;
            }
        }
        true
    }

    fn read_all(&self) {
        let Some(life) = &self.life else { return };
        let reads = (0..self.plan.objects).map(Op::Read);
        let looks = (0..self.plan.slates).map(Op::Look);
        for (op, id) in reads.chain(looks).zip(LAST_OPS..) {
            client::send(life, id, &op, 0);
        }
    }

    /// Erases each slate in half of all plans.
    fn erase_some(&self) {
        let Some(life) = &self.life else { return };
        for slate in 0..self.plan.slates {
            if (self.plan.seed >> slate).is_multiple_of(2) {
                let id = LAST_OPS - 1 - OpId::from(slate);
                client::send(life, id, &Op::Erase(slate), 0);
            }
        }
    }

    /// Removes the files of slates that have ended.
    fn last_checkpoint(&self) {
        let Some(life) = &self.life else { return };
        if self.plan.slates > 0
            && let Err(error) = life.node.store().checkpoint()
            && !self.disk.syncs_fail()
        {
            self.history.note(Event::Failed(error.to_string()));
        }
    }

    fn find_slates(&self) {
        let Some(life) = &self.life else { return };
        for slate in 0..self.plan.slates {
            if let Err(error) = client::find(life, slate) {
                self.history.note(Event::Failed(error.to_string()));
            }
        }
    }
}

impl Drop for World<'_> {
    /// The parts of a node reference each other until they are stopped, and its events are no longer observed.
    fn drop(&mut self) {
        self.sockets.clear();
        self.history.next_life();
        for life in self.life.take().into_iter().chain(self.zombie.take()) {
            life.end();
        }
    }
}

/// A process whose machine was given up runs on, until it notices.
fn limp(zombie: &mut Option<Life>) {
    let Some(life) = zombie else { return };
    life.idle(false);
    if life.has_failed()
        && let Some(life) = zombie.take()
    {
        life.end();
    }
}

/// The WebSocket with this number in the plan; a new one to the object if there is none, or its connection has ended.
fn open<'a>(
    sockets: &'a mut BTreeMap<SocketNo, (SocketNo, Socket)>,
    opened: &mut SocketNo,
    life: &Life,
    at: SocketNo,
    object: ObjectNo,
) -> &'a (SocketNo, Socket) {
    if sockets
        .get(&at)
        .is_some_and(|(_, socket)| socket.is_closed())
    {
        sockets.remove(&at);
    }
    sockets.entry(at).or_insert_with(|| {
        *opened += 1;
        (*opened, Socket::open(life, *opened, object))
    })
}
