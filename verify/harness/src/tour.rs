//! The commands of `docs/tour.md`, run as its reader runs them: in one shell, in an empty directory.

use std::{
    collections::VecDeque,
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use tempfile::TempDir;

use crate::{neutral, until};

/// The port of every program of the tour.
const SERVER: u16 = 8080;

/// The port of the receiver.
const RECEIVER: u16 = 9000;

/// What the shell prints after a block, before its exit status.
const END: &str = "@@ended ";

/// A part of the tour. Its address replaces 127.0.0.1, so that other processes of the machine do not get in the way.
#[derive(Debug)]
pub struct Tour {
    shell: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    blocks: VecDeque<String>,
    address: String,
    _home: TempDir,
}

impl Tour {
    /// Opens a part by its heading, such as `3. The outbox`. Its commands find the program of this path, and lines that
    /// begin with one of `without` are left out.
    ///
    /// # Panics
    /// If there is no such part.
    pub fn open(heading: &str, program: &str, without: &[&str]) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tour.md");
        let text = fs::read_to_string(file).expect("the tour");
        let before = part(&text, "Before you start");
        let settings = before.last().expect("the tour's settings").clone();
        let mut blocks = VecDeque::from(part(&text, heading));
        blocks.push_front(settings);
        let id = std::process::id();
        // Every address of 127/8 is this machine.
        let address = format!("127.{}.{}.77", 1 + id / 256 % 255, id % 256);
        for block in &mut blocks {
            let kept = block.lines();
            let kept = kept.filter(|line| !without.iter().any(|start| line.starts_with(start)));
            let kept: Vec<&str> = kept.collect();
            *block = kept.join("\n").replace("127.0.0.1", &address);
        }
        let home = tempfile::tempdir().expect("an empty directory");
        let work = home.path().join("tour");
        fs::create_dir(&work).expect("an empty directory");
        let programs = Path::new(program).parent().expect("a program's directory");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = neutral(&mut Command::new("bash"), home.path())
            .args(["--norc", "--noprofile"])
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("ABIDE__SERVER__LISTEN", format!("{address}:{SERVER}"))
            .env("ABIDE__ADMIN__LISTEN", format!("{address}:8081"))
            .current_dir(&work)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let stdin = shell.stdin.take().expect("stdin is piped");
        let stdout = BufReader::new(shell.stdout.take().expect("stdout is piped"));
        let mut tour = Self {
            shell,
            stdin,
            stdout,
            blocks,
            address,
            _home: home,
        };
        // Jobs have names, as in a shell that a person uses.
        tour.sh("set -m");
        tour
    }

    /// Runs the next blocks, up to the one with this text, and returns what that one printed.
    ///
    /// # Panics
    /// If a command fails, or no block has the text.
    pub async fn run_to(&mut self, text: &str) -> String {
        loop {
            let block = self.blocks.pop_front();
            let block = block.unwrap_or_else(|| panic!("no command with {text:?} is left"));
            let printed = self.sh(&block);
            self.settle(&block).await;
            if block.contains(text) {
                return printed;
            }
        }
    }

    /// Runs the remaining blocks.
    ///
    /// # Panics
    /// If a command fails.
    pub async fn run_rest(&mut self) {
        while let Some(block) = self.blocks.pop_front() {
            self.sh(&block);
            self.settle(&block).await;
        }
    }

    /// Runs commands of the test's own in the same shell, and returns what they print.
    ///
    /// # Panics
    /// If the last one fails.
    pub fn sh(&mut self, commands: &str) -> String {
        let told = writeln!(self.stdin, "{commands}\necho \"{END}$?\"");
        told.expect("the shell reads");
        let mut printed = String::new();
        loop {
            let mut line = Vec::new();
            let read = self.stdout.read_until(b'\n', &mut line);
            assert!(read.expect("the shell prints") > 0, "the shell has ended");
            let line = String::from_utf8_lossy(&line);
            if let Some((rest, status)) = line.split_once(END) {
                printed.push_str(rest);
                assert_eq!(status.trim(), "0", "{commands}\n{printed}");
                return printed;
            }
            printed.push_str(&line);
        }
    }

    /// Waits until a reader can see a change before it continues: a program that was started listens, one that was killed is gone.
    async fn settle(&self, block: &str) {
        let last = block.lines().last().unwrap_or_default();
        if last.contains(" serve") {
            self.listens(SERVER, true).await;
        } else if last.contains("receiver.py") {
            self.listens(RECEIVER, true).await;
        } else if last.starts_with("kill -9") {
            self.listens(SERVER, false).await;
        }
    }

    async fn listens(&self, port: u16, expected: bool) {
        let address = (self.address.as_str(), port);
        let what = format!("port {port}, listening: {expected}");
        until(&what, async || {
            (TcpStream::connect(address).is_ok() == expected).then_some(())
        })
        .await;
    }
}

impl Drop for Tour {
    fn drop(&mut self) {
        // The shell may have ended already.
        let _ = writeln!(
            self.stdin,
            "for job in $(jobs -p); do kill -9 -- -$job; done; exit"
        );
        let _ = self.shell.wait();
    }
}

/// The blocks of commands below a heading.
fn part(text: &str, heading: &str) -> Vec<String> {
    let start = format!("## {heading}\n");
    let (_, rest) = text
        .split_once(&start)
        .unwrap_or_else(|| panic!("the tour has no part {heading:?}"));
    let part = rest.split("\n## ").next().unwrap_or_default();
    let blocks = part.split("```sh\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split_once("```"));
    blocks.map(|(block, _)| block.to_owned()).collect()
}
