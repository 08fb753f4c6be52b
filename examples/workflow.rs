// An order as a durable function: it pays, waits for the collection, and refunds after three days without one.
//
// `cargo run --example workflow`

use std::{sync::Arc, time::Duration};

use abide::{
    Host,
    clock::TestClock,
    workflow::{
        self, Attempt, Context, Failure, RetryPolicy, Workflow, WorkflowRegistry, Workflows,
    },
};

struct Order;

impl Workflow for Order {
    const NAME: &'static str = "order";
    type Input = String;
    type Output = String;

    /// After a crash it runs again from its beginning: finished steps return their stored results.
    async fn run(&self, ctx: Context, what: String) -> Result<String, Failure> {
        let pay = async |attempt: Attempt| {
            println!("paying for {what}, attempt {}", attempt.number());
            if attempt.number() == 1 {
                return Err(Failure::temporary("the bank does not respond"));
            }
            Ok(40)
        };
        let amount: i64 = ctx.step("pay", RetryPolicy::default(), pay).await?;
        let collected = ctx.wait_for_event::<String>("collected", Duration::from_hours(72));
        match collected.await {
            Ok(by) => Ok(format!("{what} collected by {by}")),
            Err(late) if late.is_timeout() => {
                let refund = async |_: Attempt| {
                    println!("refunding {amount}");
                    Ok(())
                };
                ctx.step("refund", RetryPolicy::default(), refund).await?;
                Ok(format!("{what} refunded"))
            }
            Err(failure) => Err(failure),
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let clock = TestClock::new();
    let registry = WorkflowRegistry::new().with(Order);
    let host = workflow::install(
        Host::open_in_memory(),
        registry,
        workflow::WorkflowOptions::default(),
    )
    .clock(Arc::new(clock.clone()))
    .start_local()
    .await?;
    let orders = Workflows::<Order>::new(host.env());
    orders.start("1", &"a kettle".to_owned()).await?;
    orders.start("2", &"a lamp".to_owned()).await?;
    orders
        .send_event("1", "collected", &"ada".to_owned())
        .await?;

    // Everything that is due has run; then the time of a retry comes, and then the end of the wait.
    for wait in [Duration::from_mins(1), Duration::from_hours(72)] {
        host.settle().await?;
        clock.advance(wait);
    }
    host.settle().await?;
    for id in ["1", "2"] {
        println!("order {id}: {:?}", orders.result(id).await?);
    }
    host.shutdown().await?;
    Ok(())
}
