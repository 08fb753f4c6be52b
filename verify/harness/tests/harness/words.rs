//! Plain English: phrases that native readers stop at, in docs, comments, texts and test names, and what to write
//! instead.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Test names are shorter than this.
const MAX_TEST_NAME: usize = 70;

/// What the scan reads at least: a scan that finds nothing to read proves nothing.
const LEAST_FILES: usize = 1_000;
const LEAST_TEST_NAMES: usize = 2_000;

/// Phrases, and what to write instead. They match whole words in any case, also over a line break. A phrase that ends
/// with a dot matches only before punctuation.
const PHRASES: &[(&str, &str)] = &[
    ("whoever", NAME_IT),
    ("whomever", NAME_IT),
    ("whosoever", NAME_IT),
    ("nobody", NAME_IT),
    ("somebody", NAME_IT),
    ("everybody", NAME_IT),
    ("anybody", NAME_IT),
    ("of whom", NAME_IT),
    ("to whom", NAME_IT),
    ("as those are told", NAME_IT),
    ("those of whom", NAME_IT),
    ("such a one", NAME_IT),
    ("an own", "its own, or a separate …"),
    ("of its own.", "its own …, or a separate …"),
    ("of their own.", "their own …"),
    ("of theirs", "their …"),
    ("by itself", "alone, automatically, without a call"),
    ("by themselves", "alone, automatically, without a call"),
    ("for so long", "for this long, or name the unit"),
    ("so long after", "this long after, or name the unit"),
    ("so many", "this many, or name the argument"),
    ("at most so much", "at most this much"),
    ("by so much", "by this much"),
    ("after so much", "after this much"),
    ("so much later", "this much later"),
    ("so much longer", "this much longer"),
    ("so much earlier", "this much earlier"),
    ("beside it", "next to it, or name the place"),
    ("beside them", "next to them, or name the place"),
    ("goes on", CONTINUES),
    ("go on", CONTINUES),
    ("went on", CONTINUES),
    ("what is going on", "the activity"),
    ("what runs on", "every running handler or task"),
    ("for ever", "forever"),
    ("in good order", "cleanly"),
    ("is no more.", "no longer exists, is no longer"),
    ("are no more.", "no longer exist, are no longer"),
    ("is known no more", "is no longer known"),
    ("makes no sense", "is invalid"),
    ("make no sense", "are invalid"),
    ("made no sense", "was invalid"),
    ("is no error", "is not an error"),
    ("are no error", "are not errors"),
    ("no error to speak of", "not an error"),
    ("to speak of", "say how much"),
    ("in vain", "without success; say what failed"),
    ("mischief", "faults, or say that it is hostile"),
    ("harm nobody", "are harmless, affect no other …"),
    ("take care of whoever", NAME_IT),
    ("comes to life", "is loaded, is activated"),
    ("come to life", "are loaded, are activated"),
    ("becomes of", "the outcome, the fate of …"),
    ("became of", "the outcome, the fate of …"),
    ("comes of it", "the outcome"),
    ("comes of a", "the outcome of a …"),
    ("comes of the", "the outcome of the …"),
    ("tells of", "reports, says that"),
    ("what it is good for", "what it does, what it is worth"),
    ("is good for", "allows, is valid for, is worth"),
    ("it is to be", "it will be, it must be"),
    ("may as well", "can also"),
    ("in its stead", "instead"),
    ("in their stead", "instead"),
    ("lest", "so that … not"),
    ("whence", "from where"),
    ("whereupon", "and then"),
    ("thereupon", "then"),
    ("notwithstanding", "despite"),
    ("nevermore", "never again"),
    ("the field", "Cloudflare, or the name of the field"),
];
const NAME_IT: &str = "name the visitor, client, caller or row";
const CONTINUES: &str = "continues, keeps running, happens";

/// Where a phrase is right: the end of a path, the phrase, and why.
const ALLOWED: &[(&str, &str, &str)] = &[
    (
        "bench/src/peers/postgres.rs",
        "nobody",
        "a user of the operating system",
    ),
    (
        "apps/game-rooms/src/game.html",
        "the field",
        "where the game is played",
    ),
    (
        "crates/macros/src/rpc/tests.rs",
        "goes on",
        "where an attribute is written",
    ),
    (
        "crates/macros/src/rpc.rs",
        "goes on",
        "where an attribute is written",
    ),
    (
        "crates/macros/src/durable_object.rs",
        "goes on",
        "where an attribute is written",
    ),
];

/// Directories of other people's code, and of files that are no text.
const SKIPPED_DIRECTORIES: [&str; 8] = [
    "target",
    ".git",
    "node_modules",
    "dist",
    "corpus",
    "axe",
    "data",
    "chains",
];
/// Other people's code, and this list itself.
const SKIPPED_FILES: [&str; 2] = ["turbo.js", "words.rs"];
/// Files of text, by the end of their name.
const READ: [&str; 12] = [
    ".rs",
    ".md",
    ".html",
    ".js",
    ".mjs",
    ".toml",
    ".sh",
    ".css",
    ".openapi.json",
    "justfile",
    ".ci/run",
    ".ci/steps",
];

#[test]
fn texts_avoid_phrases_that_have_to_be_read_twice() {
    let workspace = workspace();
    let files = files(&workspace);
    assert!(files.len() >= LEAST_FILES, "only {} files", files.len());
    let mut found = Vec::new();
    for file in &files {
        let name = file.strip_prefix(&workspace).unwrap();
        let name = name.display().to_string();
        let source = fs::read_to_string(file).unwrap();
        let text = if file.extension().is_some_and(|extension| extension == "rs") {
            prose(&source)
        } else {
            source
        };
        for (line, phrase, instead) in phrases(&text) {
            let is_allowed = ALLOWED
                .iter()
                .any(|(end, allowed, _)| name.ends_with(end) && phrase == *allowed);
            if !is_allowed {
                found.push(format!("{name}:{line}: \"{phrase}\": {instead}"));
            }
        }
    }
    assert!(
        found.is_empty(),
        "{} places have to be read twice. Write instead:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn test_names_are_short() {
    let workspace = workspace();
    let mut count = 0;
    let mut long = Vec::new();
    for file in files(&workspace) {
        if file.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&file).unwrap();
            for (line, name) in test_names(&source) {
                count += 1;
                if name.len() >= MAX_TEST_NAME {
                    long.push(format!("{}:{line}: {name}", file.display()));
                }
            }
        }
    }
    assert!(count >= LEAST_TEST_NAMES, "only {count} test names");
    assert!(
        long.is_empty(),
        "these test names have {MAX_TEST_NAME} characters or more; say thing_condition_result:\n{}",
        long.join("\n")
    );
}

#[test]
#[allow(
    clippy::needless_raw_string_hashes,
    reason = "the text has a quote with one hash"
)]
fn phrases_are_found_in_prose_and_not_in_code() {
    let source = r##"
        //! Whoever reads this
        let nobody = 'n'; // goes
        // on and on
        let text = "so \" many"; let path = "/nobody"; let raw = r#"for ever "quoted""#;
        /* mischief /* nested */ */ fn goes_on(by: &'static str) {}
        /// It has a process of its own, of its own size.
        #[tokio::test(flavor = "multi_thread")]
        #[ignore = "slow"]
        async fn somebody_waits() {}
    "##;
    let found: Vec<_> = phrases(&prose(source))
        .into_iter()
        .map(|(line, phrase, _)| (line, phrase))
        .collect();
    let expected = [
        (2, "whoever"),
        (3, "goes on"),
        (5, "for ever"),
        (6, "mischief"),
        (7, "of its own."),
        (10, "somebody"),
    ];
    assert_eq!(found, expected);
    let names = test_names(source);
    assert_eq!(names, [(10, "somebody_waits".to_owned())]);
}

fn workspace() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).to_owned()
}

/// The files of the project that people read.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if entry.file_type().unwrap().is_dir() {
            if !SKIPPED_DIRECTORIES.contains(&&*name) {
                files.extend(self::files(&path));
            }
        } else {
            let full = path.to_string_lossy();
            let is_read = READ.iter().any(|end| full.ends_with(end));
            if is_read && !SKIPPED_FILES.contains(&&*name) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The names of test functions, with their lines.
fn test_names(source: &str) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    let mut is_test = false;
    for (at, line) in source.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("#[") {
            let attribute = line.trim_start_matches("#[");
            let attribute = attribute.split(['(', ']']).next().unwrap();
            is_test |= attribute == "test" || attribute.ends_with("::test");
        } else if is_test && let Some((before, after)) = line.split_once("fn ") {
            let is_function = ["", "async ", "pub ", "pub async "].contains(&before);
            if is_function {
                let name = after.split(['(', '<']).next().unwrap();
                names.push((at + 1, name.to_owned()));
                is_test = false;
            }
        }
    }
    names
}

/// A Rust source of which only comments, texts and test names are left, at their places.
fn prose(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut left = String::new();
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        let end = at
            + match rest {
                ['/', '/', ..] => length(rest, |piece| piece.ends_with(&['\n'])),
                ['/', '*', ..] => block_comment(rest),
                ['"', ..] => text(rest),
                ['r', '"' | '#', ..] if at == 0 || !is_of_word(chars[at - 1]) => raw_text(rest),
                ['b' | 'c', 'r', '"' | '#', ..] if at == 0 || !is_of_word(chars[at - 1]) => {
                    1 + raw_text(&rest[1..])
                }
                ['\'', '\\', _, ..] => 3 + length(&rest[3..], |piece| piece.ends_with(&['\''])),
                ['\'', _, '\'', ..] => 3,
                _ => 1,
            };
        let piece = &chars[at..end];
        let is_comment = piece.starts_with(&['/', '/']) || piece.starts_with(&['/', '*']);
        let is_prose = is_comment || (piece.len() > 3 && piece.contains(&' '));
        for &char in piece {
            let is_kept = char.is_whitespace() || (is_prose && char != '"');
            left.push(if is_kept { char } else { CODE });
        }
        at = end;
    }
    let mut lines: Vec<String> = left.split('\n').map(str::to_owned).collect();
    for (line, name) in test_names(source) {
        lines[line - 1] = name.replace('_', " ");
    }
    lines.join("\n")
}

/// Stands for a character of code.
const CODE: char = '\u{1}';

fn is_of_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// The shortest length at which a piece is complete, or all there is.
fn length(rest: &[char], is_complete: impl Fn(&[char]) -> bool) -> usize {
    let found = (1..=rest.len()).find(|&length| is_complete(&rest[..length]));
    found.unwrap_or(rest.len())
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn text(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_text(rest: &[char]) -> usize {
    let hashes = rest[1..].iter().take_while(|char| **char == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return 1; // `r#name`
    }
    let end = [vec!['"'], vec!['#'; hashes]].concat();
    let begin = 2 + hashes;
    begin + length(&rest[begin..], |piece| piece.ends_with(&end))
}

/// A word, its line, and whether the next word follows without punctuation.
struct Word {
    text: String,
    line: usize,
    is_joined: bool,
}

/// The phrases in a text, with their lines and what to write instead.
fn phrases(text: &str) -> Vec<(usize, &'static str, &'static str)> {
    let words = words(text);
    let mut found = Vec::new();
    for at in 0..words.len() {
        for (phrase, instead) in PHRASES {
            let ends_clause = phrase.ends_with('.');
            let mut wanted = phrase.trim_end_matches('.').split(' ').peekable();
            let mut here = words[at..].iter();
            let is_found = loop {
                let (Some(want), Some(word)) = (wanted.next(), here.next()) else {
                    break false;
                };
                if word.text != want {
                    break false;
                }
                match wanted.peek() {
                    Some(_) if !word.is_joined => break false,
                    Some(_) => {}
                    None => break !(ends_clause && word.is_joined),
                }
            };
            if is_found {
                found.push((words[at].line, *phrase, *instead));
            }
        }
    }
    found
}

fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut line = 1;
    let mut is_inside = false;
    for char in text.chars() {
        // A name in backquotes is code.
        if is_of_word(char) || ['-', '`'].contains(&char) {
            if !is_inside {
                words.push(Word {
                    text: String::new(),
                    line,
                    is_joined: true,
                });
                is_inside = true;
            }
            words.last_mut().unwrap().text.extend(char.to_lowercase());
        } else {
            is_inside = false;
            line += usize::from(char == '\n');
            // What stands between two words of a comment or a text that has several lines.
            if !char.is_whitespace()
                && !['/', '!', '#', '*', '\\'].contains(&char)
                && let Some(last) = words.last_mut()
            {
                last.is_joined = false;
            }
        }
    }
    if let Some(last) = words.last_mut() {
        last.is_joined = false;
    }
    words
}
