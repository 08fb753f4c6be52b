//! A read model in a real `PostgreSQL` server: `cargo test --test components projection:: -- --ignored`.

use std::{sync::Arc, time::Duration};

use abide::{
    projection::{PostgresModel, ProjectionError, ReadModel, Table, Tables, Type, queue_options},
    queue::RetryPolicy,
};
use abide_harness::Postgres;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, UnixStream},
};
use tokio_rustls::TlsAcceptor;

use crate::projection::{
    models,
    support::{World, accounts, row, run, tables},
};

fn model(server: &Postgres) -> Arc<dyn ReadModel> {
    Arc::new(PostgresModel::new(&server.address(), tables()).unwrap())
}

#[test]
#[ignore = "needs PostgreSQL"]
fn it_does_what_every_read_model_does() {
    run(async {
        let server = Postgres::start();
        models::all(&*model(&server)).await;
    });
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_row_refused_by_the_server_is_a_dead_letter_and_others_are_written() {
    run(async {
        let server = Postgres::start();
        let world = World::with_model(model(&server), queue_options());
        world.deposit("ada", 1).await;
        // PostgreSQL's texts have no zero characters.
        let odd = r#"{"owner":"a\u0000b"}"#;
        world
            .bank("eve")
            .put_odd("accounts".into(), odd.into())
            .await
            .unwrap();
        world.deposit("bob", 2).await;
        world.until_balances(&[("ada", 1), ("bob", 2)]).await;
        world
            .until("the odd one is dead", async || {
                world.counts().await.dead == 1
            })
            .await;
        let letters = world.queue().dead_letters(1).await.unwrap();
        assert!(letters[0].error.contains("0x00"), "{}", letters[0].error);
    });
}

/// A user with all privileges.
async fn administrator(server: &Postgres) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(&server.address(), tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
}

#[test]
#[ignore = "needs PostgreSQL"]
fn rows_wait_while_the_server_is_unfit_and_none_is_a_dead_letter() {
    run(async {
        let server = Postgres::start();
        let admin = administrator(&server).await;
        admin
            .batch_execute("CREATE ROLE clerk LOGIN; GRANT CREATE ON SCHEMA public TO clerk")
            .await
            .unwrap();
        let clerk = format!("{} user=clerk", without_user(&server.address()));
        let clerk: Arc<dyn ReadModel> = Arc::new(PostgresModel::new(&clerk, tables()).unwrap());
        let options =
            queue_options().retry(RetryPolicy::Schedule(vec![Duration::from_millis(100)]));
        let world = World::with_model(clerk, options);
        world.deposit("ada", 1).await;
        world.until_balances(&[("ada", 1)]).await;

        // What is done to the server, and how it is mended.
        let troubles = [
            (
                "REVOKE INSERT ON accounts FROM clerk",
                "GRANT INSERT ON accounts TO clerk",
            ),
            (
                "ALTER TABLE accounts RENAME COLUMN balance TO b; ALTER TABLE accounts ADD balance text",
                "ALTER TABLE accounts DROP balance; ALTER TABLE accounts RENAME COLUMN b TO balance",
            ),
            ("ALTER ROLE clerk NOLOGIN", "ALTER ROLE clerk LOGIN"),
            (
                "ALTER ROLE clerk SET default_transaction_read_only = on",
                "ALTER ROLE clerk RESET default_transaction_read_only",
            ),
            (
                "REVOKE USAGE ON SCHEMA public FROM PUBLIC, clerk",
                "GRANT USAGE ON SCHEMA public TO PUBLIC, clerk",
            ),
        ];
        let hang_up =
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'clerk'";
        let mut balance = 1;
        for (trouble, mended) in troubles {
            admin.batch_execute(trouble).await.unwrap();
            admin.batch_execute(hang_up).await.unwrap();
            let before = world.model.batches.lock().unwrap().len();
            world.deposit("ada", 1).await;
            balance += 1;
            world
                .until("it was tried several times", async || {
                    world.clock.advance(Duration::from_secs(1));
                    world.model.batches.lock().unwrap().len() >= before + 5
                })
                .await;
            let counts = world.counts().await;
            assert_eq!(counts.dead, 0, "{trouble}: {counts:?}");
            assert!(counts.messages > 0, "{trouble}: {counts:?}");
            world
                .until("it is seen", async || {
                    world.counts().await.last_error.is_some()
                })
                .await;
            admin.batch_execute(mended).await.unwrap();
            admin.batch_execute(hang_up).await.unwrap();
            until_there(&world, &[("ada", balance)]).await;
        }

        // Missing tables are created again.
        admin
            .batch_execute("ALTER TABLE accounts DROP owner")
            .await
            .unwrap();
        world.deposit("ada", 1).await;
        world.until_balances(&[("ada", balance + 1)]).await;
        assert_eq!(world.counts().await.dead, 0);
    });
}

/// A server's address, for another role.
fn without_user(address: &str) -> String {
    let words = address.split(' ').filter(|word| !word.starts_with("user="));
    words.collect::<Vec<_>>().join(" ")
}

#[test]
#[ignore = "needs PostgreSQL"]
fn nothing_is_lost_when_the_server_is_killed_in_the_middle() {
    run(async {
        let mut server = Postgres::start();
        let world = World::with_model(model(&server), queue_options());
        for round in 0..3 {
            for number in 0..200 {
                world.deposit(&format!("{:02}", number % 20), 1).await;
                if number == 100 + round {
                    // Batches are on their way.
                    server.kill();
                }
            }
            world.clock.advance(Duration::from_secs(1));
            tokio::time::sleep(Duration::from_millis(50)).await;
            server.start_again();
        }
        let names: Vec<String> = (0..20).map(|number| format!("{number:02}")).collect();
        let wanted: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 30)).collect();
        until_there(&world, &wanted).await;
        world
            .until("all is written", async || {
                world.counts().await.messages == 0
            })
            .await;
        let deposits = "SELECT count(*) AS n, sum(amount) AS total FROM deposits";
        let found = world.model.model.query(deposits, vec![]).await.unwrap();
        assert_eq!(
            (&found[0]["n"], &found[0]["total"]),
            (&600.into(), &600.into())
        );
        assert_eq!(world.counts().await.dead, 0);
    });
}

/// As `until_balances`, and a reader whose connection is gone asks again.
async fn until_there(world: &World, wanted: &[(&str, i64)]) {
    world
        .until("the server answers", async || {
            world
                .model
                .model
                .query("SELECT 1 AS one", vec![])
                .await
                .is_ok()
        })
        .await;
    world.until_balances(wanted).await;
}

#[test]
#[ignore = "needs PostgreSQL"]
fn objects_work_while_the_server_is_down_or_wiped_and_it_catches_up() {
    run(async {
        let mut server = Postgres::start();
        let world = World::with_model(model(&server), queue_options());
        world.deposit("ada", 1).await;
        world.until_balances(&[("ada", 1)]).await;

        // Stopped.
        server.kill();
        world.deposit("ada", 1).await;
        world.deposit("bob", 1).await;
        server.start_again();
        until_there(&world, &[("ada", 2), ("bob", 1)]).await;

        // Slow: another client has locked the table.
        let (client, connection) =
            tokio_postgres::connect(&server.address(), tokio_postgres::NoTls)
                .await
                .unwrap();
        tokio::spawn(connection);
        client
            .batch_execute("BEGIN; LOCK TABLE accounts IN EXCLUSIVE MODE")
            .await
            .unwrap();
        for _ in 0..20 {
            world.deposit("bob", 1).await;
        }
        assert_eq!(world.balances().await[1].1, 1);
        client.batch_execute("COMMIT").await.unwrap();
        world.until_balances(&[("ada", 2), ("bob", 21)]).await;

        // Wiped: its tables are gone.
        client
            .batch_execute("DROP TABLE accounts, deposits")
            .await
            .unwrap();
        world.deposit("cyd", 1).await;
        world
            .until("the tables are made anew", async || {
                let found = world
                    .model
                    .model
                    .query("SELECT id FROM accounts", vec![])
                    .await;
                found.is_ok_and(|rows| rows.len() == 1)
            })
            .await;
        let names = ["ada", "bob", "cyd"];
        let env = world.node.env();
        let banks = env.object::<crate::projection::support::Bank>();
        let ask = async |name| banks.get_by_name(name).feed_again().await;
        let rebuild = world
            .projection
            .rebuild(env, &world.model, names, ask, |_| {});
        tokio::select! {
            done = rebuild => assert_eq!(done.unwrap().asked, 3),
            () = async { loop {
                world.clock.advance(Duration::from_millis(50));
                tokio::time::sleep(Duration::from_millis(1)).await;
            } } => unreachable!(),
        }
        world
            .until_balances(&[("ada", 2), ("bob", 21), ("cyd", 1)])
            .await;
    });
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_read_model_may_be_made_by_several_at_once() {
    run(async {
        let server = Postgres::start();
        let models: Vec<Arc<dyn ReadModel>> = (0..8).map(|_| model(&server)).collect();
        let apply = models
            .iter()
            .map(|model| model.apply(vec![row("a", 1, 10)]));
        for applied in futures_util::future::join_all(apply).await {
            applied.unwrap();
        }
    });
}

#[test]
#[ignore = "needs PostgreSQL"]
fn columns_are_added_and_other_changes_are_refused() {
    run(async {
        let server = Postgres::start();
        let model = |column, of| {
            let table = Table::new("accounts")
                .column("balance", Type::Integer)
                .column(column, of)
                .index([column]);
            PostgresModel::new(&server.address(), Tables::new([table]).unwrap()).unwrap()
        };
        model("owner", Type::Text)
            .apply(vec![row("a", 1, 10)])
            .await
            .unwrap();
        let wider = model("rate", Type::Real);
        let mut later = row("a", 2, 20);
        later.values.remove("owner");
        wider.apply(vec![later.clone()]).await.unwrap();
        assert_eq!(accounts(&wider).await[0].balance, 20);
        let refused = model("owner", Type::Integer);
        let refused = refused.apply(vec![later]).await.unwrap_err();
        assert!(
            matches!(refused, ProjectionError::Unavailable(_)),
            "no row is to blame"
        );
        assert!(
            refused.to_string().contains("give it another name"),
            "{refused}"
        );
    });
}

#[test]
fn a_missing_server_is_unavailable_and_an_invalid_address_is_refused() {
    run(async {
        let nowhere = PostgresModel::new("host=/nowhere user=x", tables()).unwrap();
        let error = nowhere.apply(vec![row("a", 1, 1)]).await.unwrap_err();
        assert!(matches!(error, ProjectionError::Unavailable(_)), "{error}");
        for wrong in [
            "nonsense",
            "host=a password=s3cret port=x",
            "host=a password=a s3cret=b",
            "host=a password=a s3cret",
            "postgresql://x:s3cret@a:port/b",
        ] {
            let error = PostgresModel::new(wrong, tables()).unwrap_err();
            assert!(matches!(error, ProjectionError::Invalid(_)), "{error}");
            let told = format!("{error} {error:?}");
            assert!(!told.contains("s3cret") && !told.contains(wrong), "{told}");
        }
    });
}

/// A server that speaks TLS with an untrusted certificate, in front of another; returns where it listens.
async fn with_tls(server: &Postgres) -> u16 {
    let certificate = CertificateDer::from_pem_slice(include_bytes!(
        "../../../../../verify/harness/shared/tls/certificate.pem"
    ));
    let key = PrivateKeyDer::from_pem_slice(include_bytes!(
        "../../../../../verify/harness/shared/tls/key.pem"
    ));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.unwrap()], key.unwrap())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let address = server.address();
    let dir = address
        .split(' ')
        .next()
        .unwrap()
        .trim_start_matches("host=");
    let socket = format!("{dir}/.s.PGSQL.5432");
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (acceptor, socket) = (acceptor.clone(), socket.clone());
            tokio::spawn(async move {
                // The request for TLS; a client that wants none begins otherwise and is not served.
                let mut request = [0; 8];
                client.read_exact(&mut request).await?;
                if request[4..] != 80_877_103_u32.to_be_bytes() {
                    return Ok(());
                }
                client.write_all(b"S").await?;
                let mut client = acceptor.accept(client).await?;
                let mut server = UnixStream::connect(socket).await?;
                copy_bidirectional(&mut client, &mut server).await.map(drop)
            });
        }
    });
    port
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_login_is_bound_to_the_server_and_goes_to_no_other() {
    run(async {
        let server = Postgres::start_with_tls();
        let port = with_tls(&server).await;
        let direct = server.address_with_tls();
        for (address, is_served) in [
            (direct.clone(), true),
            (format!("{direct} channel_binding=require"), true),
            // With another TLS session, it cannot prove that it is the server.
            (
                format!(
                    "host=127.0.0.1 port={port} user=test dbname=postgres channel_binding=require"
                ),
                false,
            ),
        ] {
            let address = format!("{address} sslmode=require");
            let model = PostgresModel::new(&address, tables()).unwrap();
            let wrote = model.apply(vec![row("a", 1, 1)]).await;
            assert_eq!(wrote.is_ok(), is_served, "{address}: {wrote:?}");
        }
    });
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_connection_is_encrypted_and_a_server_that_must_prove_who_it_is_does() {
    run(async {
        let server = Postgres::start();
        let port = with_tls(&server).await;
        for (mode, is_served) in [
            ("sslmode=require", true),
            ("sslmode=prefer", true),
            ("", true),
            ("sslmode=disable", false),
            // The machine does not trust the certificate's issuer.
            ("sslmode=verify-full", false),
        ] {
            let address = format!("host=127.0.0.1 port={port} user=test dbname=postgres {mode}");
            // A machine that trusts no certificate makes no model that must verify.
            let wrote = match PostgresModel::new(&address, tables()) {
                Ok(model) => model.apply(vec![row("a", 1, 1)]).await,
                Err(error) => Err(error),
            };
            assert_eq!(wrote.is_ok(), is_served, "{mode}: {wrote:?}");
        }
    });
}
