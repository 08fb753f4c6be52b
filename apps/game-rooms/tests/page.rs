//! Two pages of a real browser play: the computer's and the phone's, whose motion is emulated.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod support;

use abide_harness::{Browser, Page, axe, until};
use support::program;

/// Gravity in the direction of a tilt, as Android tells it: the axis that points up has a positive value.
async fn tilt(phone: &Page, x: f64, y: f64) {
    phone
        .eval(&format!(
            "dispatchEvent(new DeviceMotionEvent('devicemotion', {{
                 accelerationIncludingGravity: {{ x: {}, y: {}, z: 7 }}, interval: 16,
             }}))",
            -x * 9.81,
            y * 9.81
        ))
        .await;
}

/// The code that the computer's page shows.
async fn code(screen: &Page) -> String {
    screen
        .until("/^[2-9A-Z]{4}$/.test(document.getElementById('code').textContent)")
        .await;
    let code = screen
        .eval("document.getElementById('code').textContent")
        .await;
    code.as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn a_phone_joins_with_the_code_collects_blips_by_tilting_and_ends_at_the_edge() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let browser = Browser::start().await;
    let screen = browser.open(&server.client().url("/")).await;
    let code = code(&screen).await;
    screen
        .until("document.getElementById('qr').naturalWidth > 0")
        .await;
    axe(&screen, "game-rooms-waiting").await;

    let phone = browser.open(&server.client().url("/play")).await;
    axe(&phone, "game-rooms-join").await;
    phone.fill("#code", &code.to_lowercase()).await;
    phone.click("#join button").await;
    phone
        .until("document.getElementById('line').textContent === 'Connected'")
        .await;
    phone.click("#motion").await;
    phone
        .until("document.getElementById('motion').hidden")
        .await;
    screen
        .until("document.getElementById('peers').textContent === '1'")
        .await;
    phone.click("#play").await;
    screen.until("game.state === 'playing'").await;

    // The phone is tilted to where the next blip is, until three were collected.
    until("three blips to be collected", async || {
        let way = screen
            .eval("game.state === 'playing' ? [game.blip.x - game.head.x, game.blip.y - game.head.y, game.score] : null")
            .await;
        assert!(!way.is_null(), "the thing went over the edge");
        let (x, y) = (way[0].as_f64().unwrap(), way[1].as_f64().unwrap());
        let length = x.hypot(y).max(0.1);
        tilt(&phone, x / length * 0.5, y / length * 0.5).await;
        (way[2].as_u64().unwrap() >= 3).then_some(())
    })
    .await;
    let speed = screen.eval("game.speed > START_SPEED * 1.2").await;
    assert_eq!(speed, true, "it goes faster with each blip");
    phone
        .until("Number(document.getElementById('score').textContent) >= 3")
        .await;
    axe(&screen, "game-rooms-playing").await;

    until("the edge", async || {
        tilt(&phone, 0.5, 0.0).await;
        (screen.eval("game.state").await == "over").then_some(())
    })
    .await;
    phone
        .until("document.getElementById('play').textContent === 'Play again'")
        .await;
    axe(&phone, "game-rooms-again").await;
    axe(&screen, "game-rooms-over").await;
    phone.click("#play").await;
    screen
        .until("game.state === 'playing' && game.score === 0")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn a_game_is_played_with_arrow_keys_alone_and_a_wrong_code_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let browser = Browser::start().await;
    let screen = browser.open(&server.client().url("/")).await;
    let code = code(&screen).await;
    let key = "dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowUp', cancelable: true }))";
    screen.eval(key).await;
    screen.until("game.heading.y === -1").await;
    screen.until("game.state === 'over'").await;
    assert_eq!(screen.eval("game.head.y < 0").await, true);

    let other = if code == "2222" { "3333" } else { "2222" };
    let phone = browser
        .open(&server.client().url(&format!("/play/{other}")))
        .await;
    phone
        .until("document.getElementById('wrong').textContent.includes('No room has the code')")
        .await;
    phone
        .go(&server.client().url(&format!("/play/{code}")))
        .await;
    phone
        .until("document.getElementById('line').textContent === 'Connected'")
        .await;
    // An arrow of the phone steers as well.
    phone.click("#play").await;
    screen.until("game.state === 'playing'").await;
    phone
        .eval("document.querySelector('#keys [data-y=\"1\"]').dispatchEvent(new PointerEvent('pointerdown'))")
        .await;
    screen.until("game.heading.y === 1").await;
}
