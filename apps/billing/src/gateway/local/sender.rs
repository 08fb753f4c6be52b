//! Sends the gateway's webhooks.

use abide::http::{Request, header};
use abide::outbox::handlers::Secret;
use axum::{Router, body::Body};
use tower::ServiceExt;

use super::LocalGateway;
use crate::{Time, gateway::Told};

/// Their path.
const PATH: &str = "/v1/gateway/events";

impl LocalGateway {
    /// Sends the webhooks that are due, signed, to the program with this router. Rejected webhooks are sent again.
    pub async fn send_events(&self, secret: &Secret, edge: &Router) {
        for event in self.take_all() {
            let taken = match self.request(secret, &event) {
                Some(request) => match edge.clone().oneshot(request).await {
                    Ok(response) => response.status().is_success(),
                    Err(never) => match never {},
                },
                None => true,
            };
            if !taken {
                self.send_again(event);
            }
        }
    }

    fn request(&self, secret: &Secret, event: &Told) -> Option<Request<Body>> {
        let id = match event {
            Told::Payment(event) => &event.id,
            Told::Refund(event) => &event.id,
        };
        let body = serde_json::to_vec(event).ok()?;
        let now = Time::now(&*self.clock).seconds();
        let mut request = Request::post(PATH).header(header::CONTENT_TYPE, "application/json");
        for (name, value) in secret.headers(id, now, &body) {
            request = request.header(name, value);
        }
        request.body(Body::from(body)).ok()
    }
}
