//! The life of a subscription: what a seed makes up, as a list that people can read.

use std::fmt;

use abide_harness::Random;

use crate::ledger::calendar::{DAY, HOUR, Length, MINUTE, SECOND};

/// What is sold.
#[derive(Debug)]
pub(crate) struct Price {
    pub(crate) id: &'static str,
    pub(crate) amount: i64,
    pub(crate) length: Length,
}

const fn price(id: &'static str, amount: i64, length: Length) -> Price {
    Price { id, amount, length }
}

/// How many prices have the same length.
const OF_A_LENGTH: u32 = 4;

const TEN_DAYS: Length = Length::Days(10);
const WEEK: Length = Length::Days(7);
const MONTH: Length = Length::Months(1);
const QUARTER: Length = Length::Months(3);
const YEAR: Length = Length::Months(12);

/// Those of a length stand together.
pub(crate) const PRICES: [Price; 20] = [
    price("price_m0", 0, MONTH),
    price("price_m1", 1_005, MONTH),
    price("price_m2", 1_999, MONTH),
    price("price_m3", 3_001, MONTH),
    price("price_w0", 1, WEEK),
    price("price_w1", 333, WEEK),
    price("price_w2", 701, WEEK),
    price("price_w3", 4_999, WEEK),
    price("price_d0", 0, TEN_DAYS),
    price("price_d1", 7, TEN_DAYS),
    price("price_d2", 1_001, TEN_DAYS),
    price("price_d3", 25_001, TEN_DAYS),
    price("price_q0", 0, QUARTER),
    price("price_q1", 2_501, QUARTER),
    price("price_q2", 9_999, QUARTER),
    price("price_q3", 30_000, QUARTER),
    price("price_y0", 3, YEAR),
    price("price_y1", 10_001, YEAR),
    price("price_y2", 99_999, YEAR),
    price("price_y3", 1_234_567, YEAR),
];

/// What a customer pays with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Card {
    /// It pays.
    Ok,
    /// It does not.
    Declined,
    /// Now and then.
    Flaky,
    /// Its owner has to prove who they are, and does, or does not, or does not come.
    Secured,
    /// It pays, or not, after hours or days.
    Slow,
    /// It is said not to have paid, and has.
    Late,
}

impl Card {
    pub(crate) const ALL: [Self; 6] = [
        Self::Ok,
        Self::Declined,
        Self::Flaky,
        Self::Secured,
        Self::Slow,
        Self::Late,
    ];

    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Ok => "card_ok",
            Self::Declined => "card_declined",
            Self::Flaky => "card_flaky",
            Self::Secured => "card_3ds",
            Self::Slow => "card_slow",
            Self::Late => "card_late",
        }
    }

    pub(crate) fn named(id: &str) -> Self {
        let named = Self::ALL.into_iter().find(|card| card.id() == id);
        named.unwrap_or(Self::Declined)
    }
}

/// A customer's request. Invoices are counted from the last one back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Pause,
    Resume,
    /// To a price, with a quantity or that of before.
    Change(usize, Option<u32>),
    CancelNow,
    CancelAtEnd,
    Keep,
    Void(u32),
    GiveUp(u32),
    Pay(u32),
    /// A credit note over this many hundredths of what is owed of an invoice.
    Reduce(u32, i64),
    /// A refund of this many hundredths of what is left of a payment.
    Refund(u32, i64, Refund),
}

/// Where the money of a refund goes, and whether a credit note says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refund {
    pub(crate) to_balance: bool,
    pub(crate) is_note: bool,
}

/// How a node ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Death {
    Kill,
    /// Power is lost; a seed says what the disk keeps.
    Power(u64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Time passes, and everything happens when it is due.
    Passes(i64),
    /// The same until this long after the next period has begun, or before it.
    ToBoundary(i64),
    /// The same until this many quarters of the period have passed.
    ToQuarter(i64),
    /// The clock jumps.
    Jumps(i64),
    /// Sets the clock back.
    SetBack(i64),
    /// The node dies, in the middle of what the next alarm does if it says so, and is away for a time.
    Dies(Death, bool, i64),
    /// The bank's calls fail for this long.
    BankIsAway(i64),
    Card(Card),
    /// The customer gives another card, and pays with it an invoice whose payment waits for them.
    Replaces(Card, u32),
    Calls(Call),
    /// The node dies in the middle of a call, after this many syncs.
    DiesIn(Call, u64, Death),
    /// The subscription is restored to what it was this many steps before.
    Restores(u32),
    /// The last restore is undone.
    Undoes,
    /// The subscription is copied, and the copy is activated, perhaps to continue.
    Forks(bool),
}

/// A life.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) seed: u64,
    /// Days and so on after the beginning of 2026 at which it begins.
    pub(crate) begins: i64,
    pub(crate) price: usize,
    pub(crate) quantity: u32,
    pub(crate) trial_days: u32,
    pub(crate) card: Card,
    pub(crate) steps: Vec<Step>,
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let price = &PRICES[self.price];
        writeln!(
            f,
            "seed {}: begins after {}, {} × {price:?}, {} days of trial, {:?}",
            self.seed,
            Span(self.begins),
            self.quantity,
            self.trial_days,
            self.card
        )?;
        self.steps
            .iter()
            .try_for_each(|step| writeln!(f, "  {step}"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Passes(time) => write!(f, "passes {}", Span(time)),
            Self::ToBoundary(time) => write!(f, "until a period begins, and {}", Span(time)),
            Self::Jumps(time) => write!(f, "the clock jumps by {}", Span(time)),
            Self::SetBack(time) => write!(f, "the clock is set back by {}", Span(time)),
            Self::Dies(death, midst, away) => {
                let when = if midst { " at the next alarm" } else { "" };
                write!(f, "{death:?}{when}, away for {}", Span(away))
            }
            Self::BankIsAway(time) => write!(f, "the bank is away for {}", Span(time)),
            Self::Card(card) => write!(f, "a new card: {card:?}"),
            Self::Replaces(card, back) => write!(
                f,
                "{card:?} takes the place of one that waits, {back} before"
            ),
            Self::Calls(call) => write!(f, "{call:?}"),
            Self::Restores(back) => write!(f, "is restored to {back} steps before"),
            Self::Undoes => write!(f, "the last restore is undone"),
            Self::Forks(continues) => {
                let how = if continues { "to continue" } else { "fresh" };
                write!(f, "is copied, and the copy is activated {how}")
            }
            step => write!(f, "{step:?}"),
        }
    }
}

/// A time that people can read.
struct Span(i64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let time = self.0.abs();
        let (days, hours) = (time / DAY, time % DAY / HOUR);
        let (minutes, millis) = (time % HOUR / MINUTE, time % MINUTE);
        write!(f, "{sign}{days}d {hours}h {minutes}m {millis}ms")
    }
}

impl Life {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice(Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let group = dice.below(5) * OF_A_LENGTH;
        let price = (group + dice.below(OF_A_LENGTH)) as usize;
        let steps = 6 + dice.below(40);
        Self {
            seed,
            begins: dice.day() * DAY + i64::from(dice.below(86_400)) * SECOND + 123,
            price,
            quantity: 1 + dice.below(4) * dice.below(4),
            trial_days: if dice.below(4) == 0 {
                1 + dice.below(20)
            } else {
                0
            },
            // Most begin.
            card: if dice.below(8) == 0 {
                dice.card()
            } else {
                Card::Ok
            },
            steps: (0..steps)
                .flat_map(|_| dice.steps(group, PRICES[price].length))
                .collect(),
        }
    }
}

struct Dice(Random);

impl Dice {
    fn below(&mut self, bound: u32) -> u32 {
        self.0.below(bound)
    }

    fn up_to(&mut self, time: i64) -> i64 {
        let seconds = u32::try_from(time / SECOND).unwrap();
        i64::from(self.below(seconds)) * SECOND + i64::from(self.below(1_000))
    }

    /// Any day, and often one that is not in each month.
    fn day(&mut self) -> i64 {
        let ends = [28, 29, 30, 88, 149, 150, 241, 364, 394, 395, 789, 790];
        match self.below(3) {
            0 => ends[self.below(12) as usize],
            _ => i64::from(self.below(800)),
        }
    }

    fn card(&mut self) -> Card {
        Card::ALL[self.below(6) as usize]
    }

    fn death(&mut self) -> Death {
        if self.below(2) == 0 {
            Death::Kill
        } else {
            Death::Power(u64::from(self.below(u32::MAX)))
        }
    }

    /// Seconds, hours, days, or about a period.
    fn time(&mut self, length: Length) -> i64 {
        let period = match length {
            Length::Days(days) => days * DAY,
            Length::Months(months) => months * 30 * DAY,
        };
        match self.below(8) {
            0 => self.up_to(5 * MINUTE),
            1 | 2 => self.up_to(DAY),
            3 | 4 => self.up_to(16 * DAY),
            5 => self.up_to(40 * DAY),
            _ => self.up_to(period * 3 / 2),
        }
    }

    /// How long a node is away: mostly not at all.
    fn away(&mut self, length: Length) -> i64 {
        match self.below(4) {
            0 => self.up_to(2 * DAY),
            1 => self.time(length),
            _ => 0,
        }
    }

    /// A step, or some that come to what is rare otherwise: a debt, or a payment, of which something is taken off.
    fn steps(&mut self, group: u32, length: Length) -> Vec<Step> {
        if self.below(8) > 0 {
            return vec![self.step(group, length)];
        }
        let is_debt = self.below(3) > 0;
        let bad = [
            Card::Declined,
            Card::Flaky,
            Card::Secured,
            Card::Slow,
            Card::Late,
        ];
        let card = if is_debt {
            bad[self.below(5) as usize]
        } else {
            Card::Ok
        };
        let mut steps = vec![
            Step::Card(card),
            Step::Calls(Call::Resume),
            Step::ToBoundary(1_500),
        ];
        for _ in 0..2 + self.below(3) {
            steps.push(match self.below(8) {
                0 => Step::Passes(self.up_to(4 * DAY)),
                1 => Step::ToQuarter(1 + i64::from(self.below(3))),
                2 if is_debt => Step::Replaces(self.card(), 0),
                2 | 3 => Step::Calls(self.call(group)),
                4 => Step::DiesIn(self.gives(), u64::from(self.below(6)), self.death()),
                5 if is_debt => Step::Calls(Call::Pay(0)),
                _ => Step::Calls(self.gives()),
            });
        }
        steps
    }

    /// Something is taken off a debt, or given back of a payment.
    fn gives(&mut self) -> Call {
        let part = [1, 30, 50, 100, 101][self.below(5) as usize];
        match self.below(2) {
            0 => Call::Reduce(self.below(2), part),
            _ => {
                let refund = Refund {
                    to_balance: self.below(2) == 0,
                    is_note: self.below(2) == 0,
                };
                Call::Refund(self.below(2), part.min(100), refund)
            }
        }
    }

    fn step(&mut self, group: u32, length: Length) -> Step {
        match self.below(32) {
            29 => Step::Restores(1 + self.below(8)),
            30 => Step::Undoes,
            31 => Step::Forks(self.below(2) == 0),
            28 => Step::Replaces(self.card(), self.below(2)),
            0..=5 => Step::Passes(self.time(length)),
            6 | 7 => Step::ToQuarter(1 + i64::from(self.below(3))),
            8 => Step::ToBoundary([-1, 0, 1, 1_500, -HOUR][self.below(5) as usize]),
            9 => Step::Jumps(self.time(length)),
            10 if self.below(2) == 0 => Step::SetBack(self.up_to(3 * DAY)),
            10 | 11 => Step::Dies(self.death(), self.below(2) == 0, self.away(length)),
            12 | 13 => Step::BankIsAway(self.up_to(10 * DAY)),
            14..=16 => Step::Card(self.card()),
            17 => Step::DiesIn(self.call(group), u64::from(self.below(6)), self.death()),
            _ => Step::Calls(self.call(group)),
        }
    }

    fn call(&mut self, group: u32) -> Call {
        match self.below(29) {
            24 => {
                // Often of another length.
                let price = self.below(u32::try_from(PRICES.len()).unwrap()) as usize;
                Call::Change(price, None)
            }
            25..=28 => self.gives(),
            0..=3 => Call::Pause,
            4..=7 => Call::Resume,
            8..=13 => {
                let price = (group + self.below(OF_A_LENGTH)) as usize;
                let quantity = (self.below(3) > 0).then(|| 1 + self.below(6));
                Call::Change(price, quantity)
            }
            14 if self.below(2) == 0 => Call::CancelNow,
            14 | 15 => Call::CancelAtEnd,
            16 | 17 => Call::Keep,
            18 | 19 => Call::Void(self.below(3)),
            20 => Call::GiveUp(self.below(2)),
            _ => Call::Pay(self.below(3)),
        }
    }
}
