//! The guides form a book: every page is in its summary, and every link resolves.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Pages outside the book.
const OTHERS: [&str; 8] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "apps/README.md",
    "bench/README.md",
    "verify/fuzz/README.md",
];

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.join("../..").canonicalize().unwrap()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The pages of the book, without its summary, by their paths in `docs/`.
fn pages() -> BTreeSet<String> {
    let mut pages = BTreeSet::new();
    add_pages(&root().join("docs"), "", &mut pages);
    pages.remove("SUMMARY.md");
    pages
}

fn add_pages(folder: &Path, prefix: &str, pages: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let name = format!("{prefix}{name}");
        if path.is_dir() {
            add_pages(&path, &format!("{name}/"), pages);
        } else if path.extension().is_some_and(|end| end == "md") {
            pages.insert(name);
        }
    }
}

/// The front page of each program.
fn front_pages() -> Vec<String> {
    let programs = fs::read_dir(root().join("apps")).unwrap();
    let folders = programs.map(|entry| entry.unwrap().path());
    let names = folders
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
    names.map(|name| format!("apps/{name}/README.md")).collect()
}

/// The lines of a page outside blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// The line without inline code.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The targets of a page's links.
fn links(text: &str) -> Vec<String> {
    // A link may be broken over two lines.
    let text: Vec<String> = prose(text).map(without_code).collect();
    let text = text.join("\n");
    let after = text.split("](").skip(1);
    let found = after.filter_map(|rest| rest.split_once(')'));
    found.map(|(target, _)| target.to_owned()).collect()
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen = BTreeMap::new();
    let headings = prose(text).filter_map(|line| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len()).then(|| title.strip_prefix(' '))?
    });
    let mut anchors = BTreeSet::new();
    for title in headings {
        let kept = title
            .trim()
            .chars()
            .filter(|one| one.is_alphanumeric() || [' ', '-', '_'].contains(one));
        let anchor: String = kept
            .flat_map(char::to_lowercase)
            .map(|one| if one == ' ' { '-' } else { one })
            .collect();
        let times = seen.entry(anchor.clone()).or_insert(0);
        anchors.insert(match *times {
            0 => anchor,
            again => format!("{anchor}-{again}"),
        });
        *times += 1;
    }
    anchors
}

#[test]
fn the_summary_lists_every_page_once() {
    let summary = read(&root().join("docs/SUMMARY.md"));
    let listed = links(&summary);
    let once: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(
        listed.len(),
        once.len(),
        "a page is listed twice: {listed:?}"
    );
    assert_eq!(once, pages());
}

#[test]
fn every_link_between_pages_leads_somewhere() {
    let root = root();
    let book = pages().into_iter().map(|page| format!("docs/{page}"));
    let mut broken = Vec::new();
    let mut checked = 0;
    let others = OTHERS.map(str::to_owned).into_iter().chain(front_pages());
    for page in book.chain(others) {
        let path = root.join(&page);
        let text = read(&path);
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => path.clone(),
                file => path.parent().unwrap().join(file),
            };
            let exists = target.exists();
            let leads = exists && (anchor.is_empty() || anchors(&read(&target)).contains(anchor));
            // Files outside the book's pages are not in the book.
            let stays = !page.starts_with("docs/")
                || !exists
                || target
                    .canonicalize()
                    .unwrap()
                    .starts_with(root.join("docs"));
            if !leads || !stays {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(checked > 60, "only {checked} links were found");
}

#[test]
fn the_table_of_programs_lists_every_program() {
    let listed: BTreeSet<String> = links(&read(&root().join("apps/README.md")))
        .into_iter()
        .filter(|link| link.ends_with("/README.md"))
        .map(|link| format!("apps/{link}"))
        .collect();
    assert_eq!(listed, BTreeSet::from_iter(front_pages()));
}

#[test]
fn links_and_anchors_are_found() {
    let text = "# The `a_b` & [c](d.md)\n\nSee [x](e.md#f) and `[no](g.md)`.\n\n```md\n[no](h.md)\n# No\n```\n\n## Twice\n## Twice\n";
    assert_eq!(links(text), ["d.md", "e.md#f"]);
    let found = anchors("# The `a_b` & c\n## Twice\n## Twice\n#no\n");
    let expected = ["the-a_b--c", "twice", "twice-1"].map(str::to_owned);
    assert_eq!(found, BTreeSet::from(expected));
}
