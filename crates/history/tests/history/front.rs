//! Through a socket, with the product's HTTP client.

use std::time::Duration;

use abide_history::{Connector, Location, Store};
use abide_s3::{Bucket, Faults, serve};

use crate::{
    judge::Judge,
    machine::{Machine, downloaded, options, until_copied},
    net::access,
};

#[tokio::test]
async fn history_is_copied_and_downloaded_over_http() {
    let bucket = Bucket::new(5);
    let judge = Judge::of(&bucket);
    let front = serve(bucket.clone()).await.unwrap();
    let tls = rustls::ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let location: Location = "s3://backups/nodes/1".parse().unwrap();
    let access = access().option("endpoint", front.endpoint());
    let store = Store::open(&location, &access, Connector::new(tls)).unwrap();
    bucket.set_faults(Faults {
        cut_before: 3,
        cut_after: 3,
        slow: 10,
        delay: Duration::from_millis(50),
        ..Faults::default()
    });
    let machine = Machine::with_runs();
    machine.history.add(vec![5; 500_000]);
    let options = abide_history::Options {
        part: 100_000,
        poll: Duration::from_millis(50),
        ..options()
    };
    let uploader = machine.start(&store, options);
    until_copied(&uploader, &store, &machine.history).await;
    assert_eq!(downloaded(&store).await, machine.history.runs());
    judge.assert_content(&bucket);
}
