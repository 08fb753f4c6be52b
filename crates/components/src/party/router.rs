//! The addresses of rooms: `/parties/{party}/{room}`, as `partysocket` has them.

use std::{collections::BTreeMap, sync::Arc};

use abide::{
    AnyNamespace, Env, ObjectClass, Request, Response,
    server::{
        ApiError, UrlPath,
        access::{Need, Role, Route},
    },
};
use axum::{Router, extract::State, routing::any};
use serde::Deserialize;

use super::{PartyError, limits::MAX_ROOM_BYTES};

/// The parties of a program: kinds of rooms, each a class of objects, by the name that clients know.
///
/// ```
/// # use abide::{Env, prelude::*};
/// # #[durable_object]
/// # pub struct Chat;
/// # impl DurableObject for Chat { fn new(_: Ctx, _: Env) -> Result<Self> { Ok(Self) } }
/// use abide::{party::Parties, server::access::Access};
///
/// fn router(env: Env) -> axum::Router {
///     let parties = Parties::new(env.clone()).party::<Chat>("main");
///     let need = parties.need();
///     Access::of(&env).protect(parties.router(), need)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Parties {
    env: Env,
    classes: BTreeMap<String, AnyNamespace>,
}

#[derive(Deserialize)]
struct RoomPath {
    party: String,
    room: String,
}

impl Parties {
    /// No party yet.
    pub fn new(env: Env) -> Self {
        Self {
            env,
            classes: BTreeMap::new(),
        }
    }

    /// Adds a party. `main` is the party of clients that name none.
    #[must_use]
    pub fn party<T: ObjectClass>(mut self, name: &str) -> Self {
        let class = self.env.object::<T>().untyped().clone();
        self.classes.insert(name.to_owned(), class);
        self
    }

    /// The routes `/parties/{party}/{room}` and `/parties/{party}/{room}/{*path}`, for every method: each request goes to the room's
    /// `fetch`, and the object is the one of the class that has the room's name.
    pub fn router(self) -> Router {
        Router::new()
            .route("/parties/{party}/{room}", any(enter))
            .route("/parties/{party}/{room}/{*path}", any(enter))
            .with_state(Arc::new(self.classes))
    }

    /// What a request needs: [`Role::Operate`] for the room's object, because a client that enters a room may write
    /// there.
    pub fn need(&self) -> impl Fn(&Route<'_>) -> Need + Send + Sync + 'static {
        let classes = self.classes.clone();
        move |route| {
            let need = Need::role(Role::Operate);
            match classes.get(route.param("party")) {
                Some(class) => need.object(class.class(), route.param("room")),
                None => need,
            }
        }
    }
}

async fn enter(
    State(classes): State<Arc<BTreeMap<String, AnyNamespace>>>,
    UrlPath(path): UrlPath<RoomPath>,
    request: Request,
) -> Result<Response, ApiError> {
    let RoomPath { party, room } = path;
    let Some(class) = classes.get(&party) else {
        let known: Vec<_> = classes.keys().map(String::as_str).collect();
        let known = known.join(", ");
        return Err(PartyError::NoParty { party, known }.into());
    };
    if room.is_empty() || room.len() > MAX_ROOM_BYTES || room.contains(char::is_control) {
        return Err(PartyError::InvalidRoom.into());
    }
    Ok(class.get_by_name(&room).fetch(request).await?)
}
