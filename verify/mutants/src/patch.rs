//! Applies changes to a file.

use std::ops::Range;

use anyhow::{Result, bail, ensure};

use crate::{Edit, Mutant};

/// The part of an edit's text that changes, and what takes its place.
struct Change<'a> {
    range: Range<usize>,
    text: &'a str,
    mutant: &'a str,
}

/// Applies all changes that mutants make in a file.
///
/// # Errors
/// If the file does not have the text of a change exactly once, or two changes overlap.
pub fn apply<'a>(
    file: &str,
    text: &str,
    mutants: impl IntoIterator<Item = &'a Mutant>,
) -> Result<String> {
    let mut changes = Vec::new();
    for mutant in mutants {
        for edit in mutant.edits.iter().filter(|edit| edit.file == file) {
            changes.push(change(text, edit, &mutant.name)?);
        }
    }
    changes.sort_by_key(|change| (change.range.start, change.range.end));
    let mut applied = String::with_capacity(text.len() * 2);
    let mut done = 0;
    let mut last = "";
    for Change {
        range,
        text: new,
        mutant,
    } in changes
    {
        ensure!(
            range.start >= done,
            "{last} and {mutant} change the same text of {file}"
        );
        applied.push_str(&text[done..range.start]);
        applied.push_str(new);
        done = range.end;
        last = mutant;
    }
    applied.push_str(&text[done..]);
    Ok(applied)
}

/// An edit without what its old and its new text have in common at their ends: edits may share context.
fn change<'a>(text: &str, edit: &'a Edit, mutant: &'a str) -> Result<Change<'a>> {
    let Edit { file, old, new } = edit;
    ensure!(!old.is_empty(), "{mutant} replaces nothing in {file}");
    let mut found = text.match_indices(&**old).map(|(at, _)| at);
    let Some(at) = found.next() else {
        bail!("{file} no longer has the text that {mutant} replaces:\n{old}");
    };
    ensure!(
        found.next().is_none(),
        "{file} has the text that {mutant} replaces more than once:\n{old}"
    );
    let before = common(old.chars(), new.chars());
    let (rest_of_old, rest_of_new) = (&old[before..], &new[before..]);
    let after = common(rest_of_old.chars().rev(), rest_of_new.chars().rev());
    Ok(Change {
        range: at + before..at + old.len() - after,
        text: &rest_of_new[..rest_of_new.len() - after],
        mutant,
    })
}

/// The length in bytes of what two texts begin with.
fn common(left: impl Iterator<Item = char>, right: impl Iterator<Item = char>) -> usize {
    let same = left.zip(right).take_while(|(left, right)| left == right);
    same.map(|(one, _)| one.len_utf8()).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const FILE: &str = "if a {\n    b();\n}\nif a {\n    c();\n}\n";

    fn mutant(name: &str, edits: &[(&str, &str)]) -> Mutant {
        let edit = |(old, new): &(&str, &str)| Edit {
            file: "file".to_owned(),
            old: (*old).to_owned(),
            new: (*new).to_owned(),
        };
        Mutant {
            name: name.to_owned(),
            fault: String::new(),
            promise: String::new(),
            tests: Vec::new(),
            property: None,
            focus: None,
            with: Vec::new(),
            edits: edits.iter().map(edit).collect(),
            settings: BTreeMap::new(),
        }
    }

    fn applied(mutants: &[Mutant]) -> Result<String> {
        apply("file", FILE, mutants)
    }

    #[test]
    fn changes_share_context_but_not_what_they_change() {
        let first = mutant("A", &[("a {\n    b();", "a && x {\n    b();")]);
        let second = mutant("B", &[("a {\n    b();", "a {\n    y();\n    b();")]);
        let both = applied(&[second, first.clone()]).expect("they fit together");
        assert_eq!(
            both,
            "if a && x {\n    y();\n    b();\n}\nif a {\n    c();\n}\n"
        );
        let third = mutant("C", &[("if a {\n    b();\n}", "")]);
        let error = applied(&[first, third]).unwrap_err().to_string();
        assert_eq!(error, "C and A change the same text of file");
    }

    #[test]
    fn a_text_that_is_missing_or_there_twice_is_refused() {
        let missing = mutant("A", &[("d();", "")]);
        let error = applied(&[missing]).unwrap_err().to_string();
        assert!(error.contains("no longer has the text"), "{error}");
        let twice = mutant("A", &[("if a {", "if b {")]);
        let error = applied(&[twice]).unwrap_err().to_string();
        assert!(error.contains("more than once"), "{error}");
    }
}
