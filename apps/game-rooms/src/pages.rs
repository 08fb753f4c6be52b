//! The pages: each is one file that asks only its own server.

/// The computer's.
pub(crate) const GAME: &str = include_str!("game.html");

/// The phone's.
pub(crate) const CONTROLLER: &str = include_str!("controller.html");

/// What the pages may load.
pub(crate) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src 'self' data:; \
                                 connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
