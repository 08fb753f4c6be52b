//! A host that runs workflows, and its metrics.

use std::time::Duration;

use abide::Host;
use abide::workflow::{
    self, Context, Ended, Failure, RetryPolicy, Workflow, WorkflowOptions, WorkflowRegistry,
    Workflows,
};
use abide_harness::{Client, Version};

use crate::workflow::support::run;

/// A workflow with a step that fails once.
struct Figured;

impl Workflow for Figured {
    const NAME: &'static str = "figured";
    type Input = ();
    type Output = ();

    async fn run(&self, ctx: Context, (): ()) -> Result<(), Failure> {
        let policy = RetryPolicy::default().backoff(Duration::ZERO, Duration::ZERO);
        ctx.step("step", policy, async |attempt| match attempt.number() {
            1 => Err(Failure::temporary("once")),
            _ => Ok(()),
        })
        .await?;
        ctx.sleep("nap", Duration::from_millis(20)).await
    }
}

#[test]
fn a_host_shows_outcomes_of_instances_and_steps() {
    run(async {
        let registry = WorkflowRegistry::new().with(Figured);
        let host = workflow::install(Host::open_in_memory(), registry, WorkflowOptions::default());
        let host = host.start().await.unwrap();
        let workflows = Workflows::<Figured>::new(host.env());
        workflows.start("a", &()).await.unwrap();
        let ended = workflows.wait("a", Duration::from_mins(1)).await.unwrap();
        assert_eq!(ended, Ended::Completed(()));
        let admin = host.admin_addr().unwrap().to_string();
        let admin = Client::new(&admin, Version::Http1);
        let figures = [
            r#"abide_workflow_status_total{workflow="figured",status="running"} 1"#,
            r#"abide_workflow_status_total{workflow="figured",status="completed"} 1"#,
            r#"abide_workflow_instances{workflow="figured",status="completed"} 1"#,
            r#"abide_workflow_instances{workflow="figured",status="running"} 0"#,
            r#"abide_workflow_steps_total{workflow="figured",outcome="retried"} 1"#,
            r#"abide_workflow_steps_total{workflow="figured",outcome="done"} 1"#,
            r#"abide_workflow_attempts_running{workflow="figured"} 0"#,
            r#"abide_workflow_lateness_seconds_count{workflow="figured"} 1"#,
        ];
        // Samples are put into their buckets now and then.
        admin.until_shown(&figures).await;
        host.shutdown().await.unwrap();
    });
}
