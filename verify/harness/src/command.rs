//! A command that runs to its end.

use std::process::Command;

/// What a command prints, or says if it fails. Other tasks go on meanwhile: the command may ask this process.
pub async fn printed(mut command: Command) -> Result<String, String> {
    let output = tokio::task::spawn_blocking(move || command.output().expect("the binary runs"));
    let output = output.await.expect("it is awaited");
    let text = |bytes| String::from_utf8(bytes).expect("commands print text");
    if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(text(output.stderr))
    }
}
