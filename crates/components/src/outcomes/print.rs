//! A printed replay.

use std::{collections::VecDeque, fmt::Write as _};

use abide::Result;

use super::{Entry, Machine, Until, chain::Chain, limits, reached::Reached, until::shown};
use abide_component::texts::cut;

impl Chain {
    /// The newest outcomes up to a position, with the state that each led to; then the machine. If the chain is
    /// damaged, the text ends by saying so.
    pub(super) fn print<M: Machine>(&self, until: Until) -> Result<String> {
        let mut reached = Reached::<M>::start(&self.schema);
        let mut lines = VecDeque::new();
        let mut left_out = 0;
        let replayed = self.replay(&mut reached, until, |entry, reached| {
            if lines.len() == limits::MAX_PRINTED {
                lines.pop_front();
                left_out += 1;
            }
            lines.push_back(line(entry, reached.state));
            Ok(())
        });
        let mut out = String::new();
        if left_out > 0 {
            let _ = writeln!(out, "{left_out} earlier outcomes are left out");
        }
        for line in lines {
            out.push_str(&line);
        }
        if let Err(error) = replayed {
            let _ = writeln!(out, "{error}");
            return Ok(out);
        }
        let machine =
            serde_json::to_string_pretty(&reached.machine).map_err(abide::Error::from_std)?;
        let _ = writeln!(
            out,
            "{} at outcome {}: {machine}",
            reached.state, reached.seq
        );
        Ok(out)
    }
}

fn line(entry: &Entry, state: &str) -> String {
    format!(
        "{:>6}  {:<24}  {} / {} -> {state}  {}\n",
        entry.seq,
        shown(entry.ts),
        entry.action,
        entry.outcome,
        cut(entry.json().to_owned(), limits::MAX_PRINTED_DATA)
    )
}
