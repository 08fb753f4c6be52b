//! The switches of deliberately broken variants stay out of the reader's way: a function has one at most.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Where product code is, and how many switches it is known to have at least: a scan that finds none proves nothing.
const PRODUCT: [&str; 2] = ["crates", "apps"];
const LEAST_SWITCHES: usize = 100;

#[test]
fn a_function_has_one_switch_for_a_broken_variant_at_most() {
    let workspace = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut found = Vec::new();
    for parent in PRODUCT {
        for member in fs::read_dir(workspace.join(parent)).unwrap() {
            let sources = member.unwrap().path().join("src");
            for file in rust_files(&sources) {
                let name = file.strip_prefix(workspace).unwrap().display().to_string();
                let source = fs::read_to_string(&file).unwrap();
                let functions = functions(&source).into_iter();
                found.extend(
                    functions.map(|(function, count)| (format!("{name}: {function}"), count)),
                );
            }
        }
    }
    let all: usize = found.iter().map(|(_, count)| count).sum();
    assert!(all >= LEAST_SWITCHES, "only {all} switches were found");
    found.retain(|(_, count)| *count > 1);
    assert!(
        found.is_empty(),
        "these functions have several switches for broken variants; docs/testing.md says what to do: {found:#?}"
    );
}

#[test]
fn switches_are_counted_by_function() {
    let source = r#"
        // broken(Variant::InAComment)
        pub(crate) fn broken(_: Variant) -> bool { false }
        type Pointer = fn(u8) -> bool;
        trait Promise { fn kept(&self) -> bool; }
        impl Promise for Disk {
            fn kept(&self) -> bool {
                fn inner() -> bool { broken(Variant::Inner) }
                log!("broken(", self.broken());
                select! { () = wait => { if crate::broken::broken(Variant::InAMacro) {} } }
                [1, 2].iter().all(|_| !broken(Variant::InAClosure))
            }
        }
    "#;
    let expected = [("kept".to_owned(), 2), ("inner".to_owned(), 1)];
    assert_eq!(functions(source), expected);
}

/// The Rust files below a directory.
fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.extension() {
            Some(extension) if extension == "rs" => vec![path],
            _ => rust_files(&path),
        })
        .collect()
}

/// The functions of a source file that have switches, and how many each has.
fn functions(source: &str) -> Vec<(String, usize)> {
    let mut functions = Vec::new();
    let tokens: TokenStream = source.parse().unwrap();
    count(tokens, &mut functions);
    functions.retain(|(_, count)| *count > 0);
    functions
}

/// The switches among tokens that are of no function in them. Those functions are noted.
fn count(tokens: TokenStream, functions: &mut Vec<(String, usize)>) -> usize {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut switches = 0;
    // The function whose signature is read.
    let mut signature: Option<usize> = None;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(word) if word == "fn" => {
                if let Some(TokenTree::Ident(name)) = tokens.get(at + 1) {
                    signature = Some(functions.len());
                    functions.push((name.to_string(), 0));
                }
            }
            TokenTree::Ident(word) if word == "broken" => {
                switches += usize::from(is_call(&tokens, at));
            }
            TokenTree::Punct(end) if end.as_char() == ';' => signature = None,
            TokenTree::Group(group) => {
                let inner = count(group.stream(), functions);
                match signature {
                    Some(function) => functions[function].1 += inner,
                    None => switches += inner,
                }
                if group.delimiter() == Delimiter::Brace {
                    signature = None;
                }
            }
            _ => {}
        }
    }
    switches
}

/// True if the word at a place is called as a function: neither declared, nor a method, nor a module.
fn is_call(tokens: &[TokenTree], at: usize) -> bool {
    let is_declared_or_method = match at.checked_sub(1).map(|before| &tokens[before]) {
        Some(TokenTree::Ident(word)) => word == "fn",
        Some(TokenTree::Punct(punct)) => punct.as_char() == '.',
        _ => false,
    };
    let arguments = match tokens.get(at + 1) {
        Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Parenthesis,
        _ => false,
    };
    arguments && !is_declared_or_method
}
