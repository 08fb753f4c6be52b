//! Extractors for axum's handlers: the [`Env`], and the object that a path names.

use std::convert::Infallible;

use axum::extract::{FromRef, FromRequestParts, RawPathParams, rejection::RawPathParamsRejection};
use axum_core::response::{IntoResponse, Response};
use http::request::Parts;

use crate::{Env, Error, ErrorKind, ObjectClass, Stub};

/// The [`Env`] of a router with the state `Env`, or with a state from which it [can be taken](FromRef).
impl<S: Sync> FromRequestParts<S> for Env
where
    Self: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(_parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(Self::from_ref(state))
    }
}

/// The object that the route's first path parameter names: for `/flights/{flight}/seats` the object of class `T` whose
/// name is the value of `flight`.
///
/// If clients choose the name, the first write to it creates an object: validate names ([`Stub::name`]), or limit new objects with the
/// setting `server.new_objects_per_client`.
///
/// # Errors
/// 400 if the name is not UTF-8. 500 if the route has no path parameter, or the class is not registered exactly once; the
/// log says which.
impl<S: Sync, T: ObjectClass> FromRequestParts<S> for Stub<T>
where
    Env: FromRef<S>,
{
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let name = match RawPathParams::from_request_parts(parts, &()).await {
            Ok(params) => params.iter().next().map(|(_, name)| name.to_owned()),
            Err(RawPathParamsRejection::InvalidUtf8InPathParam(invalid)) => {
                let error = Error::with_kind(ErrorKind::Input, invalid.body_text());
                return Err(error.into_response());
            }
            // A fallback has no route.
            Err(_) => None,
        };
        let Some(name) = name else {
            let error = format!(
                "the route of {} has no path parameter that names an object of {}: write `/path/{{name}}`",
                parts.uri.path(),
                T::NAME
            );
            return Err(Error::new(error).into_response());
        };
        let objects = Env::from_ref(state).try_object::<T>();
        let objects =
            objects.map_err(|error| Error::new(error.message().to_owned()).into_response())?;
        Ok(objects.get_by_name(&name))
    }
}
