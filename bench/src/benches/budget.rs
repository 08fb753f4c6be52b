//! (q) Loads that take memory, each on its own server with a budget, and on one without: the highest resident memory.
//!
//! The clients are as bad as clients can be: they touch as many objects as there are, ask for long answers and read
//! nothing, begin long messages and bodies and finish none. The server is to stay within its budget and what the process
//! needs besides, and to answer the next request once they have gone.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::{
    context::Context,
    load::{Generator, Plan, Target},
    process::{self, Owned},
    report::{Measurement, Unit},
};

#[derive(Args)]
pub(crate) struct Options {
    /// The budget in MiB.
    #[arg(long, default_value_t = 256)]
    budget: usize,
    /// Objects that are touched.
    #[arg(long, default_value_t = 12_000)]
    objects: usize,
    /// Data that is sorted, in MB.
    #[arg(long, default_value_t = 150)]
    sort: usize,
    /// Clients that ask for 12 MiB and read nothing.
    #[arg(long, default_value_t = 100)]
    readers: usize,
    /// Sockets on which a message of 8 MiB is begun and not finished.
    #[arg(long, default_value_t = 200)]
    sockets: usize,
    /// Clients that begin a body of 8 MiB and do not finish it.
    #[arg(long, default_value_t = 200)]
    bodies: usize,
}

const MEBIBYTE: usize = 1 << 20;
/// A budget that nothing uses up.
const NO_BUDGET: usize = 1 << 24;
const CONNECTIONS: usize = 16;
/// Longest time a client's request may stay in flight.
const SETTLE: Duration = Duration::from_secs(2);

/// What is done to a server.
type Load<'a> = dyn Fn(&Server) -> Result<()> + 'a;

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    let disk = context.probe()?;
    let loads: [(String, &Load<'_>); 5] = [
        (format!("objects={}", options.objects), &|server| {
            server.touch(options.objects)
        }),
        (format!("sort={}MB", options.sort), &|server| {
            server.sort(options.sort)
        }),
        (format!("readers={}", options.readers), &|server| {
            server.read_nothing(options.readers)
        }),
        (format!("sockets={}", options.sockets), &|server| {
            server.begin_messages(options.sockets)
        }),
        (format!("bodies={}", options.bodies), &|server| {
            server.begin_bodies(options.bodies)
        }),
    ];
    for (name, load) in loads {
        let highest = |budget: usize| -> Result<f64> {
            let server = Server::start(context, budget)?;
            load(&server)?;
            server.must_answer()?;
            Ok(server.highest()? as f64 / MEBIBYTE as f64)
        };
        let ours = context.wants_ours().then(|| highest(options.budget));
        let peer = context.wants_peer().then(|| highest(NO_BUDGET));
        context.print(
            &Measurement::new(format!("budget/{name}"), Unit::Mebibytes, disk)
                .ours(ours.transpose()?)
                .peer("no budget", peer.transpose()?)
                .note(format!("budget {} MiB", options.budget)),
        );
    }
    Ok(())
}

struct Server {
    child: Owned,
    addr: SocketAddr,
}

impl Server {
    fn start(context: &Context, budget: usize) -> Result<Self> {
        let dir = context.fresh_dir("ours")?;
        let mut child = Owned::ourselves("heavy", &dir, budget)?;
        let line = child.lines()?.next();
        let line = line.context("our server has ended; its error is above")??;
        let addr = line
            .parse()
            .context("the child process did not print an address")?;
        Ok(Self { child, addr })
    }

    fn highest(&self) -> Result<u64> {
        process::highest_resident_bytes(self.child.pid())
    }

    fn touch(&self, objects: usize) -> Result<()> {
        let paths = (0..objects).map(|object| format!("/heavy/object-{object}/touch"));
        let target = Target::new(self.addr, paths).unchecked();
        Generator::connect(&target, CONNECTIONS)?.run(Plan::EachOnce)?;
        Ok(())
    }

    fn sort(&self, megabytes: usize) -> Result<()> {
        for _ in 0..megabytes {
            self.ask("/heavy/one/fill?10")?;
        }
        process::forget_highest(self.child.pid())?;
        let rows = self.ask("/heavy/one/sort")?;
        ensure!(
            rows.ends_with(&(megabytes * 10).to_string()),
            "the sort gave other rows: {rows}"
        );
        Ok(())
    }

    fn read_nothing(&self, clients: usize) -> Result<()> {
        let request = |client| {
            format!(
                "GET /heavy/{client}/give?{} HTTP/1.1\r\nhost: x\r\n\r\n",
                12 * MEBIBYTE
            )
        };
        let clients: Result<Vec<_>> = (0..clients)
            .map(|client| self.send(request(client).as_bytes()))
            .collect();
        std::thread::sleep(SETTLE);
        drop(clients?);
        Ok(())
    }

    fn begin_messages(&self, clients: usize) -> Result<()> {
        let mut frame = vec![0x82, 0xff];
        frame.extend_from_slice(&(8 * MEBIBYTE as u64).to_be_bytes());
        // The mask that changes nothing.
        frame.extend_from_slice(&[0; 4]);
        let mut sockets = Vec::new();
        for client in 0..clients {
            let handshake = format!(
                "GET /heavy/{client}/socket HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                 sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            );
            let mut socket = self.send(handshake.as_bytes())?;
            let mut head = [0; 12];
            socket.read_exact(&mut head)?;
            sockets.push(socket);
        }
        for socket in &mut sockets {
            send_part(socket, &frame);
        }
        std::thread::sleep(SETTLE);
        Ok(())
    }

    fn begin_bodies(&self, clients: usize) -> Result<()> {
        let mut bodies = Vec::new();
        for client in 0..clients {
            let head = format!(
                "POST /heavy/{client}/take HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
                8 * MEBIBYTE
            );
            let mut body = self.send(&[])?;
            send_part(&mut body, head.as_bytes());
            bodies.push(body);
        }
        std::thread::sleep(SETTLE);
        Ok(())
    }

    /// The server accepts new clients when the old ones are gone.
    fn must_answer(&self) -> Result<()> {
        for _ in 0..100 {
            if self.ask("/heavy/late/touch")?.starts_with("HTTP/1.1 200 ") {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        anyhow::bail!("the server still refuses requests after its clients have gone")
    }

    fn ask(&self, path: &str) -> Result<String> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let mut answer = String::new();
        self.send(request.as_bytes())?.read_to_string(&mut answer)?;
        Ok(answer)
    }

    fn send(&self, bytes: &[u8]) -> Result<TcpStream> {
        let mut stream = TcpStream::connect(self.addr).context("the server refuses connections")?;
        stream.write_all(bytes)?;
        Ok(stream)
    }
}

/// Sends a head and half of the promised body, as far as the server takes it.
fn send_part(stream: &mut TcpStream, head: &[u8]) {
    let part = vec![7; MEBIBYTE];
    // A server that refuses does not read on, and may close.
    let _ = stream.set_write_timeout(Some(Duration::from_millis(50)));
    let _ = stream.write_all(head);
    for _ in 0..4 {
        if stream.write_all(&part).is_err() {
            break;
        }
    }
}
