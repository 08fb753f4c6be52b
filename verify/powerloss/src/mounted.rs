//! A disk with a file system of the kernel on it.

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

/// How often an unmount is tried while a killed process still lets go of its files; each try waits 20 ms.
const UNMOUNTS: u32 = 500;

/// What this machine lacks to mount a [`Disk`]; `None` if nothing.
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
    /// An empty ext4 of so many bytes, not mounted.
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
    /// If the machine cannot (see [`missing`]), or the file system is damaged beyond what its journal mends.
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

    /// Unmounts. Nothing may use it any more.
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
        // The loop device closes its file a moment after the file system has gone.
        while_busy(&self.dir.path().join("device"))?;
        fuse.join()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Unmounts what is mounted at a directory, if anything, as soon as nothing uses it.
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
