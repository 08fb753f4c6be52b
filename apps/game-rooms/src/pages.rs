//! The pages: each is one file that asks only its own server.

use std::sync::LazyLock;

/// The computer's.
pub(crate) static GAME: LazyLock<String> = LazyLock::new(|| {
    let scripts = concat!(include_str!("line.js"), include_str!("sound.js"));
    include_str!("game.html").replace(SCRIPTS, scripts)
});

/// The phone's.
pub(crate) static CONTROLLER: LazyLock<String> =
    LazyLock::new(|| include_str!("controller.html").replace(SCRIPTS, include_str!("line.js")));

/// Where a page has the scripts that it shares.
const SCRIPTS: &str = "/* scripts */";

/// What the pages may load.
pub(crate) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src 'self' data:; \
                                 connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
