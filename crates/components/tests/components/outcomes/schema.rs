//! Validation and diagrams of declarations.

use abide::limits::outcomes as limits;
use abide::outcomes::{Declaration, Schema};

use crate::outcomes::support::{ACCOUNT, Account};

/// What is wrong with a declaration.
fn problems(declaration: Declaration) -> Vec<String> {
    Schema::new(declaration).unwrap_err().problems
}

#[test]
fn a_declaration_that_makes_sense_is_taken_and_asked() {
    let schema = Schema::of::<Account>().unwrap();
    assert_eq!(schema.next("open", "close", "closed"), Some("closed"));
    assert_eq!(schema.next("fresh", "close", "closed"), None);
    assert_eq!(schema.next("nowhere", "close", "closed"), None);
    assert!(schema.is_terminal("closed") && !schema.is_terminal("open"));
    assert!(schema.allowed("closed").is_empty());
}

#[test]
fn names_that_are_not_declared_are_refused_once_each() {
    let wrong = Declaration {
        initial: "frsh",
        terminal: &["closed", "shut"],
        transitions: &[
            ("fresh", "open", "opened", "opne"),
            ("open", "close", "done", "closed"),
            ("open", "shut", "done", "closed"),
        ],
        ..ACCOUNT
    };
    assert_eq!(
        problems(wrong),
        [
            "the state `frsh` is not declared",
            "the state `shut` is not declared",
            "the state `opne` is not declared",
            "the outcome `done` is not declared",
            "the action `shut` is not declared",
        ]
    );
}

#[test]
fn what_is_declared_twice_is_refused() {
    let wrong = Declaration {
        states: &["fresh", "open", "closed", "open"],
        transitions: &[
            ("fresh", "open", "opened", "open"),
            ("fresh", "open", "opened", "closed"),
        ],
        ..ACCOUNT
    };
    assert_eq!(
        problems(wrong),
        [
            "the state `open` is declared twice",
            "`fresh` has two transitions for `open` with `opened`",
        ]
    );
}

#[test]
fn unreachable_states_dead_ends_and_unused_names_are_refused() {
    let wrong = Declaration {
        name: "door",
        initial: "shut",
        states: &["shut", "open", "gone", "broken"],
        terminal: &["gone"],
        actions: &["push", "pull"],
        outcomes: &["moved", "stuck"],
        transitions: &[
            ("shut", "push", "moved", "open"),
            ("open", "push", "moved", "open"),
            ("gone", "push", "moved", "open"),
        ],
    };
    assert_eq!(
        problems(wrong),
        [
            "nothing leads from the state `open` to another: declare it as terminal",
            "the state `gone` is unreachable from `shut`",
            "the state `gone` is terminal, but a transition leads to another",
            "the state `broken` is unreachable from `shut`",
            "nothing leads from the state `broken` to another: declare it as terminal",
            "no transition has the action `pull`",
            "no transition has the outcome `stuck`",
        ]
    );
    let error = abide::Error::from(Schema::new(wrong).unwrap_err());
    assert_eq!(error.kind(), abide::ErrorKind::Input);
    assert!(
        error
            .message()
            .starts_with("the schema `door` is invalid: nothing leads from the state `open`")
    );
}

#[test]
fn a_terminal_state_may_have_transitions_to_itself() {
    let late = Declaration {
        name: "letter",
        initial: "sent",
        states: &["sent", "answered"],
        terminal: &["answered"],
        actions: &["answer"],
        outcomes: &["first", "another"],
        transitions: &[
            ("sent", "answer", "first", "answered"),
            ("answered", "answer", "another", "answered"),
        ],
    };
    let schema = Schema::new(late).unwrap();
    assert!(schema.is_terminal("answered"));
    assert_eq!(schema.allowed("answered").len(), 1);
}

#[test]
fn what_is_no_name_is_refused() {
    const LONG: &str = "a_name_that_is_much_longer_than_any_reader_would_want_to_read_it_twice";
    assert!(LONG.len() > limits::MAX_NAME_BYTES);
    for wrong in ["", "Open", "1st", "_open", "on-hold", "zu\" -> x", LONG] {
        let declaration = Declaration {
            name: wrong,
            ..ACCOUNT
        };
        let told = problems(declaration);
        assert!(
            told[0].contains("is not a valid name: use 1 to 64"),
            "{told:?}"
        );
    }
}

#[test]
fn a_schema_is_drawn_for_mermaid() {
    let drawn = Schema::of::<Account>().unwrap().mermaid();
    assert_eq!(
        drawn,
        r#"stateDiagram-v2
    state "fresh" as s0
    state "open" as s1
    state "closed" as s2
    [*] --> s0
    s0 --> s1: open / opened
    s1 --> s1: deposit / credited<br>withdraw / debited<br>withdraw / declined
    s1 --> s2: close / closed
    s2 --> [*]
"#
    );
}

#[test]
fn a_schema_is_drawn_for_graphviz() {
    let drawn = Schema::of::<Account>().unwrap().graphviz();
    assert_eq!(
        drawn,
        r#"digraph "account" {
    rankdir=LR;
    node [shape=box, style=rounded];
    "" [shape=point];
    "fresh";
    "open";
    "closed" [peripheries=2];
    "" -> "fresh";
    "fresh" -> "open" [label="open / opened"];
    "open" -> "open" [label="deposit / credited\nwithdraw / debited\nwithdraw / declined"];
    "open" -> "closed" [label="close / closed"];
}
"#
    );
}
