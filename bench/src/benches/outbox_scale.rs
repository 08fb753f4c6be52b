//! (l) The cost of single operations of an outbox with very many rows. It should be the same as without the rows.

use std::{path::Path, thread::sleep, time::Instant};

use anyhow::Result;
use clap::Args;

use crate::{
    context::Context,
    figures,
    ours::backlog::{Act, Backlogs, Fate, Pile},
    report::{Measurement, Unit, micros},
};

#[derive(Args)]
pub(crate) struct Options {
    /// How many rows each outbox has.
    #[arg(long, default_value_t = 100_000)]
    rows: usize,
}

/// Messages whose mean time is taken.
const SAMPLE: usize = 1_000;
/// Times that an act is done; the median counts.
const TIMES: usize = 9;

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    if !context.wants_ours() {
        return Ok(());
    }
    let dir = context.fresh_dir("ours")?;
    let mut scale = Scale {
        context,
        rows: options.rows,
        backlogs: Backlogs::start(&dir)?,
    };
    scale.later()?;
    scale = scale.open(&dir)?;
    scale.paused()?;
    scale.dead()?;
    scale.ordered()?;
    scale.backlogs.shutdown()
}

struct Scale<'a> {
    context: &'a Context,
    rows: usize,
    backlogs: Backlogs,
}

const LATER: Pile = Pile {
    count: 0,
    fate: Fate::Taken,
    later: true,
    ordered: false,
};

impl Scale<'_> {
    fn print(&self, what: &str, rows: usize, micros: f64) -> Result<()> {
        let name = format!("outbox-scale/{what}/rows={rows}");
        let disk = self.context.probe()?;
        self.context
            .print(&Measurement::new(name, Unit::Microseconds, disk).ours(micros));
        Ok(())
    }

    fn median(mut act: impl FnMut() -> Result<f64>) -> Result<f64> {
        let times: Vec<[f64; 1]> = (0..TIMES)
            .map(|_| act().map(|time| [time]))
            .collect::<Result<_>>()?;
        Ok(figures::medians(&times).map_or(0.0, |[median]| median))
    }

    /// Actions independent of the number of rows.
    fn acts(&self, name: &str, rows: usize) -> Result<()> {
        let sample = Pile {
            count: SAMPLE,
            ..LATER
        };
        self.print("enqueue", rows, self.backlogs.grow(name, &sample)?)?;
        self.print(
            "attempt",
            rows,
            Self::median(|| self.backlogs.attempt(name))?,
        )?;
        let middle = i64::try_from(rows / 2 + SAMPLE / 2)?;
        for (what, act) in [
            ("counts", Act::Counts),
            ("first-page", Act::FirstPage),
            ("page-in-the-middle", Act::PageBefore(middle)),
        ] {
            self.print(what, rows, Self::median(|| self.backlogs.time(name, act))?)?;
        }
        Ok(())
    }

    /// Rows that are not due.
    fn later(&self) -> Result<()> {
        self.acts("empty", 0)?;
        let pile = Pile {
            count: self.rows,
            ..LATER
        };
        self.backlogs.grow("later", &pile)?;
        self.acts("later", self.rows)
    }

    /// The first call of an outbox that holds nothing, and of one with all rows, after a restart.
    fn open(mut self, dir: &Path) -> Result<Self> {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..TIMES {
            self.backlogs.shutdown()?;
            self.backlogs = Backlogs::start(dir)?;
            for (name, times) in ["empty", "later"].into_iter().zip(&mut times) {
                let begun = Instant::now();
                self.backlogs.time(name, Act::Counts)?;
                times.push([micros(begun.elapsed())]);
            }
        }
        for (rows, times) in [0, self.rows].into_iter().zip(&times) {
            let median = figures::medians(times).map_or(0.0, |[median]| median);
            self.print("open", rows, median)?;
        }
        Ok(self)
    }

    /// Rows to one destination that is paused, and an attempt at another.
    fn paused(&self) -> Result<()> {
        let pile = |count| Pile {
            count,
            fate: Fate::Paused,
            later: false,
            ordered: false,
        };
        self.backlogs.grow("paused", &pile(1))?;
        // Its first attempt has paused the destination when another's has come after it.
        self.backlogs.attempt("paused")?;
        self.backlogs.attempt("paused")?;
        self.backlogs.grow("paused", &pile(self.rows))?;
        let time = Self::median(|| self.backlogs.attempt("paused"))?;
        self.print("attempt-beside-a-pause", self.rows, time)
    }

    /// Dead letters.
    fn dead(&self) -> Result<()> {
        let pile = Pile {
            count: self.rows,
            fate: Fate::Refused,
            later: false,
            ordered: false,
        };
        self.backlogs.grow("dead", &pile)?;
        self.backlogs.wait("dead", 0)?;
        let time = self.backlogs.time("dead", Act::RedriveThousand)?;
        self.print("redrive-1000", self.rows, time)
    }

    /// Rows with one ordering key: the first of them blocks all others.
    fn ordered(&self) -> Result<()> {
        let pile = |count, later| Pile {
            count,
            fate: Fate::Taken,
            later,
            ordered: true,
        };
        self.backlogs.grow("ordered", &pile(1, true))?;
        self.backlogs.grow("ordered", &pile(self.rows, false))?;
        let mean = self.backlogs.grow("ordered", &pile(SAMPLE, false))?;
        self.print("enqueue-one-key", self.rows, mean)?;
        self.backlogs.time("ordered", Act::CancelFirst)?;
        sleep(self.context.warm_up());
        let (before, begun) = (self.backlogs.taken(), Instant::now());
        sleep(self.context.slice());
        let count = self.backlogs.taken() - before;
        let each = begun.elapsed().as_secs_f64() * 1e6 / count.max(1) as f64;
        self.print("deliver-one-key", self.rows, each)
    }
}
