//! Pictures in a bucket of an S3-compatible service, which checks signatures.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{net::SocketAddr, path::Path};

use crate::support::{files, post, program, shots, take};
use abide_harness::Program;
use http::Method;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use s3s::{auth::SimpleAuth, service::S3ServiceBuilder};
use serde_json::json;
use tokio::net::TcpListener;

const SECRET: &str = "a secret that is hard to guess";

/// A service that keeps its buckets in a directory.
async fn service(directory: &Path) -> SocketAddr {
    std::fs::create_dir_all(directory.join("shots")).unwrap();
    let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(directory).unwrap());
    service.set_auth(SimpleAuth::from_single("ada", SECRET));
    let service = service.build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service.clone();
            tokio::spawn(async move {
                let builder = Builder::new(TokioExecutor::new());
                // The client may be gone.
                let _ = builder
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    address
}

fn with_bucket(data: &Path, service: SocketAddr, secret: &str) -> Program {
    program(data)
        .arg("--s3-bucket=shots")
        .arg(&format!("--s3-endpoint=http://{service}"))
        .arg("--s3-prefix=team/web")
        .env("AWS_ACCESS_KEY_ID", "ada")
        .env("AWS_SECRET_ACCESS_KEY", secret)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pictures_are_stored_in_a_bucket_served_from_it_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (data, buckets) = (dir.path().join("data"), dir.path().join("buckets"));
    let server = with_bucket(&data, service(&buckets).await, SECRET).start();
    let client = server.client();
    let body = json!({ "url": "https://example.com/", "sizes": ["300x200"], "format": "png" });
    let answer = post(&client, "main", &body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let key = answer.body["pictures"][0]["key"].as_str().unwrap();
    assert!(key.ends_with("/screenshot_300x200.png"), "{key}");
    let stored = buckets.join("shots/team/web").join(key);
    let expected = "300x200 of https://example.com/";
    assert_eq!(std::fs::read_to_string(&stored).unwrap(), expected);
    let picture = client.get(&format!("/pictures/{key}")).await;
    assert_eq!(
        (picture.status.as_u16(), picture.body),
        (200, json!(expected))
    );
    assert_eq!(picture.headers["content-type"], "image/png");
    assert!(!data.join("pictures").exists());
    let path = format!("/sessions/main/screenshots/{}", answer.body["id"]);
    assert_eq!(client.ask(Method::DELETE, &path, "").await.status, 204);
    assert!(!stored.exists());
    let gone = client.get(&format!("/pictures/{key}")).await;
    assert_eq!(gone.code(), "no_such_picture");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_refuses_is_reported_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (data, buckets) = (dir.path().join("data"), dir.path().join("buckets"));
    let service = service(&buckets).await;
    let server = with_bucket(&data, service, SECRET).start();
    let body = json!({ "url": "https://example.com/", "sizes": ["300x200"] });
    let kept = post(&server.client(), "main", &body).await;
    assert_eq!(kept.status, 201, "{kept:?}");
    assert!(server.stop().success());
    let server = with_bucket(&data, service, "another secret").start();
    let client = server.client();
    let answer = post(&client, "other", &body).await;
    assert_eq!(
        (answer.status.as_u16(), answer.code()),
        (502, "store_failed"),
        "{answer:?}"
    );
    assert!(!answer.body.to_string().contains("another secret"));
    assert_eq!(shots(&client, "other").await[0]["state"], "failed");
    // What cannot be removed stays in the list, to be removed later.
    let path = format!("/sessions/main/screenshots/{}", kept.body["id"]);
    let refused = client.ask(Method::DELETE, &path, "").await;
    assert_eq!(
        (refused.status.as_u16(), refused.code()),
        (502, "store_failed")
    );
    assert_eq!(
        shots(&client, "main").await,
        std::slice::from_ref(&kept.body)
    );
    assert!(
        files(&buckets)
            .iter()
            .any(|file| file.ends_with("screenshot_300x200.jpg"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_screenshot_is_removed_with_the_pictures_that_were_stored() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    let client = server.client();
    let body = json!({ "url": "https://example.com/", "sizes": ["300x200", "200x300"] });
    // The clock may pass to the next five minutes, and so to another key, but not twice.
    for session in ["one", "two"] {
        let first = take(&client, session, "https://example.org/").await;
        let key = format!("{}-2", first.body["key"].as_str().unwrap());
        let directory = data.join("pictures").join(&key);
        // A directory is where the second picture is to be.
        let obstacle = directory.join("screenshot_200x300.jpg");
        std::fs::create_dir_all(obstacle.join("in-the-way")).unwrap();
        let failed = post(&client, session, &body).await;
        if failed.status == 201 {
            continue;
        }
        assert_eq!(
            (failed.status.as_u16(), failed.code()),
            (502, "store_failed")
        );
        let shot = &shots(&client, session).await[0];
        assert_eq!(
            (&shot["state"], &shot["key"]),
            (&json!("failed"), &json!(key))
        );
        assert_eq!(shot["pictures"], json!([]));
        let stored = directory.join("screenshot_300x200.jpg");
        assert!(stored.exists());
        std::fs::remove_dir_all(&obstacle).unwrap();
        let path = format!("/sessions/{session}/screenshots/{}", shot["id"]);
        assert_eq!(client.ask(Method::DELETE, &path, "").await.status, 204);
        assert!(!stored.exists());
        return;
    }
    panic!("ten minutes have passed");
}
