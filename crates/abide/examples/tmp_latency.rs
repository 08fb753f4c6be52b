use abide::prelude::*;
use abide::*;
use std::{path::Path, sync::Arc, time::Instant};

#[durable_object]
struct P { state: State, env: Env }
impl DurableObject for P {
    fn new(state: State, env: Env) -> Result<Self> { Ok(Self { state, env }) }
    async fn fetch(&self, _r: Request) -> Result<Response> { Ok(Response::new(Body::from("hello"))) }
}
#[rpc]
impl P {
    pub async fn ping(&self, n: u64) -> u64 { n }
    pub async fn nap(&self, n: u64) -> u64 { tokio::task::yield_now().await; n }
    pub async fn put(&self, n: u64) -> Result<()> { self.state.storage().put("n", &n) }
    pub async fn relay(&self, count: u64) -> Result<u64> {
        let other = self.env.object::<P>().get_by_name("other");
        let t = Instant::now();
        for i in 0..count { other.ping(i).await?; }
        Ok(t.elapsed().as_nanos() as u64 / count)
    }
}
fn main() {
    let dir = std::env::args().nth(1).unwrap();
    let real = dir != "sim";
    let disk: Arc<dyn Disk> = if real { Arc::new(RealDisk::default()) } else { Arc::new(SimDisk::new()) };
    let store = Store::open(disk, Path::new(&dir), StoreOptions::default()).unwrap();
    let node = Node::builder(store).class::<P>("P", ClassOptions::default()).workers(1).start().unwrap();
    for (kind, rt) in [("current", tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()), ("multi", tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap())] {
        let node = node.clone();
        let go = async move {
            let s = node.env().object::<P>().get_by_name("x");
            for _ in 0..2000 { s.ping(1).await.unwrap(); }
            let n = 30000u64;
            let t = Instant::now();
            for i in 0..n { s.ping(i).await.unwrap(); }
            println!("{kind} ping sequential {:?}", t.elapsed() / n as u32);
            let t = Instant::now();
            for i in 0..n { s.nap(i).await.unwrap(); }
            println!("{kind} nap sequential {:?}", t.elapsed() / n as u32);
            let t = Instant::now();
            for _ in 0..n { s.fetch(http_req()).await.unwrap(); }
            println!("{kind} fetch sequential {:?}", t.elapsed() / n as u32);
            for depth in [16, 64, 256u64] {
                let t = Instant::now();
                let rounds = 400_000 / depth;
                let mut calls = Vec::new();
                for _ in 0..rounds {
                    for i in 0..depth { calls.push(s.ping(i)); }
                    for c in calls.drain(..) { c.await.unwrap(); }
                }
                println!("{kind} ping x{depth} {:?} each, {:.0}/s", t.elapsed() / (rounds * depth) as u32, (rounds * depth) as f64 / t.elapsed().as_secs_f64());
            }
            for depth in [1, 16, 64, 256u64] {
                let t = Instant::now();
                let rounds = if depth == 1 { 3000 } else { 100_000 / depth };
                let mut calls = Vec::new();
                for _ in 0..rounds {
                    for i in 0..depth { calls.push(s.put(i + rounds)); }
                    for c in calls.drain(..) { c.await.unwrap().unwrap(); }
                }
                println!("{kind} put x{depth} {:?} each, {:.0}/s", t.elapsed() / (rounds * depth) as u32, (rounds * depth) as f64 / t.elapsed().as_secs_f64());
            }
            println!("{kind} object to object, same worker: {} ns", s.relay(50000).await.unwrap().unwrap());
            let t = Instant::now();
            for _ in 0..100000 { std::hint::black_box(node.env().object::<P>().get_by_name("some/name")); }
            println!("{kind} get_by_name {:?}", t.elapsed() / 100000);
        };
        rt.block_on(async { tokio::spawn(go).await.unwrap() });
    }
}
fn http_req() -> Request { Request::builder().uri("/x").body(Body::empty()).unwrap() }
