//! `abide new`: creates a project that builds and passes its test.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

/// Each file of a project. `{name}` and `{abide}` are replaced.
const FILES: [(&str, &str); 5] = [
    ("Cargo.toml", include_str!("../template/Cargo.toml.in")),
    ("src/main.rs", include_str!("../template/main.rs")),
    ("abide.toml", include_str!("../template/abide.toml")),
    ("README.md", include_str!("../template/README.md")),
    (".gitignore", include_str!("../template/gitignore")),
];

/// Longest name of a project.
const MAX_NAME_BYTES: usize = 64;

/// Names that a package cannot have because of its dependencies and the standard crates.
const TAKEN: [&str; 9] = [
    "abide",
    "alloc",
    "core",
    "proc-macro",
    "proc_macro",
    "serde",
    "std",
    "test",
    "tokio",
];

#[rustfmt::skip]
const KEYWORDS: [&str; 52] = [
    "Self", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move",
    "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true", "try", "type",
    "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

#[derive(Args)]
pub(crate) struct NewArgs {
    /// Name of the package, and of the directory to create
    name: String,

    /// Depend on this checkout of abide, the directory with its README.md [default: the released version]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

pub(crate) fn run(args: &NewArgs, out: &mut impl Write) -> Result<()> {
    check_name(&args.name)?;
    let dependency = match &args.path {
        Some(checkout) => path_dependency(checkout)?,
        None => format!("\"{}\"", env!("CARGO_PKG_VERSION")),
    };
    let dir = Path::new(&args.name);
    check_free(dir)?;
    for (file, text) in FILES {
        let text = text
            .replace("{name}", &args.name)
            .replace("{abide}", &dependency);
        write(&dir.join(file), &text)?;
    }
    let name = &args.name;
    writeln!(
        out,
        "created {name}/ with Cargo.toml, src/main.rs, abide.toml, README.md and .gitignore\n\nnext:\n  cd {name}\n  cargo test\n  \
         cargo run"
    )?;
    if args.path.is_none() {
        writeln!(
            out,
            "\nCargo.toml depends on abide {} from the registry. To build with a checkout of abide, create the project with --path DIR.",
            env!("CARGO_PKG_VERSION")
        )?;
    }
    Ok(())
}

/// Checks that cargo accepts the name for a binary package.
fn check_name(name: &str) -> Result<()> {
    ensure!(
        name.len() <= MAX_NAME_BYTES,
        "the name has {} bytes, but the limit is {MAX_NAME_BYTES}",
        name.len()
    );
    let begins_well = name.starts_with(|first: char| first.is_ascii_alphabetic());
    let is_plain = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    ensure!(
        begins_well && is_plain,
        "{name:?} cannot be the name of a package: it must begin with a letter and consist of letters, digits, `-` and `_`, such as my-app"
    );
    ensure!(
        !KEYWORDS.contains(&name) && !TAKEN.contains(&name.to_ascii_lowercase().as_str()),
        "{name:?} cannot be the name of a package: Rust or a dependency already uses it; choose another, such as my-{name}"
    );
    Ok(())
}

/// Checks that the directory does not exist, or is empty.
fn check_free(dir: &Path) -> Result<()> {
    let found = match fs::symlink_metadata(dir) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot access {}", dir.display()));
        }
    };
    if !found.is_dir() {
        bail!("{} exists and is not a directory", dir.display());
    }
    let mut entries =
        fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    ensure!(
        entries.next().is_none(),
        "the directory {} exists and is not empty; choose another name, or remove it",
        dir.display()
    );
    Ok(())
}

/// The dependency on a checkout, as TOML.
fn path_dependency(checkout: &Path) -> Result<String> {
    let found = checkout.join("crates/abide");
    ensure!(
        found.join("Cargo.toml").is_file(),
        "{} is not a checkout of abide: it has no crates/abide/Cargo.toml",
        checkout.display()
    );
    let found = found
        .canonicalize()
        .with_context(|| format!("cannot find {}", found.display()))?;
    let found = found
        .to_str()
        .with_context(|| format!("{} is not UTF-8, as Cargo.toml requires", found.display()))?;
    // A JSON string is a valid TOML string.
    Ok(format!("{{ path = {} }}", serde_json::to_string(found)?))
}

fn write(file: &Path, text: &str) -> Result<()> {
    let folder = file.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot create the directory {}", folder.display()))?;
    // A file that was created in the meantime is not overwritten.
    let mut made =
        fs::File::create_new(file).with_context(|| format!("cannot create {}", file.display()))?;
    made.write_all(text.as_bytes())
        .with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_cargo_takes() {
        for name in ["a", "my-app", "my_app2", "Shop", "types"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let long = "a".repeat(MAX_NAME_BYTES + 1);
        for name in [
            "", "2fast", "-x", "_", "a b", "a/b", "..", "a.b", "é", "type", "test", "abide",
            "Tokio", &*long,
        ] {
            let told = check_name(name).unwrap_err().to_string();
            assert!(told.contains("name"), "{name}: {told}");
        }
    }
}
