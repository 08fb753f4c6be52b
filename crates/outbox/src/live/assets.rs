//! The two scripts of a live page.

use std::sync::LazyLock;

use abide::server::Asset;

/// Hotwired Turbo: <https://turbo.hotwired.dev>. Its licence is next to it.
pub static TURBO: LazyLock<Asset> =
    LazyLock::new(|| Asset::script("turbo", include_str!("assets/turbo.js")));

/// The element `<abide-live src="…">`, which connects a page with its outbox, and reconnects it.
pub static LIVE: LazyLock<Asset> =
    LazyLock::new(|| Asset::script("live", include_str!("assets/live.js")));
