//! The object of these tests: it notes what happens to its sockets, and does what messages tell it to.

use std::{task::Poll, time::Duration};

use abide::{
    Response,
    clock::Clock as _,
    prelude::*,
    socket::{ClientSocket, CloseFrame, Endpoint, Frame},
};
use serde::{Deserialize, Serialize};

use crate::support::{Signals, World, signals};

#[durable_object]
pub(crate) struct Room {
    ctx: Ctx,
    signals: Signals,
}

/// What the tests attach.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Member {
    name: String,
    messages: u32,
}

impl DurableObject for Room {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let signals = signals(&env);
        signals.note("new");
        if signals.notes().contains(&"refuse".to_owned()) {
            return Err(Error::new("the room is not to be had"));
        }
        Ok(Self { ctx, signals })
    }

    /// `/a,b` accepts a socket with the tags `a` and `b`; `/` one without any. `?then=…` says what happens besides.
    async fn fetch(&self, request: Request) -> Result<Response> {
        let path = request.uri().path().trim_start_matches('/').to_owned();
        let tags: Vec<&str> = path.split(',').filter(|tag| !tag.is_empty()).collect();
        let (ws, response) = self.ctx.accept_websocket(&tags)?;
        match request.uri().query() {
            Some("refuse") => return Ok(Response::new(Body::from("no"))),
            Some("panic") => panic!("on purpose"),
            _ => {}
        }
        if request.uri().query() == Some("greet") {
            self.ctx.storage().put("greeted", &true)?;
            ws.send("welcome")?;
        }
        Ok(response)
    }

    #[allow(clippy::too_many_lines, reason = "a list of verbs")]
    async fn websocket_message(&self, ws: WebSocket, message: Message) -> Result<()> {
        let Some(text) = message.as_text() else {
            return ws.send(message);
        };
        let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
        match verb {
            "echo" => ws.send(rest),
            "note" => {
                self.signals.note(rest);
                Ok(())
            }
            "all" => self.ctx.broadcast(rest),
            "all-json" => self.ctx.broadcast_json(&[rest]),
            "others" => self.ctx.audience().except(&ws).send(rest),
            "to" => {
                let (tag, text) = rest.split_once(' ').unwrap();
                self.ctx.audience().tagged(tag).send(text)
            }
            "close-then-all" => {
                ws.close(1000, "")?;
                self.ctx.broadcast(rest)
            }
            "tagged" => ws.send(self.ctx.websockets_with_tag(rest).len().to_string()),
            "tags" => ws.send(self.ctx.tags(&ws).join(",")),
            "attach" => ws.set_attachment(&Member {
                name: rest.to_owned(),
                messages: 7,
            }),
            "attached" => {
                let member: Option<Member> = ws.attachment()?;
                ws.send(format!("{member:?}"))
            }
            "attach-bytes" => {
                let error = ws.set_attachment(&"x".repeat(rest.parse().unwrap()));
                ws.send(format!("{:?}", error.map_err(|error| error.kind())))
            }
            "put" => {
                self.ctx.storage().put("key", rest)?;
                ws.send(format!("put {rest}"))
            }
            "put-then-panic" => {
                self.ctx.storage().put("key", rest)?;
                ws.send("never")?;
                panic!("on purpose");
            }
            "get" => {
                let value: Option<String> = self.ctx.storage().get("key")?;
                ws.send(value.unwrap_or_default())
            }
            "flood" => {
                for number in 0..rest.parse().unwrap() {
                    ws.send(format!("{number:0>1000}"))?;
                }
                Ok(())
            }
            "wait" => {
                self.signals.note(format!("waiting {rest}"));
                self.signals.wait(rest).await;
                self.signals.note(format!("waited {rest}"));
                ws.send(rest)
            }
            "shut" => {
                let signals = self.signals.clone();
                self.ctx
                    .block_concurrency_while(async move {
                        signals.wait("open").await;
                        Ok(())
                    })
                    .await
            }
            "shut-then-fail" => {
                let signals = self.signals.clone();
                self.ctx
                    .block_concurrency_while(async move {
                        signals.wait("fail").await;
                        Err::<(), _>(Error::new("on purpose"))
                    })
                    .await
            }
            "auto" => {
                let (request, response) = rest.split_once('=').unwrap();
                let pair = RequestResponsePair::new(request, response)?;
                self.ctx.set_auto_response(Some(pair))
            }
            "no-auto" => self.ctx.set_auto_response(None),
            "auto?" => {
                let pair = self.ctx.auto_response();
                let stamp = ws.auto_response_timestamp();
                ws.send(format!("{} {stamp:?}", pair.is_some()))
            }
            "close" => {
                let (code, reason) = rest.split_once(' ').unwrap_or((rest, ""));
                match ws.close(code.parse().unwrap(), reason) {
                    Ok(()) => {
                        self.signals.note(format!("{:?}", ws.ready_state()));
                        let late = ws.send("late").unwrap_err();
                        self.signals.note(late.message().to_owned());
                        Ok(())
                    }
                    Err(error) => ws.send(error.to_string()),
                }
            }
            "close-all-then-panic" => {
                for ws in self.ctx.websockets() {
                    ws.close(1000, "")?;
                }
                panic!("on purpose");
            }
            "auto-then-panic" => {
                let pair = RequestResponsePair::new(rest, "never")?;
                self.ctx.set_auto_response(Some(pair))?;
                panic!("on purpose");
            }
            "state" => ws.send(format!("{:?}", ws.ready_state())),
            "fail" => Err(Error::new("the handler says no")),
            "panic" => panic!("on purpose"),
            _ => Err(Error::new(format!("{text} means nothing"))),
        }
    }

    async fn websocket_close(&self, ws: WebSocket, close: Close) -> Result<()> {
        let Close {
            code,
            reason,
            was_clean,
        } = close;
        let left = self.ctx.websockets();
        assert!(!left.contains(&ws));
        ws.close(code, "answered already")?;
        let clean = if was_clean { "clean" } else { "not clean" };
        self.signals.note(format!(
            "closed {code} {reason:?} {clean} {:?}, {} left",
            ws.ready_state(),
            left.len()
        ));
        Ok(())
    }

    async fn websocket_error(&self, _ws: WebSocket, error: Error) -> Result<()> {
        self.signals.note(format!("error {error}"));
        Ok(())
    }
}

#[rpc]
impl Room {
    pub async fn sockets(&self) -> usize {
        self.ctx.websockets().len()
    }

    pub async fn ids(&self) -> Vec<u64> {
        let sockets = self.ctx.websockets();
        sockets.iter().map(WebSocket::id).collect()
    }

    /// Accepts a socket with these tags and says what came of it.
    pub async fn try_tags(&self, tags: Vec<String>) -> String {
        let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
        match self.ctx.accept_websocket(&tags) {
            Ok((ws, _)) => ws.tags().join(","),
            Err(error) => error.to_string(),
        }
    }

    /// Keeps a socket of this object's where another object finds it.
    pub async fn say(&self, text: String) -> Result<()> {
        for ws in self.ctx.websockets() {
            ws.send(&text)?;
        }
        Ok(())
    }

    pub async fn dial(&self, url: String) -> Result<()> {
        let request = abide::http::Request::get(url).body(())?;
        let ws = self.ctx.connect_websocket(request, &["out"]).await?;
        ws.send("dialled")
    }

    pub async fn write_and_dial(&self, url: String) -> Result<()> {
        self.ctx.storage().put("key", "dialled")?;
        self.dial(url).await
    }

    pub async fn panic(&self) {
        panic!("on purpose");
    }
}

pub(crate) fn world() -> World {
    World::new(|node| node.class::<Room>(ClassOptions::default()))
}

pub(crate) fn room(world: &World) -> Stub<Room> {
    world.env().object::<Room>().get_by_name("room")
}

pub(crate) fn request(path: &str) -> Request {
    Request::builder().uri(path).body(Body::empty()).unwrap()
}

/// What a gateway finds in the answer to a request.
pub(crate) fn client_of(mut response: Response) -> ClientSocket {
    assert_eq!(response.status(), 101);
    response.extensions_mut().remove().unwrap()
}

/// Opens a socket as a gateway does.
pub(crate) async fn open(world: &World, path: &str) -> Endpoint {
    let response = room(world).fetch(request(path)).await.unwrap();
    client_of(response).claim().unwrap()
}

/// Sends a message and takes one.
pub(crate) async fn ask(socket: &mut Endpoint, message: &str) -> String {
    socket.deliver(message).await.unwrap();
    next(socket).await
}

/// The next message, which must be text.
pub(crate) async fn next(socket: &mut Endpoint) -> String {
    match socket.next_frame().await {
        abide::socket::Frame::Message(message) => message.as_text().unwrap().to_owned(),
        abide::socket::Frame::Close(close) => panic!("{close:?}"),
    }
}

/// True if there is no frame to be sent.
pub(crate) fn is_silent(socket: &Endpoint) -> bool {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    socket.poll_frame(&mut cx).is_pending()
}

/// The close that comes next, while time passes, and how much had to pass.
pub(crate) async fn closed_in_time(world: &World, socket: &Endpoint) -> (CloseFrame, Duration) {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let begin = world.clock.now();
    loop {
        world.fence().await;
        if let Poll::Ready(frame) = socket.poll_frame(&mut cx) {
            match frame {
                Frame::Close(close) => {
                    return (close, world.clock.now().saturating_sub(begin));
                }
                Frame::Message(message) => panic!("{message:?}"),
            }
        }
        world.clock.advance(Duration::from_millis(500));
    }
}

/// What the object noted, without its beginnings.
pub(crate) fn notes(world: &World) -> Vec<String> {
    let notes = world.signals.notes().into_iter();
    notes.filter(|note| note != "new").collect()
}

/// How often the object came to life.
pub(crate) fn lives(world: &World) -> usize {
    let notes = world.signals.notes();
    notes.iter().filter(|note| *note == "new").count()
}
