//! An application to try a waiting room with.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::{Router, http::HeaderMap, response::Html, routing::get};
use maud::{DOCTYPE, html};

const STYLE: &str =
    "body{font:1.05rem/1.5 system-ui,sans-serif;max-width:36rem;margin:4rem auto;padding:0 1.25rem}
:root{color-scheme:light dark}h1{font-size:1.8rem}code{font-size:.9em}";

/// Serves until Ctrl-C.
pub(crate) async fn serve(address: &str) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!(
        "an application to try a waiting room with: http://{}",
        listener.local_addr()?
    );
    let router = Router::new().fallback(get(shop).post(shop));
    let ended = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    axum::serve(listener, router)
        .with_graceful_shutdown(ended)
        .await?;
    Ok(())
}

async fn shop(headers: HeaderMap) -> Html<String> {
    let header = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or("-")
            .to_owned()
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; meta name="viewport" content="width=device-width"; title { "The shop" } style { (STYLE) } }
            body {
                main {
                    h1 { "You are in" }
                    p { "This is the application behind the waiting room." }
                    p { "It is asked for " code { (header("host")) } ", by " code { (header("x-forwarded-for")) } ", at " code { (now) } "." }
                }
            }
        }
    };
    Html(page.into_string())
}
