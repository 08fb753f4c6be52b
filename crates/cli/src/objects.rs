//! `abide objects list`: the contents of a data directory.

use std::io::Write;

use anyhow::Result;

use crate::data::DataArgs;

/// Prints a line for each object, its columns separated by tabs.
pub(crate) fn list(args: &DataArgs, out: &mut impl Write) -> Result<()> {
    let data = args.open()?;
    writeln!(out, "CLASS\tID\tNAME\tBYTES")?;
    for object in data.objects()? {
        let id = object.key.id_hex();
        match data
            .store
            .open_object(object.key)
            .and_then(|db| Ok((db.name()?, db.database_size()?)))
        {
            // Names come from clients; a control character must not reach a terminal.
            Ok((name, bytes)) => {
                let name =
                    name.map_or_else(|| "-".to_owned(), |name| name.escape_debug().to_string());
                writeln!(out, "{}\t{id}\t{name}\t{bytes}", object.class)?;
            }
            Err(error) => writeln!(out, "{}\t{id}\t-\t{error}", object.class)?,
        }
    }
    data.close()
}
