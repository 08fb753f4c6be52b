//! A data directory whose runs come and go, and what must be in the store.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use abide_history::{
    Download, Options, Part, Run, Seal, Sleep, Snapshot, Source, Status, Store, StoredRun, Uploader,
};
use abide_s3::{Faults, Random};
use bytes::Bytes;
use tempfile::TempDir;
use tokio::time::sleep;

pub(crate) struct Machine {
    pub(crate) dir: TempDir,
    pub(crate) history: Arc<History>,
}

pub(crate) struct History {
    dir: PathBuf,
    state: Mutex<State>,
}

#[derive(Clone, Default)]
struct State {
    version: u64,
    newest: u64,
    runs: BTreeMap<u64, Vec<u8>>,
    /// Those of them that have no files, because they are in the store alone.
    left: BTreeMap<u64, StoredRun>,
    /// It was told that the store has these.
    stored: BTreeMap<u64, StoredRun>,
    /// It says that it cannot tell, so often.
    silent: u32,
    /// The position at which the log begins.
    first: u64,
    log: Vec<u8>,
    /// The position up to which the log is in the runs.
    archived: u64,
    /// The position up to which it was told that the store has the log.
    copied: u64,
    /// The log after this position waits until this version is copied.
    held: Option<(u64, u64)>,
}

impl State {
    fn end(&self) -> u64 {
        self.first + self.log.len() as u64
    }
}

/// What every manifest says of its runs, which a judge reads.
pub(crate) fn content(runs: &BTreeMap<u64, Vec<u8>>) -> String {
    let runs = runs
        .iter()
        .map(|(number, bytes)| format!("{number}:{:08x}", crc32c::crc32c(bytes)));
    runs.collect::<Vec<_>>().join(",")
}

impl Source for History {
    fn version(&self) -> u64 {
        self.state.lock().unwrap().version
    }

    fn snapshot(&self) -> Option<Snapshot> {
        let mut state = self.state.lock().unwrap();
        if state.silent > 0 {
            state.silent -= 1;
            return None;
        }
        let runs = state.runs.iter().map(|(number, bytes)| Run {
            number: *number,
            path: self.path(*number),
            bytes: bytes.len() as u64,
            stored: state.left.get(number).cloned(),
        });
        Some(Snapshot {
            time: SystemTime::UNIX_EPOCH,
            runs: runs.collect(),
            end: state.archived,
            content: content(&state.runs).into(),
        })
    }

    fn end(&self) -> u64 {
        self.state.lock().unwrap().end()
    }

    /// Keeps the log from the end of the runs on.
    fn part(&self, from: Option<u64>, most: usize) -> io::Result<Option<Part>> {
        let state = self.state.lock().unwrap();
        let first = from.unwrap_or(0).max(state.archived);
        let bytes = &state.log[(first - state.first) as usize..];
        let held = state
            .held
            .map(|(after, _)| after.saturating_sub(first) as usize);
        let most = most.min(50).min(held.unwrap_or(usize::MAX));
        let bytes = &bytes[..bytes.len().min(most)];
        let end = first + bytes.len() as u64;
        let bytes = Bytes::copy_from_slice(bytes);
        Ok((first < end).then_some(Part { first, end, bytes }))
    }

    fn history_copied(&self, version: u64, runs: &[StoredRun]) {
        let mut state = self.state.lock().unwrap();
        state.stored = runs.iter().map(|run| (run.number, run.clone())).collect();
        state.held = state.held.filter(|(_, waits_for)| *waits_for > version);
    }

    fn is_awaited(&self) -> bool {
        self.state.lock().unwrap().held.is_some()
    }

    fn beyond(&self, position: u64) -> Sleep {
        let is_beyond = self.end() > position;
        Box::pin(async move {
            if !is_beyond {
                sleep(Duration::from_millis(1)).await;
            }
        })
    }

    fn copied(&self, position: u64) {
        let mut state = self.state.lock().unwrap();
        assert!(position <= state.end());
        state.copied = state.copied.max(position);
    }
}

impl History {
    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:016x}.run"))
    }

    /// Adds to the log.
    pub(crate) fn commit(&self, bytes: &[u8]) {
        self.state.lock().unwrap().log.extend_from_slice(bytes);
    }

    /// Adds a run without any of the log, and adds to the log, which is not to be shipped before the run.
    pub(crate) fn commit_after(&self, run: Vec<u8>, bytes: &[u8]) {
        let mut state = self.state.lock().unwrap();
        state.newest += 1;
        state.version += 1;
        let number = state.newest;
        fs::write(self.path(number), &run).unwrap();
        state.runs.insert(number, run);
        state.held = Some((state.end(), state.version));
        state.log.extend_from_slice(bytes);
    }

    /// The position up to which it was told that the store has the log.
    pub(crate) fn is_copied(&self) -> u64 {
        self.state.lock().unwrap().copied
    }

    /// A part of the log.
    pub(crate) fn log(&self, from: u64, end: u64) -> Vec<u8> {
        let state = self.state.lock().unwrap();
        state.log[(from - state.first) as usize..(end - state.first) as usize].to_vec()
    }

    /// Writes a run, which has the log.
    pub(crate) fn add(&self, bytes: Vec<u8>) {
        let mut state = self.state.lock().unwrap();
        state.archived = state.end();
        state.newest += 1;
        let number = state.newest;
        fs::write(self.path(number), &bytes).unwrap();
        state.runs.insert(number, bytes);
        state.version += 1;
    }

    /// Merges the oldest runs into one; their files vanish.
    pub(crate) fn merge(&self, count: usize) {
        let mut state = self.state.lock().unwrap();
        let old: Vec<u64> = state.runs.keys().take(count).copied().collect();
        let mut merged = Vec::new();
        for number in old {
            merged.extend(state.runs.remove(&number).unwrap());
            if state.left.remove(&number).is_none() {
                fs::remove_file(self.path(number)).unwrap();
            }
        }
        drop(state);
        self.add(merged);
    }

    /// All runs that the store has leave the disk.
    pub(crate) fn leave_all(&self) {
        let mut state = self.state.lock().unwrap();
        state.left = state.stored.clone();
        state.version += 1;
        for number in state.left.keys() {
            fs::remove_file(self.path(*number)).unwrap();
        }
    }

    /// Some runs that the store has leave the disk, and some of those that have left return.
    pub(crate) fn move_runs(&self, random: &mut Random) {
        let mut state = self.state.lock().unwrap();
        for (number, bytes) in state.runs.clone() {
            let stored = state.stored.get(&number).cloned();
            if random.percent(50) {
                continue;
            }
            if state.left.remove(&number).is_some() {
                fs::write(self.path(number), bytes).unwrap();
            } else if let Some(stored) = stored {
                fs::remove_file(self.path(number)).unwrap();
                state.left.insert(number, stored);
            }
        }
        state.version += 1;
    }

    /// Something else than its runs has changed.
    pub(crate) fn touch(&self) {
        self.state.lock().unwrap().version += 1;
    }

    pub(crate) fn be_silent(&self, times: u32) {
        self.state.lock().unwrap().silent = times;
    }

    /// What is in the store alone.
    pub(crate) fn left(&self) -> Vec<StoredRun> {
        self.state.lock().unwrap().left.values().cloned().collect()
    }

    pub(crate) fn runs(&self) -> BTreeMap<u64, Vec<u8>> {
        self.state.lock().unwrap().runs.clone()
    }

    /// Something random happens.
    pub(crate) fn live(&self, random: &mut Random) {
        let runs = self.runs().len() as u64;
        if random.percent(40) {
            let length = 1 + random.below(200);
            let bytes: Vec<u8> = (0..length).map(|_| random.draw() as u8).collect();
            self.commit(&bytes);
        } else if runs > 2 && random.percent(30) {
            self.merge(2 + random.below(runs - 1) as usize);
        } else if random.percent(15) {
            self.touch();
        } else {
            let length = random.below(300);
            let bytes = (0..length).map(|_| random.draw() as u8);
            self.add(bytes.collect());
        }
    }
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self::with(State::default())
    }

    fn with(state: State) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let history = Arc::new(History {
            dir: dir.path().to_owned(),
            state: Mutex::new(state),
        });
        Self { dir, history }
    }

    /// A machine with a few runs, of one part and of several.
    pub(crate) fn with_runs() -> Self {
        let machine = Self::new();
        for length in [10_u8, 250, 0, 100] {
            machine.history.add((0..length).collect());
        }
        machine
    }

    /// One whose runs are in the store, and its uploader.
    pub(crate) async fn copied(store: &Store) -> (Self, Uploader) {
        let machine = Self::with_runs();
        let uploader = machine.start(store, options());
        until_copied(&uploader, store, &machine.history).await;
        (machine, uploader)
    }

    /// A copy of the directory, with all that is in it.
    pub(crate) fn copy(&self) -> Self {
        let state = self.history.state.lock().unwrap().clone();
        let copy = Self::with(state);
        for file in fs::read_dir(self.dir.path()).unwrap() {
            let file = file.unwrap();
            let copied = fs::copy(file.path(), copy.dir.path().join(file.file_name()));
            // A thread of an uploader may rename `history.json.new` at this moment.
            let is_new = file.file_name() == "history.json.new";
            assert!(copied.is_ok() || is_new, "{copied:?}");
        }
        copy
    }

    /// A machine that continues with the runs of a download.
    pub(crate) async fn restored(store: &Store) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let download = Download::find(store, None).await.unwrap();
        download.save(dir.path(), |_, _| {}).await.unwrap();
        let tail = download.save_tail(&dir.path().join("tail")).await.unwrap();
        let runs: BTreeMap<u64, Vec<u8>> = read_runs(dir.path());
        // Above all that the lost machine had.
        let first = tail.end + 1_000_000;
        let state = State {
            version: 1,
            newest: runs.keys().last().copied().unwrap_or(0),
            runs,
            first,
            archived: first,
            ..State::default()
        };
        let history = Arc::new(History {
            dir: dir.path().to_owned(),
            state: Mutex::new(state),
        });
        Self { dir, history }
    }

    /// One that was restored to continue, and does not have the files of the runs.
    pub(crate) async fn continued_from_afar(store: &Store) -> Self {
        let machine = Self::continued(store).await;
        let (dir, elsewhere) = (machine.dir.path(), tempfile::tempdir().unwrap());
        for number in machine.history.runs().keys() {
            fs::remove_file(machine.history.path(*number)).unwrap();
        }
        let download = Download::find(store, None).await.unwrap();
        let left = download.leave(elsewhere.path()).await.unwrap();
        assert_eq!(read_runs(dir), BTreeMap::new());
        let mut state = machine.history.state.lock().unwrap();
        // As they are written down.
        let written = left.iter().map(|run| {
            let place = run.place().unwrap();
            (run.number, StoredRun::at(&place).unwrap())
        });
        state.left = written.collect();
        drop(state);
        machine
    }

    /// One that was restored to continue, after the tail was sealed.
    pub(crate) async fn continued(store: &Store) -> Self {
        let seal = Seal::make(store).await.unwrap();
        let machine = Self::restored(store).await;
        seal.continue_in(machine.dir.path()).unwrap();
        machine
    }

    pub(crate) fn start(&self, store: &Store, options: Options) -> Uploader {
        let source = Arc::clone(&self.history) as Arc<dyn Source>;
        Uploader::start(store.clone(), self.dir.path(), source, options).unwrap()
    }
}

/// Options that make all happen in small: parts of 64 bytes, and a minute instead of a day.
pub(crate) fn options() -> Options {
    Options {
        part: 64,
        stage: 200,
        at_once: 2,
        keep: Duration::from_mins(1),
        ..Options::default()
    }
}

/// Each request takes up to a second.
pub(crate) fn slow() -> Faults {
    Faults {
        slow: 100,
        delay: Duration::from_secs(1),
        ..Faults::default()
    }
}

pub(crate) fn unreachable() -> Faults {
    Faults {
        unreachable: true,
        ..Faults::default()
    }
}

pub(crate) fn taking_over() -> Options {
    Options {
        take_over: true,
        ..options()
    }
}

/// Waits until the status is as wanted, for at most an hour of the test's clock.
pub(crate) async fn until(uploader: &Uploader, wanted: impl Fn(&Status) -> bool) -> Status {
    let status = uploader.wait_for(&wanted);
    let status = tokio::time::timeout(Duration::from_hours(1), status).await;
    let status = status.unwrap_or_else(|_| uploader.status());
    assert!(wanted(&status), "still {status:?}");
    status
}

/// Waits until the store has what the machine has.
pub(crate) async fn until_copied(uploader: &Uploader, store: &Store, history: &History) {
    for _ in 0..3600 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let status = uploader.status();
        if status.published.is_none() || status.failing.is_some() {
            continue;
        }
        let Ok(download) = Download::find(store, None).await else {
            continue;
        };
        let there = download.manifest().content.clone();
        if there.as_deref() == Some(content(&history.runs()).as_bytes()) {
            assert_eq!((status.backlog_runs, status.backlog_bytes), (0, 0));
            return;
        }
    }
    panic!("not copied: {:?}", uploader.status());
}

pub(crate) fn read_runs(dir: &Path) -> BTreeMap<u64, Vec<u8>> {
    let files = fs::read_dir(dir).unwrap().map(|file| file.unwrap());
    let runs = files.filter_map(|file| {
        let name = file.file_name().into_string().unwrap();
        let number = u64::from_str_radix(name.strip_suffix(".run")?, 16).unwrap();
        Some((number, fs::read(file.path()).unwrap()))
    });
    runs.collect()
}

/// What a copy has of the log after its runs: where that begins, and the bytes.
pub(crate) async fn downloaded_tail(store: &Store) -> (u64, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let download = Download::find(store, None).await.unwrap();
    let tail = download.save_tail(dir.path()).await.unwrap();
    let mut files: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
    files.sort_by_key(|file| file.as_ref().unwrap().path());
    let bytes = files
        .into_iter()
        .flat_map(|file| fs::read(file.unwrap().path()).unwrap());
    let bytes: Vec<u8> = bytes.collect();
    assert_eq!(tail.bytes, bytes.len() as u64);
    (tail.end - tail.bytes, bytes)
}

/// What a download of the newest copy has.
pub(crate) async fn downloaded(store: &Store) -> BTreeMap<u64, Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let download = Download::find(store, None).await.unwrap();
    download.save(dir.path(), |_, _| {}).await.unwrap();
    read_runs(dir.path())
}
