//! Writes the seed inputs of the fuzzers into `corpus/`: valid examples of the formats. `cargo run -p abide-fuzz
//! --example seeds`

#![allow(
    clippy::unwrap_used,
    reason = "a program for developers, which ends where it fails"
)]

use abide_fuzz::recovery;
use abide_storage::cbor;
use std::path::Path;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};
use tungstenite::protocol::frame::{Frame, FrameHeader};

fn main() {
    config();
    copies();
    http();
    kv();
    log();
    proxy();
    recovery_();
    websocket();
}

fn save(target: &str, name: &str, bytes: &[u8]) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join(format!("seed-{name}")), bytes).unwrap();
}

fn config() {
    let manual = include_str!("../../../docs/configuration.md");
    let (_, rest) = manual.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    save("config", "manual", example.as_bytes());
    for (name, text) in [
        ("empty", ""),
        ("unknown", "[server]\nlisten = \"127.0.0.1:0\"\nspeed = 3\n"),
        ("table", "[server.listen]\nhost = \"a\"\n"),
        ("array", "server = [1, 2]\n"),
        (
            "variables",
            "[log]\nlevel = \"warn\"\n---\nABIDE__SERVER__LISTEN=[::1]:80\nABIDE__OBJECTS__WORKERS=auto\n",
        ),
        ("bad-variables", "---\nABIDE__SERVER=x\nABIDE__A__B__C=y\n"),
        (
            "units",
            "[storage]\nsegment_bytes = \"64MiB\"\ncheckpoint_bytes = 18446744073709551615\n",
        ),
    ] {
        save("config", name, text.as_bytes());
    }
}

fn copies() {
    let manifest = r#"{"number":1,"writer":"00000000000000ab","session":"000000000000000000000000000000cd","unix_millis":5,"runs":[{"number":2,"key":"runs/00000000000000ab/0000000000000000-000000000000000000000000000000cd/0000000000000002.run","bytes":9,"crc32c":7,"part":4}],"staged":[],"dropped":[],"foreign":false,"writers":["00000000000000ab"],"content":"YQ==","end":3,"tail":null}"#;
    save(
        "copies",
        "manifest",
        &[b"\x01", manifest.as_bytes()].concat(),
    );
    // A header with a right checksum.
    let mut piece = b"abidtail\x01\0\0\0\x01\0\0\0\x07".to_vec();
    piece.resize(76, 0);
    piece.extend(crc32c::crc32c(&piece).to_le_bytes());
    save("copies", "piece", &[b"\0", &piece[..]].concat());
    // The id is that of the target's key.
    let id = b"\x9f\x37\xd1\xea\x72\xb6\x55\x16";
    let header = [b"\x02abidciph\x01\0\0\0", &id[..], &[9; 16]].concat();
    for (name, blocks) in [("none", 0), ("empty", 40), ("short", 99)] {
        let stored = [&header[..], &vec![3; blocks]].concat();
        save("copies", &format!("encrypted-{name}"), &stored);
    }
    // A content of 140,000 bytes, in three blocks.
    let changed = |change: &[u8]| [&b"\x03a\x02\x22\xe0"[..], change].concat();
    for (name, change) in [
        ("whole", &b""[..]),
        ("overwritten", b"\0\x01\x10\0\x01x"),
        ("cut-after-a-block", b"\x01\x01\x00\x4c"),
        ("longer", b"\x02\x02\x23\x7c\x01x"),
        ("without-a-block", b"\x03\0\0\x24\x01\0\x28"),
    ] {
        save("copies", &format!("changed-{name}"), &changed(change));
    }
}

fn proxy() {
    let v4 = b"\xc0\x00\x02\x01\x0a\x00\x00\x01\x12\x67\x00\x50";
    let v2 = |head: &[u8], content: &[u8]| [b"\r\n\r\n\0\r\nQUIT\n", head, content].concat();
    for (name, bytes) in [
        (
            "v1",
            b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 80\r\nGET / HTTP/1.1\r\n\r\n".to_vec(),
        ),
        ("v1-v6", b"PROXY TCP6 2001:db8::7 ::1 9 80\r\n".to_vec()),
        ("unknown", b"PROXY UNKNOWN\r\n".to_vec()),
        ("v2", v2(b"\x21\x11\x00\x0c", v4)),
        (
            "v2-more",
            v2(
                b"\x21\x11\x00\x11",
                &[&v4[..], b"\x04\x00\x02\x07\x07"].concat(),
            ),
        ),
        ("local", v2(b"\x20\x00\x00\x00", b"")),
        ("http", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec()),
    ] {
        save("proxy", name, &bytes);
    }
}

fn http() {
    let upgrade = "GET /echo/a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    for (name, text) in [
        ("get", "GET /path/word/17 HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("get-1-0", "GET /query?a=1&b=2 HTTP/1.0\r\n\r\n"),
        (
            "json",
            "POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
        ),
        (
            "chunked",
            "POST /echo/a/b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        ),
        (
            "rpc",
            "POST /rpc/Echo/a/say HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"args\":[\"a\",2]}",
        ),
        (
            "pipelined",
            "GET /path/a/1 HTTP/1.1\r\nHost: x\r\n\r\nGET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n",
        ),
        (
            "expect",
            "POST /json HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
        ),
        (
            "too-long",
            "POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n{}",
        ),
        (
            "key",
            "POST /rpc/Echo/a/say HTTP/1.1\r\nHost: x\r\nIdempotency-Key: \"k\"\r\nContent-Length: 9\r\n\r\n[\"a\", 1]\n",
        ),
        ("broken", "GET / HTTP/9.9\r\n\r\n"),
        ("upgrade", upgrade),
    ] {
        save("http", name, text.as_bytes());
    }
    let mut talk = upgrade.as_bytes().to_vec();
    talk.extend(frame(OpCode::Data(Data::Text), true, true, b"hello"));
    talk.extend(frame(
        OpCode::Control(Control::Close),
        true,
        true,
        b"\x03\xe8bye",
    ));
    save("http", "websocket", &talk);
    // HTTP/2: the preface, empty settings, and a request for / in literal headers of the static table.
    let mut http2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    http2.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    http2.extend([0, 0, 3, 1, 5, 0, 0, 0, 1, 0x82, 0x86, 0x84]);
    save("http", "http2", &http2);
}

fn kv() {
    let values = serde_json::json!({"a": [1, -2.5, null, true], "é": {"deep": "text"}});
    let mut value = vec![0];
    value.extend(cbor::to_vec(&values).unwrap());
    save("kv", "value", &value);
    save("kv", "deep-value", &[&[0][..], &[0x81; 300]].concat());
    save(
        "kv",
        "long-value",
        b"\x00\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
    );
    save(
        "kv",
        "put-get",
        b"\x01\x00\x01a\x03one\x02\x01a\x01\x01a\x02\x01a",
    );
    save(
        "kv",
        "list",
        b"\x01\x00\x02aa\x01x\x00\x02ab\x01y\x00\x01b\x01z\x03\x01a\x27\x00\x7f\x00\x00\x00\x00",
    );
    save(
        "kv",
        "surrogates",
        "\x01\x00\x03\u{d7ff}\x01x\x00\x03\u{e000}\x01y\x03\x03\u{d7ff}".as_bytes(),
    );
}

fn log() {
    for (name, bytes) in recovery::samples() {
        save("log", &name, &bytes);
    }
}

fn recovery_() {
    let change = |kind: u8, file: u8, at: u32, other: u8, bytes: &[u8]| {
        let mut change = vec![kind, file];
        change.extend(&at.to_be_bytes()[1..]);
        change.extend([other, bytes.len() as u8]);
        change.extend(bytes);
        change
    };
    manifests(change);
    for directory in 0..2_u8 {
        save("recovery", &format!("whole-{directory}"), &[directory << 1]);
        for file in 0..9_u8 {
            for (name, change) in [
                ("overwritten", change(0, file, 20, 0, &[0xff; 4])),
                ("cut", change(2, file, 100, 0, &[])),
                ("removed", change(5, file, 0, 0, &[])),
                ("swapped", change(6, file, 0, file + 1, &[])),
            ] {
                for sealed in 0..2 {
                    let name = format!("{name}-{file}-{directory}-{sealed}");
                    save(
                        "recovery",
                        &name,
                        &[&[directory << 1 | sealed], &change[..]].concat(),
                    );
                }
            }
        }
    }
}

/// Valid manifests with content that no store writes.
fn manifests(change: impl Fn(u8, u8, u32, u8, &[u8]) -> Vec<u8>) {
    let most = u64::MAX;
    let alarms = |newest: u64, list: &str| format!(r#"{{"newest":{newest},"list":[{list}]}}"#);
    let archived = |archived: &str| {
        format!(
            r#"{{"archived":{archived},"archived_millis":0,"newest":0,"runs":[],"damaged":[],"rebase":0,"gap":0,"lapses":0,"swept":0,"holes":[]}}"#
        )
    };
    let (no_alarms, no_archive) = (alarms(0, ""), archived("null"));
    let many = alarms(1, &format!(r#"{{"number":1,"entries":{most}}}"#));
    for (name, epoch, redo, segment_bytes, alarms, archive) in [
        ("as-written", 1, 0, 524_288, &no_alarms, &no_archive),
        (
            "last-epoch",
            u64::from(u32::MAX),
            0,
            524_288,
            &no_alarms,
            &no_archive,
        ),
        ("redo-at-the-end", 1, most, 524_288, &no_alarms, &no_archive),
        (
            "redo-near-the-end",
            1,
            most - 7,
            524_288,
            &no_alarms,
            &no_archive,
        ),
        ("no-segments", 1, 0, 0, &no_alarms, &no_archive),
        ("small-segments", 1, 0, 4096, &no_alarms, &no_archive),
        ("endless-segments", 1, 0, most, &no_alarms, &no_archive),
        (
            "last-alarm-run",
            1,
            0,
            524_288,
            &alarms(most, ""),
            &no_archive,
        ),
        ("many-alarms", 1, 0, 524_288, &many, &no_archive),
        (
            "last-archive-run",
            1,
            0,
            524_288,
            &no_alarms,
            &archived(&most.to_string()),
        ),
    ] {
        let text = format!(
            "\n{{\"epoch\":{epoch},\"redo\":{redo},\"segment_bytes\":{segment_bytes},\"namespaces\":[\"objects\"],\"removing\":[],\"quarantined\":{{}}"
        );
        let rest = format!(
            r#","alarms":{alarms},"clock":{{"position":0,"unix_millis":0,"set_back":0}},"archive":{archive}}}"#
        );
        for directory in 0..2_u8 {
            // Replaces the file, and extends it: one change has at most 255 bytes.
            let mut bytes = vec![directory << 1 | 1];
            bytes.extend(change(4, 0, 0, 0, text.as_bytes()));
            for part in rest.as_bytes().chunks(255) {
                bytes.extend(change(3, 0, 0, 0, part));
            }
            save("recovery", &format!("manifest-{name}-{directory}"), &bytes);
        }
    }
}

fn websocket() {
    let text = OpCode::Data(Data::Text);
    let continued = OpCode::Data(Data::Continue);
    let close = OpCode::Control(Control::Close);
    let ping = OpCode::Control(Control::Ping);
    for (number, masked) in [true, false].into_iter().enumerate() {
        let frame = |kind, last, payload: &[u8]| frame(kind, last, masked, payload);
        for (name, frames) in [
            ("text", vec![frame(text, true, "é".as_bytes())]),
            (
                "fragments",
                vec![
                    frame(text, false, b"\xc3"),
                    frame(ping, true, b"?"),
                    frame(continued, true, b"\xa9"),
                ],
            ),
            (
                "not-utf-8",
                vec![frame(text, false, b"\xff"), frame(continued, true, b"")],
            ),
            (
                "close",
                vec![
                    frame(close, true, b"\x03\xe8bye"),
                    frame(text, true, b"late"),
                ],
            ),
            ("bad-close", vec![frame(close, true, b"\x03\xed")]),
            ("half-close", vec![frame(close, true, b"\x03")]),
            ("long", vec![frame(text, true, &[b'a'; 4096])]),
            ("too-long", vec![frame(text, true, &[b'a'; 4097])]),
            ("long-ping", vec![frame(ping, true, &[0; 126])]),
            (
                "pong",
                vec![
                    frame(OpCode::Control(Control::Pong), true, b"!"),
                    frame(OpCode::Data(Data::Binary), true, &[7; 200]),
                ],
            ),
            ("nothing-to-continue", vec![frame(continued, true, b"x")]),
        ] {
            let bytes = [vec![number as u8, 3], frames.concat()].concat();
            save("websocket", &format!("{name}-{number}"), &bytes);
        }
    }
}

fn frame(opcode: OpCode, is_final: bool, masked: bool, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader {
        is_final,
        opcode,
        mask: masked.then_some([1, 2, 3, 250]),
        ..FrameHeader::default()
    };
    let mut bytes = Vec::new();
    let frame = Frame::from_payload(header, payload.to_vec().into());
    frame.format(&mut bytes).unwrap();
    bytes
}
