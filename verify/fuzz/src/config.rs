//! Any text as the configuration file, and any variables: the result is settings or an error message.

/// The input is the file; lines after a line `---` are environment variables, `NAME=VALUE`.
pub fn target(bytes: &[u8]) {
    let Ok(input) = std::str::from_utf8(bytes) else {
        return;
    };
    let (file, environment) = input.split_once("---\n").unwrap_or((input, ""));
    let variables = environment
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    match abide_server::fuzzing::load_config(file, variables) {
        Ok(config) => assert!(
            config.storage.checkpoint_bytes >= config.storage.segment_bytes,
            "contradictory settings were accepted"
        ),
        Err(error) => {
            let told = error.to_string();
            assert!(!told.trim().is_empty(), "rejected without a message");
        }
    }
}
