//! A disk with a kernel file system on it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use fuser::{BackgroundSession, Config};
use tempfile::TempDir;

use crate::{
    Disk,
    device::{Device, FILE},
};

/// How often an unmount is tried while a killed process still releases its files; the pause is 20 ms.
const UNMOUNTS: u32 = 500;

/// What this machine lacks to mount a [`Disk`]; `None` if nothing is missing.
pub fn missing() -> Option<&'static str> {
    let opens = |path| {
        fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .is_ok()
    };
    let runs = |program| Command::new(program).arg("-V").output().is_ok();
    [
        (opens("/dev/fuse"), "/dev/fuse"),
        (opens("/dev/loop-control"), "/dev/loop-control, as root"),
        (runs("mkfs.ext4"), "mkfs.ext4, of e2fsprogs"),
        (runs("mount"), "mount"),
    ]
    .into_iter()
    .find_map(|(is_there, what)| (!is_there).then_some(what))
}

/// An ext4 on a [`Disk`]. Unmounted when dropped.
#[derive(Debug)]
pub struct Mounted {
    dir: TempDir,
    fuse: Option<BackgroundSession>,
}

impl Mounted {
    /// An empty ext4 of this size in bytes, not mounted.
    ///
    /// # Errors
    /// If `mkfs.ext4` fails.
    pub fn format(bytes: u64) -> io::Result<Disk> {
        let image = tempfile::NamedTempFile::new()?;
        image.as_file().set_len(bytes)?;
        run(Command::new("mkfs.ext4")
            .args(["-q", "-F", "-b", "4096", "-J", "size=4"])
            .args(["-E", "lazy_itable_init=0,lazy_journal_init=0"])
            .arg(image.path()))?;
        Ok(Disk::new(fs::read(image.path())?))
    }

    /// Mounts a disk, whose journal is replayed if it lost power.
    ///
    /// # Errors
    /// If the machine cannot (see [`missing`]), or the file system is damaged beyond repair by its journal.
    pub fn new(disk: &Disk) -> io::Result<Self> {
        let dir = tempfile::tempdir()?;
        let (device, root) = (dir.path().join("device"), dir.path().join("root"));
        fs::create_dir(&device)?;
        fs::create_dir(&root)?;
        let fuse = fuser::spawn_mount(Device(disk.clone()), &device, &Config::default())?;
        let mounted = Self {
            dir,
            fuse: Some(fuse),
        };
        run(Command::new("mount")
            .args(["-t", "ext4", "-o", "loop"])
            .args([&device.join(FILE), &root]))?;
        Ok(mounted)
    }

    /// The root of the file system.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// Unmounts. Nothing may be using it.
    ///
    /// # Errors
    /// If it stays busy for 10 seconds.
    pub fn unmount(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        let Some(fuse) = self.fuse.take() else {
            return Ok(());
        };
        while_busy(&self.root())?;
        // The loop device closes its file shortly after the file system is unmounted.
        while_busy(&self.dir.path().join("device"))?;
        fuse.join()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Unmounts a directory, if it is mounted, once nothing uses it.
fn while_busy(dir: &Path) -> io::Result<()> {
    let mut tries = 0;
    while is_mount_point(dir)? {
        match run(Command::new("umount").arg(dir)) {
            Err(error) if tries == UNMOUNTS => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(20)),
            Ok(()) => {}
        }
        tries += 1;
    }
    Ok(())
}

fn is_mount_point(dir: &Path) -> io::Result<bool> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mut points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    Ok(points.any(|point| Path::new(point) == dir))
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?}: {}", said.trim())))
}
