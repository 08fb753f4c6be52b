//! Copies of a node's history in an object store: `abide history`, `abide restore --from`, `abide verify --from`.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Once},
};

use abide::{
    history::{self, Download, Manifest, Seal, TailCopy},
    server::{HistoryContent, HistoryPlace, access::AccessStore},
    storage::{RealDisk, StoreOptions},
};
use abide_storage::{RestoreOptions, RestoreProgress, restore_directory};
use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use tokio::runtime::{Builder, Runtime};

use crate::{
    data::{DataArgs, audited, time},
    meter::Meter,
    standby::{Held, Standby, must_be_no_data_directory},
    verify,
};

/// Manifests that `abide history` lists.
const LISTED: usize = 20;

/// Where a copy is.
#[derive(Args)]
pub(crate) struct PlaceArgs {
    /// URL of the store with the copies: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX` or `file:///DIRECTORY`
    #[arg(long, value_name = "URL")]
    from: Option<String>,

    /// How the store is reached, such as region=eu-central-1; see the setting archive.options
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = pair)]
    options: Vec<(String, String)>,

    /// File with the key of encrypted copies; see the setting `archive.key_file`
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

#[derive(Args)]
#[allow(clippy::struct_excessive_bools, reason = "they are options")]
pub(crate) struct CopyArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// Number of the copy, as `abide history` lists it [default: the newest]
    #[arg(long, value_name = "NUMBER", requires = "from")]
    manifest: Option<u64>,

    /// The node of the copy is gone, and this directory continues for it
    #[arg(long, requires = "from", conflicts_with = "inspect")]
    take_over: bool,

    /// Restore what there is, although some objects are not in the copy
    #[arg(long, requires = "from")]
    incomplete: bool,

    /// The directory is for commands only: no node serves it, so nothing is sent twice
    #[arg(long, requires = "from")]
    inspect: bool,

    /// Nothing is downloaded but the rest of the log: objects get their files when they are needed, and in the background, once a node serves the directory with archive.url
    #[arg(
        long,
        requires = "from",
        conflicts_with = "at",
        conflicts_with = "incomplete"
    )]
    lazy: bool,
}

#[derive(Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// Instead, give up the history of this data directory that is in a lost store alone; no node may run
    #[arg(long, conflicts_with_all = ["from", "options", "key_file"])]
    give_up_remote: bool,

    #[command(flatten)]
    data: DataArgs,
}

#[derive(Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    place: PlaceArgs,

    #[command(flatten)]
    data: DataArgs,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=');
    let (name, value) = pair.ok_or("expected NAME=VALUE, such as region=eu-central-1")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl PlaceArgs {
    /// The place of these options; what they do not say is in the settings.
    pub(crate) fn find(&self, data: &DataArgs) -> Result<HistoryPlace> {
        let mut archive = data.config()?.archive;
        if let Some(url) = &self.from {
            archive.url = Some(url.clone());
        }
        if !self.options.is_empty() {
            archive.options.0.clone_from(&self.options);
        }
        if let Some(path) = &self.key_file {
            archive.key_file = Some(path.clone());
        }
        let place = HistoryPlace::of(&archive)?;
        let place =
            place.context("name the store with --from URL, or in the settings with archive.url")?;
        if let Some(warning) = place.warning() {
            // A command may look for its place several times.
            static WARNED: Once = Once::new();
            WARNED.call_once(|| eprintln!("warning: {warning}"));
        }
        Ok(place)
    }
}

pub(crate) fn runtime() -> Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    Ok(builder.worker_threads(2).enable_all().build()?)
}

fn content(manifest: &Manifest) -> Result<HistoryContent> {
    let content = manifest
        .content
        .as_deref()
        .context("the copy is not complete")?;
    HistoryContent::decode(content).map_err(|why| anyhow!("manifest {}: {why}", manifest.number))
}

/// Lists the newest copies.
pub(crate) fn history(args: &HistoryArgs, out: &mut impl Write) -> Result<()> {
    if args.give_up_remote {
        let data = args.data.open_without_store()?;
        let bytes = data.store.give_up_remote_history()?;
        data.close()?;
        writeln!(out, "gave up {bytes} bytes of history")?;
        return Ok(());
    }
    let place = args.place.find(&args.data)?;
    let listed = runtime()?.block_on(history::list(place.copies(), LISTED))?;
    ensure!(
        !listed.is_empty(),
        "there is no history at {}",
        place.copies().location()
    );
    writeln!(out, "MANIFEST\tTIME\tRUNS\tBYTES\tWRITER\tCOPY")?;
    for manifest in listed {
        let manifest = match manifest {
            Ok(manifest) => manifest,
            // Others can be restored, with --manifest.
            Err(error) => {
                writeln!(out, "{error}")?;
                continue;
            }
        };
        let copy = match manifest.content.as_deref().map(HistoryContent::decode) {
            None => "begun",
            Some(Ok(content)) if content.is_complete => "whole",
            Some(_) => "incomplete",
        };
        writeln!(
            out,
            "{}\t{}\t{}\t{}\t{}\t{copy}",
            manifest.number,
            time(manifest.time),
            manifest.runs,
            manifest.bytes,
            manifest.writer
        )?;
    }
    Ok(())
}

/// Checks a data directory, or a copy.
pub(crate) fn verify(args: &VerifyArgs, out: &mut impl Write) -> Result<ExitCode> {
    if args.place.from.is_none() {
        return verify::run(&args.data, out);
    }
    let place = args.place.find(&args.data)?;
    let meter = Meter::new("checked");
    let checked = history::verify(place.copies(), |done, total| meter.show(done, total));
    let checked = runtime()?.block_on(checked)?;
    meter.end();
    let manifest = &checked.manifest;
    let content = content(manifest)?;
    writeln!(
        out,
        "manifest {}: {} runs, {} bytes, each as it was written",
        manifest.number,
        manifest.runs.len(),
        manifest.bytes()
    )?;
    writeln!(
        out,
        "the log after it: {} pieces, {} bytes, each as it was written",
        checked.tail.pieces, checked.tail.bytes
    )?;
    tell_of_gap(&checked.tail, out)?;
    tell_what_lacks(&content, out)?;
    Ok(if content.is_complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn tell_of_gap(tail: &TailCopy, out: &mut impl Write) -> Result<()> {
    if tail.has_gap {
        writeln!(
            out,
            "later pieces of the log do not continue it: the node could not reach the store for a while, and its next copy had not \
             been made"
        )?;
    }
    Ok(())
}

fn tell_what_lacks(content: &HistoryContent, out: &mut impl Write) -> Result<()> {
    if content.damaged_runs > 0 {
        writeln!(
            out,
            "{} runs were damaged on the node and are not in the copy",
            content.damaged_runs
        )?;
    }
    if !content.is_complete {
        writeln!(out, "the copy is not complete: {}", lacking(content))?;
    }
    Ok(())
}

/// What an incomplete copy lacks, as far as it is known.
fn lacking(content: &HistoryContent) -> String {
    match content.missing_objects {
        0 => "objects that are older than the archive were still being added to it".to_owned(),
        objects => format!("at least {objects} objects have no complete state in it"),
    }
}

impl CopyArgs {
    /// Finds the copy, and what it says of itself.
    fn find(&self, place: &HistoryPlace, runtime: &Runtime) -> Result<(Download, HistoryContent)> {
        let found = runtime.block_on(Download::find(place.copies(), self.manifest));
        let found =
            found.context("cannot find a copy; `abide history` lists others, for --manifest")?;
        let content = content(found.manifest())?;
        ensure!(
            content.is_complete || self.incomplete,
            "the copy is not complete: {}. `abide history` lists others; to restore what there is, add --incomplete",
            lacking(&content)
        );
        Ok((found, content))
    }

    /// What the promotion of a standby does.
    pub(crate) fn promoting(place: PlaceArgs) -> Self {
        Self {
            place,
            manifest: None,
            take_over: true,
            incomplete: false,
            inspect: false,
            lazy: true,
        }
    }

    /// Restores a data directory, as of a time in milliseconds since 1970 or as it was last.
    pub(crate) fn restore(
        &self,
        data: &DataArgs,
        at: Option<u64>,
        out: &mut impl Write,
    ) -> Result<()> {
        ensure!(
            self.take_over || self.inspect,
            "two nodes with the same objects would do everything twice: if the node of this copy is gone, restore with --take-over; \
             to look at the copy, restore with --inspect"
        );
        // Before anything is made.
        self.place.find(data)?;
        let dir = data.config()?.data.dir;
        must_be_no_data_directory(&dir)?;
        data.make_dir()?;
        let archive = dir.join("archive");
        fs::create_dir_all(&archive)
            .with_context(|| format!("cannot create {}", archive.display()))?;
        let held = Standby::of(&dir).must_be_free()?;
        self.restore_held(data, at, held, out)
    }

    /// Runs that are not in the directory stay in the store: the directory continues the newest copy, so its own copies list them. No
    /// one keeps them for another.
    fn leaves_runs(&self) -> bool {
        self.lazy && self.take_over && self.manifest.is_none()
    }

    /// As [`Self::restore`], into a directory that no standby uses.
    pub(crate) fn restore_held(
        &self,
        data: &DataArgs,
        at: Option<u64>,
        held: Held,
        out: &mut impl Write,
    ) -> Result<()> {
        let place = self.place.find(data)?;
        let dir = data.config()?.data.dir;
        let archive = dir.join("archive");
        let runtime = runtime()?;
        let find = || self.find(&place, &runtime);
        let (mut found, mut content) = find()?;
        // Not before it is known that there is something to restore: the owner stops.
        let seal = self.take_over.then(|| Seal::make(place.copies()));
        let seal = seal.map(|seal| runtime.block_on(seal)).transpose()?;
        if seal.is_some() {
            (found, content) = find()?;
        }
        let tail = runtime.block_on(found.save_tail(&dir.join("tail")))?;
        let mut remote = BTreeMap::new();
        let mut left_bytes = 0;
        if self.leaves_runs() {
            for run in runtime.block_on(found.leave(&archive))? {
                left_bytes += run.bytes;
                remote.insert(run.number, run.place()?);
            }
        } else {
            let meter = Meter::new("downloaded");
            runtime.block_on(found.save(&archive, |done, total| meter.show(done, total)))?;
            meter.end();
        }
        // Before the directory is whole: then it is known to be the one that continues.
        if let Some(seal) = seal {
            seal.continue_in(&dir)?;
        }
        let how = RestoreOptions::default()
            .at(at)
            .inspect(self.inspect)
            .lazy(self.lazy)
            .remote(remote);
        let options = StoreOptions::default().remote_runs(place.remote_runs());
        let restored = build(&dir, &content, how, &options)?;
        held.end()?;
        let from = format!(
            "manifest {} of {}",
            found.manifest().number,
            place.copies().location()
        );
        audited(
            &AccessStore::open(&dir)?,
            "restore",
            None,
            Some(from),
            || Ok(()),
        )?;
        let last = content
            .archived_millis
            .max(restored.last_millis.unwrap_or_default());
        let until = at.map_or(last, |at| at.min(last));
        let until = crate::text::time(i64::try_from(until).ok());
        if self.lazy {
            writeln!(
                out,
                "ready to be served, as of {until}: objects get their files when they are needed, and in the background"
            )?;
            if left_bytes > 0 {
                writeln!(
                    out,
                    "{left_bytes} bytes of its archive stay in the store: serve it with archive.url"
                )?;
            }
        } else {
            let (objects, bytes) = (restored.objects, restored.bytes);
            writeln!(
                out,
                "restored {objects} objects, {bytes} bytes, as of {until}"
            )?;
        }
        if restored.log_commits > 0 {
            writeln!(
                out,
                "the last {} commits are from the shipped log",
                restored.log_commits
            )?;
        }
        tell_of_gap(&tail, out)?;
        for object in &restored.quarantined {
            writeln!(out, "{}\tquarantined: {}", object.key, object.why)?;
        }
        if self.inspect {
            writeln!(out, "for inspection: no node serves it")?;
        } else {
            writeln!(
                out,
                "it continues at {} when a node serves it",
                place.copies().location()
            )?;
        }
        Ok(())
    }
}

fn build(
    dir: &Path,
    content: &HistoryContent,
    how: RestoreOptions,
    options: &StoreOptions,
) -> Result<abide_storage::RestoredDirectory> {
    let meter = Meter::new("restored");
    let show = |progress: RestoreProgress| {
        // Checking and restoring take about as long.
        let objects = progress.total_objects.max(1);
        let share = |done: u64, of: u64| done.saturating_mul(500).checked_div(of).unwrap_or(0);
        let checked = share(progress.checked_bytes, progress.total_bytes);
        meter.show(checked + share(progress.objects, objects), 1000);
    };
    let restored = restore_directory(
        Arc::new(RealDisk),
        dir,
        content.manifest.as_bytes(),
        how,
        options,
        &show,
    )?;
    meter.end();
    Ok(restored)
}
