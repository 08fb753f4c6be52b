//! Which crates of others the public API names. A release of such a crate that breaks its users breaks ours, so each has a
//! reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The crates that `crates/*/api.txt` may name, and why. Not `rusqlite`: SQL has its own parameters and values, since each
/// release of `rusqlite` breaks its users.
const NAMED: [(&str, &str); 15] = [
    ("alloc", "the standard library"),
    ("core", "the standard library"),
    ("std", "the standard library"),
    (
        "axum",
        "the router that a program gives the host, and merges ours into",
    ),
    (
        "axum_core",
        "bodies, extractors and responses of axum's handlers, which a program writes",
    ),
    (
        "bytes",
        "the bytes of bodies and frames, shared without a copy",
    ),
    ("bytestring", "the text of frames, shared without a copy"),
    (
        "futures_core",
        "the futures of traits that are used as `dyn`",
    ),
    (
        "futures_util",
        "a component's attempts in flight, which are its own `FuturesUnordered`",
    ),
    ("http", "requests and responses"),
    ("jiff", "times of a program's calendar become timestamps"),
    (
        "rustls",
        "the settings of a client that trusts a test's server",
    ),
    ("serde_core", "the traits of what is stored and sent"),
    ("serde_json", "JSON whose form only the program knows"),
    ("url", "parsed addresses of receivers"),
];

/// Crates that one library alone may name.
const NAMED_BY: [(&str, &str, &str); 5] = [
    (
        "components",
        "yrs",
        "a shared document is a `yrs::Doc`, which the program reads and changes",
    ),
    (
        "history",
        "object_store",
        "the HTTP client of its stores, which a program may use for its own stores, and a store that a program brings",
    ),
    (
        "postgres",
        "tokio",
        "the streams that TLS encrypts, for `tokio_postgres`",
    ),
    (
        "postgres",
        "tokio_postgres",
        "the client that connects: parts of the project use it, and no program",
    ),
    (
        "storage",
        "shuttle",
        "the model checker of the tests, in a module that the documentation hides",
    ),
];

/// Types without a crate that have methods in the lists.
const PRIMITIVE: [&str; 15] = [
    "bool", "f32", "f64", "i8", "i16", "i32", "i64", "isize", "str", "u8", "u16", "u32", "u64",
    "usize", "char",
];

#[test]
fn the_public_api_names_only_crates_that_have_a_reason() {
    let mut unlisted = BTreeSet::new();
    let mut named = BTreeSet::new();
    for (library, crates) in foreign() {
        for name in crates {
            let is_listed = NAMED.iter().any(|(listed, _)| *listed == name)
                || NAMED_BY
                    .iter()
                    .any(|(by, listed, _)| *by == library && *listed == name);
            if !is_listed {
                unlisted.insert(format!("crates/{library}: {name}"));
            }
            named.insert(name);
        }
    }
    assert!(
        unlisted.is_empty(),
        "hide these crates behind types of this project, or give the reason in this test: {unlisted:#?}"
    );
    let listed = NAMED.iter().map(|(name, _)| *name);
    let listed = listed.chain(NAMED_BY.iter().map(|(_, name, _)| *name));
    let unused: Vec<_> = listed.filter(|name| !named.contains(*name)).collect();
    assert!(unused.is_empty(), "no longer named: {unused:?}");
}

#[test]
fn crates_are_found_in_signatures_and_reexports() {
    let list = "pub use abide_storage::Value
        pub fn abide_storage::Rows<E>::raw(&self) -> alloc::vec::Vec<rusqlite::types::value::Value>
        impl<T: Self::Kind> a_trait::Of<'a, D::Error> for &other::Type
        pub fn u64::to_sql(&self)
        pub fn abide_storage::f<'de>() -> <F as core::future::Future>::Output";
    let found = named_in(list);
    let expected = [
        "a_trait",
        "abide_storage",
        "alloc",
        "core",
        "other",
        "rusqlite",
    ];
    assert_eq!(found, expected.map(str::to_owned).into());
    let source = "pub use jiff;
        pub use rows::{Row, Rows};
            pub use rusqlite::{ToSql, types::Value};
        pub(crate) use hex::encode; // pub use url
        use http::Uri;";
    let dependencies = ["hex", "http", "jiff", "rusqlite", "url"].map(str::to_owned);
    let found = reexported_by(source, &dependencies.into());
    assert_eq!(found, ["jiff", "rusqlite"].map(str::to_owned).into());
}

/// The crates of others that the API of each library names.
fn foreign() -> BTreeMap<String, BTreeSet<String>> {
    let workspace = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let dependencies = dependencies(workspace);
    let mut foreign = BTreeMap::new();
    for entry in fs::read_dir(workspace.join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        // A program has none.
        let Ok(list) = fs::read_to_string(folder.join("api.txt")) else {
            continue;
        };
        let mut crates = named_in(&list);
        for source in sources(&folder.join("src")) {
            let source = fs::read_to_string(source).unwrap();
            crates.extend(reexported_by(&source, &dependencies));
        }
        crates.retain(|name| name != "abide" && !name.starts_with("abide_"));
        let library = folder.file_name().unwrap().to_string_lossy().into_owned();
        foreign.insert(library, crates);
    }
    assert!(foreign.len() >= 9, "only {} lists", foreign.len());
    foreign
}

/// The packages that the workspace depends on, as crates.
fn dependencies(workspace: &Path) -> BTreeSet<String> {
    let manifest = fs::read_to_string(workspace.join("Cargo.toml")).unwrap();
    let (_, rest) = manifest.split_once("\n[workspace.dependencies]\n").unwrap();
    let table = rest.split("\n[").next().unwrap();
    let names = table.lines().filter_map(|line| line.split_once(" = "));
    names.map(|(name, _)| name.replace('-', "_")).collect()
}

/// The crates with which paths of a list begin.
fn named_in(list: &str) -> BTreeSet<String> {
    let is_of_path = |char: char| char.is_alphanumeric() || ['_', ':'].contains(&char);
    let paths = list.split(|char| !is_of_path(char));
    let begin = paths.filter_map(|path| path.split_once("::").map(|(begin, _)| begin));
    let is_crate = |begin: &&str| {
        begin.starts_with(|char: char| char.is_ascii_lowercase()) && !PRIMITIVE.contains(begin)
    };
    begin.filter(is_crate).map(str::to_owned).collect()
}

/// The dependencies of which a source re-exports something: a list does not show where that is from.
fn reexported_by(source: &str, dependencies: &BTreeSet<String>) -> BTreeSet<String> {
    let uses = source
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("pub use "));
    let begin = uses.filter_map(|path| path.split([':', ';', ' ']).next());
    begin
        .filter(|name| dependencies.contains(*name))
        .map(str::to_owned)
        .collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources.extend(self::sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(path);
        }
    }
    sources
}
