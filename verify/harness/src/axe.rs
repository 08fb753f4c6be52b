//! The accessibility and the width of pages, checked by axe-core from npm.
//!
//! `npm ci` installs what `axe/package-lock.json` names, once per build directory.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
};

use serde_json::Value;

use crate::Page;

const PACKAGE: &str = include_str!("../axe/package.json");
const LOCK: &str = include_str!("../axe/package-lock.json");

/// The sizes and colour schemes that every page is checked in: width, height, whether it is dark. A page is left in the last one.
const LOOKS: [(u32, u32, bool); 4] = [
    (390, 844, false),
    (390, 844, true),
    (1_280, 860, true),
    (1_280, 860, false),
];

/// Checks how a page looks now: in light and dark, on a phone and on a computer, no rule of axe-core is broken and nothing
/// is wider than the window. Otherwise panics with the rules, the elements and what mends them.
///
/// With `ABIDE_SCREENSHOTS` set to a directory, pictures named after `name` are written there.
///
/// # Panics
/// If the page breaks a rule, or axe-core cannot be installed.
pub async fn axe(page: &Page, name: &str) {
    let mut faults = Vec::new();
    for (width, height, is_dark) in LOOKS {
        page.look(width, height, is_dark).await;
        let scheme = if is_dark { "dark" } else { "light" };
        let look = format!("{name}-{width}-{scheme}");
        for fault in check(page).await {
            faults.push(format!("{look}: {fault}"));
        }
        if let Ok(pictures) = env::var("ABIDE_SCREENSHOTS") {
            let file = Path::new(&pictures).join(format!("{look}.png"));
            page.screenshot(&file).await;
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What is wrong with a page as it is shown now.
async fn check(page: &Page) -> Vec<String> {
    // Axe sees colours at the end of their transitions.
    let script = format!(
        "(async () => {{
            try {{
                for (const animation of document.getAnimations()) {{
                    try {{ animation.finish() }} catch {{ animation.cancel() }}
                }}
                {SOURCE}
                // Turbo marks the document while it refreshes the page.
                const root = document.documentElement, isBusy = () => root.hasAttribute('aria-busy');
                let violations;
                do {{
                    while (isBusy()) await new Promise(next => setTimeout(next, 20));
                    ({{ violations }} = await axe.run(document, {{ resultTypes: ['violations'] }}));
                }} while (isBusy());
                const {{ scrollWidth, clientWidth }} = root;
                const wide = scrollWidth <= clientWidth ? [] : [...document.querySelectorAll('body *')]
                    .filter(it => it.getBoundingClientRect().right > clientWidth + 1)
                    .map(it => it.cloneNode(false).outerHTML);
                return {{ violations, scrollWidth, clientWidth, wide }};
            }} catch (error) {{
                return {{ error: String(error) }};
            }}
        }})()",
        SOURCE = *SOURCE
    );
    let found = page.eval_when_loaded(&script).await;
    assert!(found["error"].is_null(), "axe-core: {}", found["error"]);
    let mut faults = Vec::new();
    for violation in found["violations"].as_array().expect("a list") {
        for node in violation["nodes"].as_array().expect("a list") {
            faults.push(fault(violation, node));
        }
    }
    if found["scrollWidth"].as_u64() > found["clientWidth"].as_u64() {
        let (content, window) = (&found["scrollWidth"], &found["clientWidth"]);
        let wide = found["wide"].as_array().expect("a list");
        let wide: Vec<_> = wide.iter().filter_map(Value::as_str).take(5).collect();
        faults.push(format!(
            "the page is {content} px wide in a window of {window} px: {}",
            wide.join(" ")
        ));
    }
    faults
}

/// One element that breaks a rule, and how it is mended.
fn fault(violation: &Value, node: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().replace('\n', " ");
    format!(
        "{} ({}) at {}\n    {}\n    {}",
        text(&violation["id"]),
        text(&violation["impact"]),
        node["target"],
        text(&node["html"]),
        text(&node["failureSummary"]),
    )
}

/// The script of axe-core.
static SOURCE: LazyLock<String> = LazyLock::new(|| {
    let script = installed().join("node_modules/axe-core/axe.min.js");
    fs::read_to_string(&script).unwrap_or_else(|error| panic!("{}: {error}", script.display()))
});

/// The directory with the packages of `LOCK`.
fn installed() -> PathBuf {
    let lock: Value = serde_json::from_str(LOCK).expect("a lock file");
    let version = lock["packages"]["node_modules/axe-core"]["version"]
        .as_str()
        .expect("the version of axe-core");
    let program = env::current_exe().expect("the path of this test");
    // It is in `debug/deps` of the build directory.
    let build = program.ancestors().nth(3).expect("a build directory");
    let place = build.join("tmp").join(format!("axe-core-{version}"));
    if place.exists() {
        return place;
    }
    fs::create_dir_all(build.join("tmp")).expect("the build directory can be written");
    let fresh = tempfile::tempdir_in(build.join("tmp")).expect("a directory for axe-core");
    for (name, text) in [("package.json", PACKAGE), ("package-lock.json", LOCK)] {
        fs::write(fresh.path().join(name), text).expect("a file for npm");
    }
    let status = Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(fresh.path())
        .stdin(Stdio::null())
        .status()
        .expect("npm is installed");
    assert!(status.success(), "npm ci: {status}");
    // Tests of another process may have been faster.
    let renamed = fs::rename(fresh.path(), &place);
    assert!(place.exists(), "{}: {renamed:?}", place.display());
    place
}
