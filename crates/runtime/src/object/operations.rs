//! Operators' requests to the components of an object, which need no code in its class.

use std::rc::Rc;

use super::Object;
use crate::{Body, Error, ErrorKind, LocalFuture, Reply, Request, Response, Result};

/// Answers an operator's request to a component.
pub(crate) type Operations = Rc<dyn Fn(Request) -> LocalFuture<Result<Response>>>;

impl Object {
    /// Lets a component answer operators' requests under its name, for the lifetime of this incarnation.
    pub(crate) fn serve_operations(&self, component: &str, answer: Operations) -> Result<()> {
        let mut components = self.components.borrow_mut();
        if components.contains_key(component) {
            return Err(Error::with_kind(
                ErrorKind::Input,
                format!(
                    "the object already has a component `{component}`: component names must be unique"
                ),
            ));
        }
        components.insert(component.to_owned(), answer);
        Ok(())
    }

    /// Sends a request to a component; without a name, lists the components.
    pub(super) fn operate(
        &self,
        component: Option<&str>,
        request: Request,
    ) -> LocalFuture<Result<Reply>> {
        let answer = match component {
            None => {
                let names = self.components.borrow();
                let names: Vec<_> = names.keys().map(|name| format!("{name:?}")).collect();
                let list = format!("[{}]", names.join(","));
                return Box::pin(async { Ok(Reply::Fetch(Response::new(Body::from(list)))) });
            }
            Some(component) => match self.components.borrow().get(component) {
                Some(answer) => Ok(Rc::clone(answer)),
                None => Err(Error::with_kind(
                    ErrorKind::NotFound,
                    format!("the object {} has no component `{component}`", self.id),
                )),
            },
        };
        Box::pin(async move { answer?(request).await.map(Reply::Fetch) })
    }
}
