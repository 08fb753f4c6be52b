//! Sockets that an object opens, with a fake connector.

use std::sync::{Arc, Mutex};

use abide::{
    ErrorKind, http,
    prelude::*,
    socket::{CloseFrame, ConnectedWebSocket, Connecting, Endpoint, WebSocketConnector},
};

use crate::{
    support::{World, run},
    websockets::room::{Room, next, notes, room, world},
};

/// Connects to `ws://there/…` at once, and to nothing else.
#[derive(Clone, Default)]
struct Connector(Arc<Mutex<Vec<Endpoint>>>);

impl WebSocketConnector for Connector {
    fn connect(&self, request: http::Request<()>) -> Connecting {
        let served = Arc::clone(&self.0);
        let there = request.uri().host() == Some("there");
        Box::pin(async move {
            if !there {
                return Err(Error::with_kind(ErrorKind::Io, "no server is there"));
            }
            Ok(ConnectedWebSocket {
                headers: http::HeaderMap::new(),
                serve: Box::new(move |endpoint| served.lock().unwrap().push(endpoint)),
            })
        })
    }
}

fn connected_world() -> (World, Connector) {
    let connector = Connector::default();
    let given = Arc::new(connector.clone());
    let world = World::new(|node| {
        node.class::<Room>(ClassOptions::default())
            .websocket_connector(given)
    });
    (world, connector)
}

#[test]
fn a_socket_that_an_object_opens_is_like_one_that_it_accepts() {
    run(async {
        let (world, connector) = connected_world();
        room(&world).dial("ws://there/".to_owned()).await.unwrap();
        let mut endpoint = connector.0.lock().unwrap().pop().unwrap();
        assert_eq!(next(&mut endpoint).await, "dialled");
        endpoint.deliver("tags").await.unwrap();
        assert_eq!(next(&mut endpoint).await, "out");
        endpoint.end(CloseFrame::of(1000, ""));
        world
            .until(|_| notes(&world) == [r#"closed 1000 "" clean Closed, 0 left"#])
            .await;
    });
}

#[test]
fn a_connection_is_not_opened_before_what_was_written_is_durable() {
    run(async {
        let (world, connector) = connected_world();
        world.disk.hold_syncs();
        let dialling = room(&world).write_and_dial("ws://there/".to_owned());
        world.until(|node| node.stats().held == 1).await;
        world.fence().await;
        assert!(connector.0.lock().unwrap().is_empty());
        world.disk.release_syncs();
        dialling.await.unwrap();
        assert_eq!(connector.0.lock().unwrap().len(), 1);
    });
}

#[test]
fn a_socket_that_cannot_be_opened_is_an_error_and_no_socket() {
    run(async {
        let (world, _connector) = connected_world();
        let error = room(&world).dial("ws://elsewhere/".to_owned()).await;
        assert_eq!(error.unwrap_err().message(), "no server is there");
        assert_eq!(room(&world).sockets().await.unwrap(), 0);
    });
}

#[test]
fn a_node_without_a_connector_says_what_is_missing() {
    run(async {
        let world = world();
        let error = room(&world).dial("ws://there/".to_owned()).await;
        let error = error.unwrap_err();
        assert!(error.message().contains("websocket_connector"), "{error}");
    });
}
