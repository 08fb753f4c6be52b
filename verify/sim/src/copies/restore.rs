//! The replacement of a lost machine: the commands of the guide, on an empty disk.

use std::{collections::BTreeMap, fs, io, path::Path, sync::Arc, time::Duration};

use abide::{
    clock::{Clock as _, TestClock},
    history::{Download, Error, Seal, Store as Objects},
    server::HistoryContent,
    storage::{Disk as _, OpenMode, RestoreOptions, SimDisk, StoreOptions, restore_directory},
};

use super::{Place, remote::at_once};
use crate::{bucket::Weather, executor::Executor, life::DIR};

/// How long an operator waits before the command is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// So often the operator's command is repeated before the store is repaired.
const ATTEMPTS: u32 = 6;

/// What a restore downloads.
struct Downloaded {
    content: HistoryContent,
    /// The runs that stay in the bucket.
    remote: BTreeMap<u64, String>,
}

/// Why there is no other machine.
#[derive(Debug)]
pub(crate) enum Unrestored {
    /// The copy lacks objects, because a full disk had no room for their history: an operator decides.
    Incomplete,
    /// Nothing explains it.
    Failed(String),
}

impl From<io::Error> for Unrestored {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// True if the bucket has a whole copy, as `abide history` shows it.
pub(crate) fn has_copy(place: &mut Place) -> bool {
    let calm = place.bucket.in_fine_weather();
    let objects = place.objects(calm);
    let found = at_once(Download::find(&objects, None));
    let content = found.map(|found| found.and_then(|found| content(&found)));
    matches!(content, Some(Ok(content)) if content.is_complete)
}

fn content(found: &Download) -> Result<HistoryContent, Error> {
    let content = found.manifest().content.as_deref().unwrap_or_default();
    HistoryContent::decode(content).map_err(Error::Configuration)
}

/// A disk with what the bucket has. Meanwhile, others live.
pub(crate) fn restore(
    place: &mut Place,
    is_lazy: bool,
    mut meanwhile: impl FnMut(),
) -> Result<SimDisk, Unrestored> {
    let executor = Executor::new()?;
    place.next_machine()?;
    let clock = place.clock.clone();
    for attempt in 0.. {
        if attempt == ATTEMPTS {
            place.bucket.set_weather(Weather::Fine);
        }
        let bucket = place.bucket.clone();
        let (objects, dir) = (place.objects(bucket), place.dir());
        let files = dir.clone();
        let work = async move { download(&objects, &files, is_lazy).await };
        match wait(&executor, &clock, work, &mut meanwhile) {
            Ok(downloaded) => return build(place, &dir, downloaded, is_lazy),
            Err(error) if attempt >= 2 * ATTEMPTS => {
                return Err(Unrestored::Failed(error.to_string()));
            }
            Err(_) => {}
        }
    }
    Err(Unrestored::Failed("it was not tried".to_owned()))
}

/// As `abide restore --from --take-over`.
async fn download(objects: &Objects, dir: &Path, is_lazy: bool) -> Result<Downloaded, Error> {
    Download::find(objects, None).await?;
    let seal = Seal::make(objects).await?;
    let found = Download::find(objects, None).await?;
    let archive = dir.join("archive");
    fs::create_dir_all(&archive).map_err(|error| file(&archive, error))?;
    found.save_tail(&dir.join("tail")).await?;
    let mut remote = BTreeMap::new();
    if is_lazy {
        for run in found.leave(&archive).await? {
            remote.insert(run.number, run.place()?);
        }
    } else {
        found.save(&archive, |_, _| {}).await?;
    }
    seal.continue_in(dir)?;
    let content = content(&found)?;
    Ok(Downloaded { content, remote })
}

fn file(path: &Path, source: io::Error) -> Error {
    let path = path.to_owned();
    Error::File { path, source }
}

fn build(
    place: &mut Place,
    dir: &Path,
    downloaded: Downloaded,
    is_lazy: bool,
) -> Result<SimDisk, Unrestored> {
    if !downloaded.content.is_complete {
        return Err(Unrestored::Incomplete);
    }
    let disk = SimDisk::new();
    for part in ["archive", "tail"] {
        move_in(&disk, &dir.join(part), &Path::new(DIR).join(part))?;
    }
    let clock = place.clock.clone();
    let remote_runs = place.remote_runs();
    let how = RestoreOptions::default()
        .lazy(is_lazy)
        .remote(downloaded.remote);
    // The runs that were left are read now; a store that does not answer is repaired first.
    place.bucket.set_weather(Weather::Fine);
    let options = StoreOptions::small()
        .manual(true)
        .remote_runs(remote_runs)
        .unix_millis(Arc::new(move || clock.unix_millis()));
    let restored = restore_directory(
        Arc::new(disk.clone()),
        Path::new(DIR),
        downloaded.content.manifest.as_bytes(),
        how,
        &options,
        &|_| {},
    );
    let restored = restored.map_err(|error| Unrestored::Failed(error.to_string()))?;
    match restored.quarantined.first() {
        None => Ok(disk),
        Some(object) => Err(Unrestored::Failed(format!(
            "{}: {}",
            object.key, object.why
        ))),
    }
}

/// Moves downloaded files to the disk.
fn move_in(disk: &SimDisk, from: &Path, to: &Path) -> io::Result<()> {
    disk.create_dir_all(to)?;
    let mut names: Vec<_> = fs::read_dir(from)?.collect::<io::Result<_>>()?;
    names.sort_by_key(fs::DirEntry::file_name);
    for entry in names {
        let bytes = fs::read(entry.path())?;
        let file = disk.open(&to.join(entry.file_name()), OpenMode::Create)?;
        file.write_at(&bytes, 0)?;
        file.sync()?;
    }
    disk.sync_dir(to)
}

/// Runs work of an operator until it is done, which takes time.
fn wait<T: 'static>(
    executor: &Executor,
    clock: &TestClock,
    work: impl Future<Output = T> + 'static,
    mut meanwhile: impl FnMut(),
) -> T {
    let mut working = executor.spawn(work);
    loop {
        executor.until_idle();
        if working.is_finished()
            && let Some(Ok(done)) = at_once(&mut working)
        {
            return done;
        }
        meanwhile();
        clock.advance(PAUSE);
    }
}
