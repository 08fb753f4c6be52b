//! The modules of a crate are in layers, which its `lib.rs` lists from bottom to top under the heading “Layers”: a
//! module imports only from its own layer and from those below. Exceptions, and layers whose modules may import each
//! other in circles, are listed here, with the reasons.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod imports;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use imports::{Import, imports, modules};

/// A crate, and what its layers do not tell.
struct Layered {
    name: &'static str,
    /// Imports from a layer above: the module, what it imports, and why.
    upward: &'static [(&'static str, &'static str, &'static str)],
    /// Layers whose modules import each other in circles, and why.
    circular: &'static [(&'static str, &'static str)],
    /// Modules that exist only for checks.
    left_out: &'static [&'static str],
}

const CRATES: &[Layered] = &[
    Layered {
        name: "storage",
        upward: &[],
        circular: &[],
        left_out: &["fuzzing", "interleavings"],
    },
    Layered {
        name: "runtime",
        upward: &[],
        circular: &[
            (
                "events and gates",
                "a mailbox has the gate that holds messages to other mailboxes",
            ),
            (
                "objects and workers",
                "a worker has its objects, an object its worker and its tasks",
            ),
            (
                "handles",
                "an environment leads to stubs, with which a class is typed",
            ),
        ],
        left_out: &["interleavings"],
    },
];

/// A layer as the documentation lists it.
#[derive(Debug, PartialEq, Eq)]
struct Layer {
    name: String,
    modules: Vec<String>,
}

/// The numbered list under the heading “Layers” of a crate's documentation. An item begins with the layer's name in bold
/// type; what it names as code is a module, with all of its modules unless they are listed elsewhere.
fn layers(documentation: &str) -> Vec<Layer> {
    let lines = documentation
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .skip_while(|line| line.trim() != "# Layers");
    let section: Vec<_> = lines
        .skip(1)
        .take_while(|line| !line.trim_start().starts_with('#'))
        .collect();
    let mut layers: Vec<Layer> = Vec::new();
    let mut open = false;
    for line in section {
        let line = line.trim();
        let (number, text) = line.split_once(". ").unwrap_or_default();
        if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
            let name = text.split("**").nth(1).unwrap();
            layers.push(Layer {
                name: name.to_lowercase(),
                modules: Vec::new(),
            });
            open = true;
        }
        open &= !line.is_empty();
        if let Some(layer) = layers.last_mut().filter(|_| open) {
            layer
                .modules
                .extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    layers
}

/// What is wrong with the imports of a crate.
fn judge(
    of: &Layered,
    layers: &[Layer],
    modules: &BTreeSet<String>,
    imports: &[Import],
) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut places = BTreeMap::new();
    for (place, layer) in layers.iter().enumerate() {
        for module in &layer.modules {
            if !modules.contains(module) {
                wrong.push(format!(
                    "the layer “{}” lists {module}, which does not exist",
                    layer.name
                ));
            }
            if places.insert(module.as_str(), place).is_some() {
                wrong.push(format!("{module} is listed twice"));
            }
        }
    }
    // The listed module that a module belongs to.
    let listed = |module: &str| {
        let mut prefix = module;
        loop {
            if let Some((listed, place)) = places.get_key_value(prefix) {
                return Some((*listed, *place));
            }
            prefix = prefix.rsplit_once("::")?.0;
        }
    };
    for module in modules {
        if listed(module).is_none() {
            wrong.push(format!("{module} is in no layer"));
        }
    }
    let mut exceptions: BTreeSet<_> = of.upward.iter().map(|(from, to, _)| (*from, *to)).collect();
    let mut used = BTreeSet::new();
    let mut graph: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for Import { from, to, name } in imports {
        let (Some((from_listed, below)), Some((to_listed, above))) = (listed(from), listed(to))
        else {
            continue;
        };
        if above > below {
            let exception = (from.as_str(), to.as_str());
            if exceptions.contains(&exception) {
                used.insert((from.clone(), to.clone()));
            } else {
                wrong.push(format!(
                    "{from} (“{}”) imports {name} from {to}, which is in the layer “{}” above it",
                    layers[below].name, layers[above].name
                ));
            }
        } else if from_listed != to_listed {
            graph.entry(from_listed).or_default().insert(to_listed);
        }
    }
    exceptions.retain(|(from, to)| !used.contains(&((*from).to_owned(), (*to).to_owned())));
    wrong.extend(
        exceptions
            .iter()
            .map(|(from, to)| format!("the exception {from} → {to} is no longer needed")),
    );
    let mut circular: BTreeSet<_> = of.circular.iter().map(|(layer, _)| *layer).collect();
    let mut met = BTreeSet::new();
    for circle in circles(&graph) {
        let layer = layers[places[circle[0]]].name.as_str();
        if circular.contains(layer) {
            met.insert(layer);
        } else {
            wrong.push(format!(
                "these import each other in a circle: {}",
                circle.join(", ")
            ));
        }
    }
    circular.retain(|layer| !met.contains(layer));
    wrong.extend(
        circular
            .iter()
            .map(|layer| format!("the layer “{layer}” has no circle any more")),
    );
    wrong
}

/// The groups of modules that reach each other.
fn circles<'a>(graph: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<Vec<&'a str>> {
    let reached_from = |start: &'a str| {
        let mut reached = BTreeSet::new();
        let mut waiting = vec![start];
        while let Some(module) = waiting.pop() {
            for next in graph.get(module).into_iter().flatten() {
                if reached.insert(*next) {
                    waiting.push(next);
                }
            }
        }
        reached
    };
    let reached: BTreeMap<_, _> = graph
        .keys()
        .map(|module| (*module, reached_from(module)))
        .collect();
    let mut circles: BTreeSet<Vec<&str>> = BTreeSet::new();
    for (module, from_it) in &reached {
        let circle: Vec<_> = from_it
            .iter()
            .copied()
            .filter(|other| reached.get(other).is_some_and(|back| back.contains(module)))
            .collect();
        if !circle.is_empty() {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

fn sources(of: &Layered) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("crates").join(of.name).join("src")
}

#[test]
fn modules_import_only_from_their_own_layer_and_below() {
    for of in CRATES {
        let sources = sources(of);
        let documentation = std::fs::read_to_string(sources.join("lib.rs")).unwrap();
        let layers = layers(&documentation);
        assert!(layers.len() > 3, "{} lists no layers", of.name);
        let modules = modules(&sources, of.left_out);
        let imports = imports(&sources, of.left_out);
        assert!(
            imports.len() > modules.len(),
            "{} imports hardly anything",
            of.name
        );
        let wrong = judge(of, &layers, &modules, &imports);
        assert!(
            wrong.is_empty(),
            "move what is imported to a lower layer, or the module to a higher one; the layers of {} are listed in its \
             lib.rs:\n{}",
            of.name,
            wrong.join("\n")
        );
        for (what, reason) in of
            .upward
            .iter()
            .map(|(from, _, reason)| (from, reason))
            .chain(of.circular.iter().map(|(layer, reason)| (layer, reason)))
        {
            assert!(reason.len() > 20, "{what}");
        }
    }
}

#[test]
fn an_import_upward_a_circle_and_an_unlisted_module_are_found() {
    let documentation = "//! Example.\n//!\n//! # Layers\n//!\n//! From bottom to top:\n//!\n//! 1. **Plain data**: `data`,\n//!    `more`.\n//! 2. \
        **Work**: `work`.\n//!\n//! Nothing is `circular`.\n";
    let layers = layers(documentation);
    let listed = |name: &str, modules: &[&str]| Layer {
        name: name.to_owned(),
        modules: modules.iter().map(|module| (*module).to_owned()).collect(),
    };
    assert_eq!(
        layers,
        [
            listed("plain data", &["data", "more"]),
            listed("work", &["work"])
        ]
    );
    let of = Layered {
        name: "example",
        upward: &[("more", "work", "an exception that is not needed")],
        circular: &[],
        left_out: &[],
    };
    let import = |from: &str, to: &str| Import {
        from: from.to_owned(),
        to: to.to_owned(),
        name: "Name".to_owned(),
    };
    let modules = ["data", "more", "other", "work", "work::part"];
    let modules = modules.map(str::to_owned).into();
    let imports = [
        import("work", "data"),
        import("data", "work::part"),
        import("data", "more"),
        import("more", "data"),
    ];
    let wrong = judge(&of, &layers, &modules, &imports);
    assert_eq!(
        wrong,
        [
            "other is in no layer",
            "data (“plain data”) imports Name from work::part, which is in the layer “work” above it",
            "the exception more → work is no longer needed",
            "these import each other in a circle: data, more",
        ]
    );
}
