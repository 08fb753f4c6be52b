//! Settings that cannot be are refused with a sentence that says what would do.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support::program;
use abide_harness::refused;

fn said(settings: Option<&str>, arguments: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    if let Some(settings) = settings {
        std::fs::write(dir.path().join("waiting-room.toml"), settings).unwrap();
    }
    let mut program = program(&dir.path().join("data"));
    for argument in arguments {
        program = program.arg(argument);
    }
    let (status, said) = refused(program.command());
    assert!(!status.success());
    said
}

const ROOM: &str = "origin = \"http://127.0.0.1:1\"\n[[rooms]]\nname = \"shop\"\ntotal_active_users = 1\nnew_users_per_minute = 1\n";

#[test]
fn settings_that_cannot_be_are_refused() {
    assert!(said(None, &[]).contains("name the file with the rooms with --rooms"));
    assert!(said(Some("origin = 3"), &[]).contains("line 1"));
    let bad = format!("{ROOM}session_duration = \"long\"");
    assert!(
        said(Some(&bad), &[])
            .contains("`rooms[0].session_duration` is \"long\"; expected a duration")
    );
    assert!(said(Some(ROOM), &["--data-centres=0"]).contains("1..=64"));
    assert!(said(Some(ROOM), &["--workers=many"]).contains("--workers"));
    assert!(said(Some(ROOM), &["--delay=soon"]).contains("--delay"));
    assert!(said(Some(ROOM), &["--delay=-1s"]).contains("--delay"));
}
