//! A host with a projection, and its metrics.

use std::{sync::Arc, time::Duration};

use abide::Host;
use abide::{
    projection::{Projection, ReadModel, SqliteModel},
    queue::{self, Queues},
};
use abide_harness::{Client, Version};
use tempfile::TempDir;

use crate::projection::support::{Bank, accounts, run, tables};

#[test]
fn a_host_shows_the_lag_of_its_read_model_and_what_its_queues_hold() {
    run(async {
        let dir = TempDir::new().unwrap();
        let model = SqliteModel::open(dir.path().join("read-model.db"), tables()).unwrap();
        let model: Arc<dyn ReadModel> = Arc::new(model);
        let projection = Projection::new("read-model", &*model);
        let queues = projection.install(Queues::new(), Arc::clone(&model));
        let host = queue::install(Host::open_in_memory(), queues)
            .with(projection)
            .object::<Bank>()
            .start()
            .await
            .unwrap();
        let bank = host.env().object::<Bank>().get_by_name("ada");
        bank.deposit(10).await.unwrap();
        while accounts(&*model).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let admin = host.admin_addr().unwrap().to_string();
        let admin = Client::new(&admin, Version::Http1);
        // Other tests of this process have figures of the same names.
        let figures = [
            r#"abide_projection_lag_seconds{table="accounts"} "#,
            r#"abide_projection_rows_written_total{table="accounts"} "#,
            r#"abide_queue_messages{queue="read-model",shard=""#,
            r#"abide_queue_oldest_message_seconds{queue="read-model",shard=""#,
        ];
        admin.until_shown(&figures).await;
        host.shutdown().await.unwrap();
    });
}
