//! A look at an update before `yrs` integrates it.
//!
//! `yrs` trusts what is in an update. It reserves memory for as many things as the bytes announce, adds clocks without looking for an
//! overflow, calls itself for each level of a value, and keeps what depends on blocks that it does not have. What comes from here
//! has no count beyond its length, no clock beyond 32 bits, no value deeper than [`MAX_DEPTH`], and depends on nothing but what the
//! document has and what is in the update itself. The rest of an update is cut off; its client has it and is asked again.
//!
//! The format is that of `Y.encodeStateAsUpdate` (version 1), read as `yrs` reads it.

use std::collections::BTreeMap;

use super::{
    lib0::{Malformed, Reader},
    limits::{MAX_CUT_ROUNDS, MAX_DEPTH},
};

const HAS_LEFT: u8 = 0b1000_0000;
const HAS_RIGHT: u8 = 0b0100_0000;
const HAS_KEY: u8 = 0b0010_0000;
const GC: u8 = 0;
const SKIP: u8 = 10;
const XML_ELEMENT: u64 = 3;

/// A client, and a place on its clock.
pub(super) type Id = (u64, u32);

/// An update that was checked, without what depends on blocks that the document does not have.
#[derive(Debug)]
pub(super) struct Inspected<'a> {
    pub(super) update: &'a [u8],
    pub(super) runs: Vec<Run<'a>>,
    /// How many blocks of each run can be applied.
    pub(super) kept: Vec<usize>,
    /// Deleted ranges: a client, the first clock, and the length.
    pub(super) deletions: Vec<(u64, u32, u32)>,
    /// Whether something was left out.
    pub(super) is_cut: bool,
    /// Nested types: lists, maps, texts and elements that are not roots.
    pub(super) nested_types: u64,
}

/// The blocks of a client, one after the other.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) client: u64,
    pub(super) start: u32,
    pub(super) blocks: Vec<Block<'a>>,
}

#[derive(Debug)]
pub(super) struct Block<'a> {
    pub(super) bytes: &'a [u8],
    /// The client's clock after it.
    pub(super) end: u32,
    /// What it stands between, and what it is in.
    pub(super) needs: [Option<Id>; 3],
    is_skip: bool,
}

impl Run<'_> {
    /// The client's clock after this many blocks.
    pub(super) fn end_of(&self, kept: usize) -> u32 {
        kept.checked_sub(1)
            .map_or(self.start, |last| self.blocks[last].end)
    }
}

/// Checks an update for a document that has each client's blocks up to the clock that `known` tells.
pub(super) fn inspect(
    update: &[u8],
    known: impl Fn(u64) -> u32,
) -> Result<Inspected<'_>, Malformed> {
    let mut nested_types = 0;
    let reader = &mut Reader::new(update);
    let mut runs = Vec::new();
    let mut ends = BTreeMap::new();
    for _ in 0..reader.count(3)? {
        let run = run(reader, &mut nested_types)?;
        let end = run.end_of(run.blocks.len());
        if ends.insert(run.client, end).is_some() {
            return Err(Malformed);
        }
        runs.push(run);
    }
    let deletions = deletions(reader)?;
    let has = |ends: &BTreeMap<u64, u32>, client: u64| {
        let end = ends.get(&client).copied().unwrap_or(0);
        end.max(known(client))
    };
    let mut kept: Vec<usize> = runs.iter().map(|run| run.blocks.len()).collect();
    let mut rounds = 0;
    loop {
        let mut is_settled = true;
        for (run, kept) in runs.iter().zip(&mut kept) {
            let fits = |block: &Block<'_>| {
                let mut needs = block.needs.iter().flatten();
                !block.is_skip && needs.all(|&(client, clock)| clock < has(&ends, client))
            };
            let gap = run.start > known(run.client);
            let fitting = if gap {
                0
            } else {
                let blocks = &run.blocks[..*kept];
                blocks
                    .iter()
                    .position(|block| !fits(block))
                    .unwrap_or(*kept)
            };
            if fitting < *kept || (gap && *kept > 0) {
                *kept = fitting;
                is_settled = false;
            }
            let end = if gap { 0 } else { run.end_of(*kept) };
            ends.insert(run.client, end);
        }
        if is_settled {
            break;
        }
        rounds += 1;
        if rounds == MAX_CUT_ROUNDS {
            // Only an update that was crafted to take long needs more rounds: nothing of it is applied.
            return Ok(Inspected {
                update,
                runs: Vec::new(),
                kept: Vec::new(),
                deletions: Vec::new(),
                is_cut: true,
                nested_types: 0,
            });
        }
    }
    let is_whole = runs
        .iter()
        .zip(&kept)
        .all(|(run, kept)| *kept == run.blocks.len());
    let clipped = |&(client, from, length): &(u64, u32, u32)| {
        let length = length.min(has(&ends, client).saturating_sub(from));
        (client, from, length)
    };
    let known: Vec<_> = deletions.iter().map(clipped).collect();
    Ok(Inspected {
        update,
        is_cut: !is_whole || known != deletions,
        runs,
        kept,
        deletions: known,
        nested_types,
    })
}

/// A state vector: what a client has.
pub(super) fn state_vector(bytes: &[u8]) -> Result<(), Malformed> {
    let reader = &mut Reader::new(bytes);
    for _ in 0..reader.count(2)? {
        reader.client()?;
        reader.small()?;
    }
    Ok(())
}

fn run<'a>(reader: &mut Reader<'a>, nested_types: &mut u64) -> Result<Run<'a>, Malformed> {
    let count = reader.number()?;
    let client = reader.client()?;
    let start = reader.small()?;
    let mut clock = start;
    let mut blocks = Vec::new();
    // Each takes at least one byte, so the bytes run out before memory does.
    for _ in 0..count {
        let block = block(reader, (client, clock), nested_types)?;
        clock = block.end;
        blocks.push(block);
    }
    Ok(Run {
        client,
        start,
        blocks,
    })
}

fn deletions(reader: &mut Reader<'_>) -> Result<Vec<(u64, u32, u32)>, Malformed> {
    let mut all = Vec::new();
    for _ in 0..reader.count(2)? {
        let client = reader.client()?;
        for _ in 0..reader.count(2)? {
            let (from, length) = (reader.small()?, reader.small()?);
            from.checked_add(length).ok_or(Malformed)?;
            all.push((client, from, length));
        }
    }
    Ok(all)
}

fn block<'a>(
    reader: &mut Reader<'a>,
    at: Id,
    nested_types: &mut u64,
) -> Result<Block<'a>, Malformed> {
    let begin = *reader;
    let info = reader.byte()?;
    let mut needs = [None; 3];
    let length = if info == GC || info == SKIP {
        reader.small()?
    } else {
        if info & HAS_LEFT != 0 {
            needs[0] = Some(id(reader)?);
        }
        if info & HAS_RIGHT != 0 {
            needs[1] = Some(id(reader)?);
        }
        if info & (HAS_LEFT | HAS_RIGHT) == 0 {
            if reader.small()? == 1 {
                reader.text()?;
            } else {
                needs[2] = Some(id(reader)?);
            }
            if info & HAS_KEY != 0 {
                reader.text()?;
            }
        }
        content(reader, info & 0b1111, nested_types)?
    };
    // No block depends on a later block of its own client.
    let is_later = |id: &&Id| id.0 == at.0 && id.1 >= at.1;
    if needs.iter().flatten().any(|id| is_later(&id)) {
        return Err(Malformed);
    }
    Ok(Block {
        bytes: begin.until(reader),
        end: at.1.checked_add(length).ok_or(Malformed)?,
        needs,
        is_skip: info == SKIP,
    })
}

/// What a block holds; how far it moves its client's clock.
fn content(reader: &mut Reader<'_>, kind: u8, nested_types: &mut u64) -> Result<u32, Malformed> {
    match kind {
        // Deleted.
        1 => return reader.small(),
        // JSON of early versions: `yrs` reads one text more than is announced.
        2 => {
            let texts = reader.count(1)? + 1;
            for _ in 0..texts {
                reader.text()?;
            }
            return u32::try_from(texts).map_err(|_| Malformed);
        }
        // Bytes.
        3 => drop(reader.bytes()?),
        // Text, which is counted as JavaScript does.
        4 => {
            let units = reader.text()?.encode_utf16().count();
            return u32::try_from(units).map_err(|_| Malformed);
        }
        // What is embedded in a text, as JSON, whose depth its parser bounds.
        5 => drop(reader.text()?),
        // A format: its name, and its value as JSON.
        6 => {
            reader.text()?;
            reader.text()?;
        }
        7 => {
            if reader.number()? == XML_ELEMENT {
                reader.text()?;
            }
            *nested_types += 1;
        }
        8 => {
            let values = reader.count(1)?;
            for _ in 0..values {
                any(reader, 0)?;
            }
            return u32::try_from(values).map_err(|_| Malformed);
        }
        // A document within: its name and options.
        9 => {
            reader.text()?;
            any(reader, 0)?;
        }
        _ => return Err(Malformed),
    }
    Ok(1)
}

fn any(reader: &mut Reader<'_>, depth: usize) -> Result<(), Malformed> {
    if depth > MAX_DEPTH {
        return Err(Malformed);
    }
    match reader.byte()? {
        // Undefined, null, false, true.
        127 | 126 | 121 | 120 => {}
        // An integer: seven bits a byte after the first, which has its sign.
        125 => while reader.byte()? >= 0x80 {},
        124 => drop(reader.take(4)?),
        123 | 122 => drop(reader.take(8)?),
        119 => drop(reader.text()?),
        118 => {
            for _ in 0..reader.count(2)? {
                reader.text()?;
                any(reader, depth + 1)?;
            }
        }
        117 => {
            for _ in 0..reader.count(1)? {
                any(reader, depth + 1)?;
            }
        }
        116 => drop(reader.bytes()?),
        _ => return Err(Malformed),
    }
    Ok(())
}

fn id(reader: &mut Reader<'_>) -> Result<Id, Malformed> {
    Ok((reader.client()?, reader.small()?))
}
