//! Places other than a bucket of the S3 protocol.

use abide_history::{Access, Connector, Location, Store, verify};

use crate::machine::{Machine, downloaded, options, until};

fn open(url: &str, access: &Access) -> Result<Store, abide_history::Error> {
    let tls = rustls::ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let location: Location = url.parse()?;
    Store::open(&location, access, Connector::new(tls))
}

#[tokio::test]
async fn a_directory_is_a_place() {
    let place = tempfile::tempdir().unwrap();
    let url = format!("file://{}", place.path().display());
    let store = open(&url, &Access::default()).unwrap();
    let (machine, uploader) = Machine::copied(&store).await;
    assert_eq!(uploader.status().refuses_overwrites, Some(true));
    assert_eq!(downloaded(&store).await, machine.history.runs());
    verify(&store, |_, _| {}).await.unwrap();
    let other = Machine::with_runs();
    let refused = other.start(&store, options());
    until(&refused, |status| status.superseded.is_some()).await;
}

#[test]
fn a_directory_that_does_not_exist_is_not_created() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("not-mounted");
    let error = open(&format!("file://{}", path.display()), &Access::default());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("mount its disk"), "{error}");
    assert!(!path.exists());
}

#[test]
fn each_service_takes_its_options_and_no_others() {
    let amazon = Access::default()
        .option("access_key_id", "a")
        .option("secret_access_key", "b")
        .option("region", "eu-central-1");
    open("s3://bucket/prefix", &amazon).unwrap();
    let google = Access::default().option("google_skip_signature", "true");
    open("gs://bucket", &google).unwrap();
    let azure = Access::default()
        .option("account_name", "a")
        .option("access_key", "YWJj");
    open("az://container/prefix", &azure).unwrap();
    for (url, access) in [("gs://bucket", amazon), ("s3://bucket", azure)] {
        let error = open(url, &access).unwrap_err().to_string();
        assert!(error.contains("no option"), "{error}");
    }
}
