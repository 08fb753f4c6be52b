//! `abide audit`: lists changes by operators, newest first.

use std::io::Write;

use anyhow::Result;
use clap::Args;

use crate::{
    data::{DataArgs, time},
    text::plain,
};

/// Rows read at a time.
const PAGE: usize = 1_000;

#[derive(Args)]
pub(crate) struct AuditArgs {
    /// Maximum number of rows
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,

    #[command(flatten)]
    data: DataArgs,
}

/// Prints a line for each operation, its columns separated by tabs.
pub(crate) fn run(args: &AuditArgs, out: &mut impl Write) -> Result<()> {
    let log = args.data.access()?;
    writeln!(out, "TIME\tWHO\tFROM\tACTION\tOBJECT\tOUTCOME\tDETAIL")?;
    let (mut before, mut left) = (None, args.limit);
    while left > 0 {
        let rows = log.audit(before, left.min(PAGE))?;
        let Some(last) = rows.last() else { break };
        before = Some(last.id);
        left -= rows.len();
        for row in rows {
            let operation = &row.operation;
            let or_none = |text: &Option<String>| text.as_deref().map_or("-".to_owned(), plain);
            writeln!(
                out,
                "{}\t{}\t{}\t{}\t{}\t{}\t{}",
                time(row.at),
                plain(&operation.who),
                plain(&operation.client),
                operation.action,
                or_none(&operation.object),
                plain(row.outcome.as_deref().unwrap_or("unknown")),
                or_none(&operation.detail),
            )?;
        }
    }
    Ok(())
}
