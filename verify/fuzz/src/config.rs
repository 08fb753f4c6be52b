//! Any text as the configuration file, and any variables: settings, or a sentence that says what is wrong.

/// The input is the file; lines behind a line `---` are environment variables, `NAME=VALUE`.
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
            "settings that contradict each other were taken"
        ),
        Err(error) => {
            let told = error.to_string();
            assert!(!told.trim().is_empty(), "refused without a word");
        }
    }
}
