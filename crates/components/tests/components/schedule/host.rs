//! A host whose objects hold schedules, and its metrics.

use abide::Host;
use abide::schedule::Spec;
use abide_harness::{Client, Version};

use crate::schedule::support::{Background, Calls, Deed, doing, plain, run};

#[test]
fn a_host_shows_timer_outcomes_and_lateness() {
    run(async {
        let calls = Calls::default();
        let host = Host::open_in_memory()
            .object::<Background>()
            .with(calls.clone())
            .with(plain())
            .start()
            .await
            .unwrap();
        let object = host.env().object::<Background>().get_by_name("ada");
        let never = Deed {
            never: true,
            ..Deed::default()
        };
        for (name, spec) in [
            ("once", Spec::once("a", 0)),
            ("never", doing(Spec::once("a", 0), &never)),
        ] {
            object.upsert(name.to_owned(), spec).await.unwrap();
        }
        let admin = host.admin_addr().unwrap().to_string();
        let admin = Client::new(&admin, Version::Http1);
        // Other tests of this process have figures of the same names.
        let figures = [
            r#"abide_schedule_occurrences_total{outcome="done"} "#,
            r#"abide_schedule_occurrences_total{outcome="failed"} "#,
            "abide_schedule_lateness_seconds_count ",
            "abide_schedule_attempts_running ",
        ];
        admin.until_shown(&figures).await;
        assert_eq!(calls.all().len(), 2);
        host.shutdown().await.unwrap();
    });
}
