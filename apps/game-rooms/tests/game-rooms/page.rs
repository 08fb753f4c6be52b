//! Two pages of a real browser play: the computer's and the phone's, whose motion is emulated.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support::program;
use abide_harness::{Browser, Page, axe, until};
use serde_json::json;

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
async fn phone_joins_collects_blips_by_tilting_and_ends_at_the_edge() {
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
async fn game_is_played_with_arrow_keys_and_a_wrong_code_is_told() {
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

/// The phone is in the room, and the screen knows it.
async fn connected(phone: &Page) {
    phone
        .until("document.getElementById('line').textContent === 'Connected'")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn room_and_player_outlast_reloads_and_a_restart_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    let (address, browser) = (server.address().to_owned(), Browser::start().await);
    let home = server.client().url("/");
    let screen = browser.open(&home).await;
    let first = code(&screen).await;
    let phone = browser.open(&server.client().url("/play")).await;
    phone.fill("#code", &first).await;
    phone.click("#join button").await;
    connected(&phone).await;
    // Blips are placed in a corner, where the thing does not come by chance.
    screen.eval("game.random = () => 0; true").await;
    phone.click("#play").await;
    screen
        .until("game.state === 'playing' && pilot === 1")
        .await;
    // The player collects a blip, and the thing stays where it is.
    screen
        .eval("game.speed = 0; game.blip = { ...game.head }")
        .await;
    screen.until("mine.bests[1] === 1").await;

    // The phone reloads: its address leads to the room, its secret to its place.
    phone.go(&server.client().url("/play")).await;
    screen.until("players.length === 0").await;
    let play = server.client().url(&format!("/play/{first}"));
    phone.go(&play).await;
    phone
        .until("player === 1 && document.getElementById('you').textContent.includes('best 1')")
        .await;
    // The screen reloads: the same room, the same scores.
    screen.go(&home).await;
    assert_eq!(code(&screen).await, first);
    screen
        .until("document.getElementById('players').textContent === 'Player 11'")
        .await;
    connected(&phone).await;

    server.kill();
    phone
        .until("document.getElementById('line').textContent === 'Connecting …'")
        .await;
    let server = program(&data).listen(&address).start();
    screen.until("line.isOpen && players.join() === '1'").await;
    connected(&phone).await;
    phone
        .until("!document.getElementById('play').disabled")
        .await;
    phone.click("#play").await;
    screen
        .until("game.state === 'playing' && pilot === 1")
        .await;

    // The network goes without a word: no answer comes, and the page makes a new connection.
    phone
        .eval("line.socket.onmessage = null; globalThis.gone = line.socket; line.heardAt -= 2 * SILENT_FOR; line.look()")
        .await;
    phone
        .until("line.isOpen && line.socket !== gone && player === 1")
        .await;
    connected(&phone).await;

    // Another window with the phone's secret takes the place; the first says so and stays away.
    let secret = phone.eval("secret()").await;
    let other = browser.open(&server.client().url("/play")).await;
    other
        .eval(&format!("localStorage.setItem('player', {secret})"))
        .await;
    other.go(&play).await;
    connected(&other).await;
    phone
        .until("document.getElementById('wrong').textContent.includes('Another window')")
        .await;
    assert_eq!(other.eval("player").await, 1);
    assert_eq!(screen.eval("players.join()").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn screen_in_two_windows_says_so_and_one_without_a_room_makes_one() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let (home, browser) = (server.client().url("/"), Browser::start().await);
    let screen = browser.open(&home).await;
    let first = code(&screen).await;
    screen.until("line.isOpen").await;
    let room = screen.eval("kept.get('room')").await;
    // A copy of the window has its secret.
    let copy = browser.open(&server.client().url("/play")).await;
    let keep = |room: &serde_json::Value| format!("sessionStorage.setItem('room', {room})");
    copy.eval(&keep(&room)).await;
    copy.go(&home).await;
    assert_eq!(code(&copy).await, first);
    let title = "document.getElementById('title').textContent";
    screen
        .until(&format!(
            "{title}.includes('another screen') && line === null"
        ))
        .await;
    screen.click("#back").await;
    copy.until(&format!("{title}.includes('another screen')"))
        .await;
    assert_eq!(screen.eval(title).await, "Blips");
    // With a wrong secret a page gets a new room.
    let secret = screen.eval("mine.hostSecret").await;
    let wrong = room.as_str().unwrap();
    let wrong = wrong.replace(secret.as_str().unwrap(), &"0".repeat(32));
    copy.eval(&keep(&wrong.into())).await;
    copy.go(&home).await;
    copy.until("line?.isOpen && mine.hostSecret !== '0'.repeat(32)")
        .await;
    assert_ne!(code(&copy).await, first);
    assert_eq!(screen.eval("line.isOpen").await, true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn tilting_right_steers_right_in_every_orientation() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let browser = Browser::start().await;
    let phone = browser.open(&server.client().url("/play")).await;
    // The force of a phone whose right edge, as its user sees it, is half down: in the phone's own axes it is on the edge
    // that is to the left of what the phone shows. By the angle of the screen, the force, and the sign.
    let g = 9.81 / 2.0;
    let cases = [
        (0, -g, 0.0, 1, [0.5, 0.0]),
        // Turned to the left: its top is to the left, its right edge up.
        (90, 0.0, g, 1, [0.5, 0.0]),
        (180, g, 0.0, 1, [0.5, 0.0]),
        // Turned to the right: its top is to the right. Older iPhones call it -90.
        (270, 0.0, -g, 1, [0.5, 0.0]),
        (-90, 0.0, -g, 1, [0.5, 0.0]),
        // The far edge down: the thing goes up.
        (0, 0.0, -g, 1, [0.0, -0.5]),
        (90, -g, 0.0, 1, [0.0, -0.5]),
        (180, 0.0, g, 1, [0.0, -0.5]),
        (270, g, 0.0, 1, [0.0, -0.5]),
        // An iPhone has the opposite signs.
        (0, g, 0.0, -1, [0.5, 0.0]),
        (90, 0.0, -g, -1, [0.5, 0.0]),
        (270, 0.0, g, -1, [0.5, 0.0]),
    ];
    for (angle, x, y, sign, expected) in cases {
        let steering = format!("steering({{ x: {x}, y: {y} }}, {angle}, {sign})");
        let got = phone.eval(&steering).await;
        let got = [got["x"].as_f64().unwrap(), got["y"].as_f64().unwrap()];
        let is_near = (got[0] - expected[0]).abs() + (got[1] - expected[1]).abs() < 1e-9;
        assert!(is_near, "{steering}: {got:?}, not {expected:?}");
    }
    // What the page sends depends on how it is held at that moment.
    phone
        .eval("globalThis.sent = []; line = { backlog: 0, send: (text) => sent.push(JSON.parse(text)) }")
        .await;
    phone.click("#motion").await;
    phone
        .until("document.getElementById('motion').hidden")
        .await;
    for (angle, x, y) in [(0, 0.5, 0.0), (90, 0.0, 0.5), (270, 0.0, -0.5)] {
        phone
            .eval(&format!(
                "sent.length = 0; last = -1000; \
                 Object.defineProperty(screen.orientation, 'angle', {{ value: {angle}, configurable: true }})"
            ))
            .await;
        tilt(&phone, x, y).await;
        let tilt = phone.eval("sent[0].tilt").await;
        assert!(
            (tilt["x"].as_f64().unwrap() - 0.5).abs() < 1e-9,
            "{angle}: {tilt}"
        );
        assert!(tilt["y"].as_f64().unwrap().abs() < 1e-9, "{angle}: {tilt}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn phone_that_asks_for_permission_is_asked_on_the_tap_only() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let browser = Browser::start().await;
    let phone = browser.open(&server.client().url("/play")).await;
    phone
        .eval(
            "globalThis.asked = 0; globalThis.answer = 'denied'; \
             DeviceMotionEvent.requestPermission = async () => { asked += 1; return answer; }; \
             globalThis.sent = []; line = { backlog: 0, send: (text) => sent.push(JSON.parse(text)) }",
        )
        .await;
    assert_eq!(phone.eval("asked").await, 0);
    phone.click("#motion").await;
    phone
        .until("document.getElementById('how').textContent.includes('does not tell')")
        .await;
    tilt(&phone, 0.5, 0.0).await;
    let state = "[asked, sent.length, document.getElementById('motion').hidden]";
    assert_eq!(phone.eval(state).await, json!([1, 0, false]));
    phone.eval("answer = 'granted'").await;
    phone.click("#motion").await;
    phone
        .until("document.getElementById('motion').hidden")
        .await;
    // An iPhone that stands upright does not show its sign yet: its force points down.
    phone
        .eval(
            "dispatchEvent(new DeviceMotionEvent('devicemotion', \
             { accelerationIncludingGravity: { x: 4.905, y: 0, z: 0 }, interval: 16 }))",
        )
        .await;
    let state = "[asked, sent.length, Math.abs(sent[0].tilt.x - 0.5) < 1e-9]";
    assert_eq!(phone.eval(state).await, json!([2, 1, true]));
}

/// A sample of a sound that is heard.
const LOUD: f64 = 0.05;

/// How often something is repeated that should sound: a busy machine may miss what is short.
const TRIES: u32 = 40;

/// The loudest sample of the page's sounds in the quarter of a second after each of some tries, until it is loud enough.
async fn loudness(screen: &Page, cause: &str, tries: u32) -> f64 {
    let heard = screen
        .eval(&format!(
            "(async () => {{
                 const ear = sound.context.createAnalyser(), samples = new Float32Array(ear.fftSize);
                 sound.out.connect(ear);
                 let most = 0;
                 for (let times = 0; times < {tries} && most < {LOUD}; times++) {{
                     {cause};
                     for (let look = 0; look < 25; look++) {{
                         await new Promise((next) => setTimeout(next, 10));
                         ear.getFloatTimeDomainData(samples);
                         most = Math.max(most, ...samples.map(Math.abs));
                     }}
                 }}
                 sound.out.disconnect(ear);
                 return most;
             }})()"
        ))
        .await;
    heard.as_f64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn sound_starts_with_a_gesture_and_the_switch_mutes_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = program(&dir.path().join("data")).start();
    let browser = Browser::start().await;
    let screen = browser.open(&server.client().url("/")).await;
    let label = "document.getElementById('sound').textContent";
    // A phone starts the game: no one has touched this page.
    screen.eval("heard('1 {\"play\":true}')").await;
    assert_eq!(
        screen.eval("[game.state, pilot, sound.context]").await,
        json!(["playing", 1, null])
    );
    assert_eq!(screen.eval(label).await, "Turn sound on");
    screen.click("#sound").await;
    screen.until("sound.context.state === 'running'").await;
    assert_eq!(screen.eval(label).await, "Mute sound");
    for cause in ["sound.begin()", "sound.blip(1)", "sound.over()"] {
        let heard = loudness(&screen, cause, TRIES).await;
        assert!(heard >= LOUD, "{cause}: {heard}");
    }
    // The game itself makes them.
    let blip = "if (game.state !== 'playing') begin(null); game.blip = { ...game.head }";
    let heard = loudness(&screen, blip, TRIES).await;
    assert!(heard >= LOUD, "{heard}");
    screen.click("#sound").await;
    screen.until("sound.context.state === 'suspended'").await;
    assert_eq!(screen.eval(label).await, "Turn sound on");
    let heard = loudness(&screen, "sound.blip(1)", 1).await;
    assert!(heard < 1e-6, "{heard}");
    // The switch is remembered; a key starts nothing then.
    screen.go(&server.client().url("/")).await;
    let key = "dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowUp', cancelable: true }))";
    screen.eval(key).await;
    assert_eq!(screen.eval("sound.context").await, json!(null));
    screen.click("#sound").await;
    screen.until("sound.isAudible").await;
    // And so is that it is on: now a key is enough.
    screen.go(&server.client().url("/")).await;
    screen.eval(key).await;
    screen.until("sound.context.state === 'running'").await;
}
