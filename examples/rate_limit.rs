// A rate limit for each address: three requests in any minute.
//
// `cargo run --example rate-limit`

use std::{sync::Arc, time::Duration};

use abide::{
    Host,
    clock::TestClock,
    patterns::limiter::{self, Limit, RateLimiter, Verdict},
    prelude::*,
};

const LOGINS: Limit = Limit::window(3, Duration::from_mins(1));

/// Each address has a limiter, which is an object.
async fn log_in(env: &Env, address: &str) -> anyhow::Result<()> {
    let limiter = env.object::<RateLimiter>().get_by_name(address);
    match limiter.check("logins".to_owned(), LOGINS).await? {
        Verdict::Admitted { left } => println!("{address}: admitted, {left} left"),
        Verdict::Refused { retry_after } => println!("{address}: refused for {retry_after:.0?}"),
    }
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let clock = TestClock::new();
    let host = limiter::install(Host::open_in_memory(), limiter::LimiterOptions::default())
        .clock(Arc::new(clock.clone()))
        .start_local()
        .await?;
    for _ in 0..4 {
        log_in(host.env(), "192.0.2.1").await?;
    }
    log_in(host.env(), "192.0.2.2").await?;
    println!("two minutes later");
    clock.advance(Duration::from_mins(2));
    log_in(host.env(), "192.0.2.1").await?;
    host.shutdown().await?;
    Ok(())
}
