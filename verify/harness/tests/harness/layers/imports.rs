//! Reads which module of a crate imports from which other, from the sources. Tests are left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use syn::{
    Attribute, File, ImplItem, Item, ItemUse, Meta, UseTree, Visibility,
    visit::{self, Visit},
};

/// An import of a name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Import {
    pub(super) from: String,
    /// The module that defines the name, as far as re-exports tell.
    pub(super) to: String,
    pub(super) name: String,
}

type Module = Vec<String>;

/// The file of a module with tests.
const TESTS: &str = "tests";

/// What a module uses.
#[derive(Default)]
struct Uses {
    /// Complete paths, and the name under which each is known here.
    paths: Vec<(Module, String)>,
    /// The paths that it re-exports.
    reexports: BTreeMap<String, Module>,
}

/// The modules below a crate's sources, without the crate itself.
pub(super) fn modules(sources: &Path, left_out: &[&str]) -> BTreeSet<String> {
    let files = files(sources, left_out);
    let modules = files.keys().filter(|module| !module.is_empty());
    modules.map(|module| module.join("::")).collect()
}

/// The imports between them.
pub(super) fn imports(sources: &Path, left_out: &[&str]) -> Vec<Import> {
    let files = files(sources, left_out);
    let known: BTreeSet<_> = files.keys().cloned().collect();
    let uses: BTreeMap<_, _> = files
        .into_iter()
        .map(|(module, file)| {
            let mut reader = Reader {
                module: &module,
                known: &known,
                uses: Uses::default(),
            };
            reader.visit_file(&file);
            let uses = reader.uses;
            (module, uses)
        })
        .collect();
    let mut imports = BTreeSet::new();
    for (module, used) in uses.iter().filter(|(module, _)| !module.is_empty()) {
        for (path, name) in &used.paths {
            let to = resolve(path, &known, &uses);
            // A module that gathers what its own modules offer does not depend on it.
            let gathers = used.reexports.contains_key(name) && to.starts_with(module);
            if to.is_empty() || to == *module || gathers {
                continue;
            }
            imports.insert(Import {
                from: module.join("::"),
                to: to.join("::"),
                name: name.clone(),
            });
        }
    }
    imports.into_iter().collect()
}

fn files(sources: &Path, left_out: &[&str]) -> BTreeMap<Module, File> {
    let mut files = BTreeMap::new();
    let mut waiting = vec![(sources.to_owned(), Module::new())];
    while let Some((directory, module)) = waiting.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if name == TESTS || left_out.contains(&&*name) {
                continue;
            }
            let mut module = module.clone();
            if !matches!(&*name, "mod" | "lib") {
                module.push(name);
            }
            if path.is_dir() {
                waiting.push((path, module));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files.insert(module, syn::parse_file(&text).unwrap());
            }
        }
    }
    files
}

/// The module that defines what a path names.
fn resolve(path: &[String], known: &BTreeSet<Module>, uses: &BTreeMap<Module, Uses>) -> Module {
    let mut path = path.to_vec();
    // A re-export that leads back to itself ends the search.
    for _ in 0..10 {
        let length = (0..=path.len())
            .rev()
            .find(|length| known.contains(&path[..*length]));
        let (module, rest) = path.split_at(length.unwrap_or(0));
        let reexported = rest
            .first()
            .and_then(|name| uses[module].reexports.get(name));
        match reexported {
            Some(origin) => path = [origin, &rest[1..]].concat(),
            None => return module.to_vec(),
        }
    }
    Module::new()
}

struct Reader<'a> {
    module: &'a Module,
    known: &'a BTreeSet<Module>,
    uses: Uses,
}

impl Reader<'_> {
    /// The complete path; `None` if it does not begin in this crate.
    fn complete(&self, path: &[String]) -> Option<Module> {
        let mut module = self.module.clone();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => {
                module.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|segment| segment == "super") {
                    module.pop();
                    rest = &rest[1..];
                }
            }
            child => {
                module.push(child.to_owned());
                if !self.known.contains(&module) {
                    return None;
                }
                rest = &rest[1..];
            }
        }
        module.extend_from_slice(rest);
        Some(module)
    }

    fn take_use(&mut self, is_public: bool, tree: &UseTree, before: &[String]) {
        let (path, name) = match tree {
            UseTree::Path(path) => {
                let before = [before, &[path.ident.to_string()]].concat();
                return self.take_use(is_public, &path.tree, &before);
            }
            UseTree::Group(group) => {
                let trees = group.items.iter();
                return trees.for_each(|tree| self.take_use(is_public, tree, before));
            }
            UseTree::Name(name) if name.ident == "self" => {
                (before.to_vec(), before.last().cloned().unwrap_or_default())
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                ([before, std::slice::from_ref(&name)].concat(), name)
            }
            UseTree::Rename(rename) => {
                let path = match rename.ident.to_string() {
                    own if own == "self" => before.to_vec(),
                    other => [before, &[other]].concat(),
                };
                (path, rename.rename.to_string())
            }
            UseTree::Glob(_) => (before.to_vec(), "*".to_owned()),
        };
        let Some(path) = self.complete(&path) else {
            return;
        };
        if is_public {
            self.uses.reexports.insert(name.clone(), path.clone());
        }
        self.uses.paths.push((path, name));
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes: &[Attribute] = match item {
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Const(item) => &item.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_public = !matches!(item.vis, Visibility::Inherited);
        self.take_use(is_public, &item.tree, &[]);
    }

    /// `pub(super)` imports nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<_> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        if matches!(segments[0].as_str(), "crate" | "super")
            && let Some(complete) = self.complete(&segments)
        {
            let name = segments.last().cloned().unwrap_or_default();
            self.uses.paths.push((complete, name));
        }
        visit::visit_path(self, path);
    }
}

/// Returns whether an item is compiled only for tests, models or fuzzing.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let Meta::List(list) = &attribute.meta else {
            return false;
        };
        let condition = list.tokens.to_string();
        let only = [
            "test",
            "feature = \"interleavings\"",
            "feature = \"fuzzing\"",
        ];
        list.path.is_ident("cfg") && only.contains(&&*condition)
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
