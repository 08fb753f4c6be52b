//! Finds the methods that use their object before and after an `await`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Block, Expr, ExprAwait, ExprForLoop, ExprLoop, ExprPath, ExprWhile, ImplItem, Item, ItemImpl,
    ItemStruct, Member, Type, visit::Visit,
};

/// Methods and fields that say nothing of an object's state.
const HARMLESS: [&str; 4] = ["env", "id", "clock", "now"];

/// Macros that await what they are given.
const AWAITING: [&str; 3] = ["select", "join", "try_join"];

/// A method that uses its object before and after an `await`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The type and the method.
    pub(crate) method: String,
    /// How often it awaits something that is not its own.
    pub(crate) awaits: usize,
}

/// A method: its type and its name.
type Method = (String, String);

/// Such methods in the sources below a directory: of classes, and of types that hold an object's `Ctx`.
pub(crate) fn found(sources: &Path) -> Vec<Found> {
    let mut items = Vec::new();
    parse(sources, &mut items);
    in_items(items)
}

/// Such methods in a source text.
pub(crate) fn found_in(text: &str) -> Vec<Found> {
    in_items(syn::parse_file(text).unwrap().items)
}

fn parse(directory: &Path, items: &mut Vec<Item>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            parse(&path, items);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            items.extend(syn::parse_file(&text).unwrap().items);
        }
    }
}

fn in_items(items: Vec<Item>) -> Vec<Found> {
    let mut objects = BTreeSet::new();
    let mut impls = Vec::new();
    for item in items {
        match item {
            Item::Struct(item) if is_of_an_object(&item) => {
                objects.insert(item.ident.to_string());
            }
            Item::Impl(item) => impls.push(item),
            // A macro around an `impl` block.
            Item::Macro(item) => impls.extend(syn::parse2::<ItemImpl>(item.mac.tokens)),
            _ => {}
        }
    }
    let mut methods = BTreeMap::new();
    for item in impls {
        let Some(object) = name(&item.self_ty).filter(|name| objects.contains(name)) else {
            continue;
        };
        for method in item.items {
            if let ImplItem::Fn(method) = method
                && method.sig.asyncness.is_some()
            {
                let key = (object.clone(), method.sig.ident.to_string());
                methods.insert(key, method.block);
            }
        }
    }
    let waiting = waiting(&methods);
    let found = methods.iter().filter_map(|((object, method), block)| {
        let uses = Uses::of(block, object, &waiting);
        (uses.seen == Seen::UseAfterThat).then(|| Found {
            method: format!("{object}::{method}"),
            awaits: uses.awaits,
        })
    });
    found.collect()
}

/// The methods that await something that is not their object's, directly or in another method.
fn waiting(methods: &BTreeMap<Method, Block>) -> BTreeSet<Method> {
    let mut waiting = BTreeSet::new();
    loop {
        let waits = |(key, block): &(&Method, &Block)| {
            !waiting.contains(*key) && Uses::of(block, &key.0, &waiting).awaits > 0
        };
        let more: Vec<Method> = methods
            .iter()
            .filter(waits)
            .map(|(key, _)| key.clone())
            .collect();
        if more.is_empty() {
            return waiting;
        }
        waiting.extend(more);
    }
}

fn is_of_an_object(item: &ItemStruct) -> bool {
    let is_class = item.attrs.iter().any(|attribute| {
        let last = attribute.path().segments.last();
        last.is_some_and(|last| last.ident == "durable_object")
    });
    let mut fields = item.fields.iter();
    is_class || fields.any(|field| name(&field.ty).is_some_and(|name| name == "Ctx"))
}

fn name(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        _ => None,
    }
}

/// What was seen of a method so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    Use,
    AwaitAfterUse,
    UseAfterThat,
}

/// The uses of an object by a method, in their order.
struct Uses<'a> {
    object: &'a str,
    waiting: &'a BTreeSet<Method>,
    seen: Seen,
    awaits: usize,
    /// Inside of a loop that is looked at for the second time.
    is_again: bool,
}

impl<'a> Uses<'a> {
    fn of(block: &Block, object: &'a str, waiting: &'a BTreeSet<Method>) -> Self {
        let mut uses = Self {
            object,
            waiting,
            seen: Seen::Nothing,
            awaits: 0,
            is_again: false,
        };
        uses.visit_block(block);
        uses
    }

    fn is_used(&mut self) {
        self.seen = match self.seen {
            Seen::Nothing => Seen::Use,
            Seen::AwaitAfterUse => Seen::UseAfterThat,
            seen => seen,
        };
    }

    fn awaits(&mut self) {
        if self.seen == Seen::Use {
            self.seen = Seen::AwaitAfterUse;
        }
        self.awaits += usize::from(!self.is_again);
    }

    /// What comes first in a loop comes after its end as well.
    fn twice(&mut self, visit: impl Fn(&mut Self)) {
        visit(self);
        let before = std::mem::replace(&mut self.is_again, true);
        visit(self);
        self.is_again = before;
    }

    /// Whether a future is that of a method of the object which awaits nothing else.
    fn is_own(&self, future: &Expr) -> bool {
        let Expr::MethodCall(call) = future else {
            return false;
        };
        let method = (self.object.to_owned(), call.method.to_string());
        is_self(&call.receiver) && !self.waiting.contains(&method)
    }
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        if !is_harmless(expr) {
            syn::visit::visit_expr(self, expr);
        }
    }

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        if path.path.is_ident("self") {
            self.is_used();
        }
    }

    fn visit_expr_await(&mut self, expr: &'ast ExprAwait) {
        self.visit_expr(&expr.base);
        if !self.is_own(&expr.base) {
            self.awaits();
        }
    }

    fn visit_expr_for_loop(&mut self, expr: &'ast ExprForLoop) {
        self.visit_expr(&expr.expr);
        self.twice(|uses| uses.visit_block(&expr.body));
    }

    fn visit_expr_loop(&mut self, expr: &'ast ExprLoop) {
        self.twice(|uses| uses.visit_block(&expr.body));
    }

    fn visit_expr_while(&mut self, expr: &'ast ExprWhile) {
        self.twice(|uses| {
            uses.visit_expr(&expr.cond);
            uses.visit_block(&expr.body);
        });
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        if contains(&called.tokens, "self") {
            self.is_used();
        }
        let name = called
            .path
            .segments
            .last()
            .map(|last| last.ident.to_string());
        let awaits = name.is_some_and(|name| AWAITING.contains(&name.as_str()));
        if awaits || contains(&called.tokens, "await") {
            self.awaits();
        }
    }
}

fn is_self(expr: &Expr) -> bool {
    match expr {
        Expr::Path(path) => path.path.is_ident("self"),
        Expr::Field(field) => is_self(&field.base),
        _ => false,
    }
}

fn is_harmless(expr: &Expr) -> bool {
    let is_so = |name: &str| HARMLESS.contains(&name);
    match expr {
        Expr::MethodCall(call) => {
            let of_self = is_self(&call.receiver) || is_harmless(&call.receiver);
            of_self && is_so(&call.method.to_string())
        }
        Expr::Field(field) => match &field.member {
            Member::Named(name) => is_self(&field.base) && is_so(&name.to_string()),
            Member::Unnamed(_) => false,
        },
        Expr::Reference(reference) => is_harmless(&reference.expr),
        _ => false,
    }
}

fn contains(tokens: &TokenStream, word: &str) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == word,
        TokenTree::Group(group) => contains(&group.stream(), word),
        _ => false,
    })
}
