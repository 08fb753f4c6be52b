//! Runs a command to completion.

use std::process::Command;

/// The output of a command, or its error output if it fails. Other tasks continue in the meantime: the command may call
/// this process.
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
