//! `#[rpc]`: a method on the stub for each public method of the block, and the function that finds them by name.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{
    Attribute, Error, FnArg, ImplItem, ImplItemFn, ItemImpl, Pat, Path, PathArguments,
    ReceiverKind, Result, ReturnType, Type, Visibility,
    spanned::Spanned,
    visit::{self, Visit},
};

use crate::durable_object::stub_name;

/// Methods that every stub has: a remote method of the same name would be unreachable.
const RESERVED: &[&str] = &[
    "id",
    "name",
    "fetch",
    "untyped",
    "upgrade",
    "with_idempotency_key",
    "with_timeout",
    "clone",
];

/// serde supports tuples, in which arguments are encoded, up to this length.
const MAX_PARAMETERS: usize = 16;

pub(crate) fn expand(arguments: &TokenStream, item: TokenStream) -> Result<TokenStream> {
    if !arguments.is_empty() {
        return Err(Error::new(arguments.span(), "`#[rpc]` takes no arguments"));
    }
    let block: ItemImpl = syn::parse2(item).map_err(|error| {
        Error::new(
            error.span(),
            format!("`#[rpc]` goes on an `impl` block of a durable object: {error}"),
        )
    })?;
    let class = class_of(&block)?;
    let stub = stub_of(class);

    let mut methods = Vec::new();
    let mut errors: Option<Error> = None;
    for item in &block.items {
        if let ImplItem::Fn(function) = item
            && !matches!(function.vis, Visibility::Inherited)
        {
            match Method::of(function) {
                Ok(method) => methods.push(method),
                Err(error) => match &mut errors {
                    Some(errors) => errors.combine(error),
                    None => errors = Some(error),
                },
            }
        }
    }
    if let Some(errors) = errors {
        // Keep the block itself: otherwise the compiler also reports missing methods.
        let errors = errors.into_compile_error();
        return Ok(quote! { #block #errors });
    }

    // A method that lacks only `pub` to be an RPC method: calling it through the stub is a compile error that says so.
    let hints = block.items.iter().filter_map(|item| match item {
        ImplItem::Fn(function) if matches!(function.vis, Visibility::Inherited) => {
            let method = Method::of(function).ok()?;
            method.is_async.then(|| method.hint())
        }
        _ => None,
    });
    let arms = methods.iter().map(Method::arm);
    let remotes = methods.iter().map(Method::remote);
    // In this block `pub` makes a method callable by all code that can name the class.
    // A method that is not async owns its arguments, even if it only reads them.
    Ok(quote! {
        #[allow(unreachable_pub, clippy::needless_pass_by_value)]
        #block

        #[allow(unreachable_pub, clippy::all, clippy::pedantic)]
        impl #class {
            #[doc(hidden)]
            pub fn __a_class_has_one_rpc_block_move_all_public_methods_into_it(
                __this: ::std::rc::Rc<Self>,
                storage: &::abide::Storage,
                method: ::std::borrow::Cow<'static, str>,
                args: ::abide::__private::rpc::Args,
            ) -> ::abide::__private::LocalFuture<::abide::Result<::std::vec::Vec<u8>>> {
                let _ = (&__this, storage, &args);
                match &*method {
                    #(#arms)*
                    _ => ::abide::__private::rpc::unknown_method(
                        <Self as ::abide::__private::ObjectClass>::NAME,
                        &method,
                    ),
                }
            }
        }

        #[allow(unreachable_pub, clippy::all, clippy::pedantic)]
        impl #stub {
            #(#remotes)*
        }

        #[allow(unused, private_interfaces, unreachable_pub, clippy::all, clippy::pedantic)]
        impl #stub {
            #(#hints)*
        }
    })
}

fn class_of(block: &ItemImpl) -> Result<&Path> {
    if let Some((path, _)) = &block.trait_ {
        return Err(Error::new(
            path.span(),
            "`#[rpc]` goes on an inherent `impl` block, not on a trait's",
        ));
    }
    if !block.generics.params.is_empty() {
        return Err(Error::new(
            block.generics.span(),
            "an `#[rpc]` block cannot have parameters: a class has none",
        ));
    }
    match &*block.self_ty {
        Type::Path(path) if path.qself.is_none() => Ok(&path.path),
        other => Err(Error::new(
            other.span(),
            "`#[rpc]` goes on the `impl` block of a durable object's struct",
        )),
    }
}

/// The path of the class with its last name changed to the stub's.
fn stub_of(class: &Path) -> Path {
    let mut stub = class.clone();
    if let Some(last) = stub.segments.last_mut() {
        last.ident = stub_name(&last.ident);
    }
    stub
}

struct Method<'a> {
    name: &'a Ident,
    visibility: &'a Visibility,
    /// Attributes that the stub's method gets too: documentation, `cfg`, lints and deprecation.
    attributes: Vec<&'a Attribute>,
    parameters: Vec<(&'a Ident, &'a Type)>,
    output: Option<&'a Type>,
    /// Otherwise it is one transaction.
    is_async: bool,
}

impl<'a> Method<'a> {
    fn of(function: &'a ImplItemFn) -> Result<Self> {
        let signature = &function.sig;
        let name = &signature.ident;
        let refuse = |at: &dyn Spanned2, text: String| Err(Error::new(at.span_of(), text));

        if let Some(constness) = &signature.constness {
            return refuse(
                constness,
                format!("the RPC method `{name}` cannot be `const`"),
            );
        }
        if let Some(abi) = &signature.abi {
            return refuse(abi, format!("the RPC method `{name}` cannot be `extern`"));
        }
        if !signature.generics.params.is_empty() || signature.generics.where_clause.is_some() {
            return refuse(
                &signature.generics,
                format!(
                    "the RPC method `{name}` has type parameters: callers elsewhere need concrete types"
                ),
            );
        }
        if RESERVED.contains(&name.to_string().as_str()) {
            return refuse(
                name,
                format!("`{name}` is a method of every stub: give the RPC method another name"),
            );
        }

        let mut inputs = signature.inputs.iter();
        match inputs.next() {
            Some(FnArg::Receiver(receiver)) => {
                if !matches!(receiver.kind, ReceiverKind::Reference(_, _, None)) {
                    return refuse(
                        receiver,
                        format!(
                            "the RPC method `{name}` takes `&self`: other handlers may run while it waits, so what \
                             changes in memory belongs in a `Cell` or `RefCell`"
                        ),
                    );
                }
            }
            _ => {
                return refuse(
                    name,
                    format!(
                        "the RPC method `{name}` has no `&self`: it is called on an object, so write `{name}(&self, …)`"
                    ),
                );
            }
        }
        let parameters = inputs
            .map(|input| parameter(name, input))
            .collect::<Result<Vec<_>>>()?;
        if parameters.len() > MAX_PARAMETERS {
            return refuse(
                name,
                format!("`{name}` has more than {MAX_PARAMETERS} parameters: pass a struct"),
            );
        }
        let output = match &signature.output {
            ReturnType::Default => None,
            ReturnType::Type(_, output) => {
                owned(output, &format!("what the RPC method `{name}` returns"))?;
                Some(&**output)
            }
        };
        let copied = [
            "doc",
            "cfg",
            "allow",
            "expect",
            "warn",
            "deny",
            "deprecated",
            "must_use",
        ];
        let attributes = function
            .attrs
            .iter()
            .filter(|attribute| copied.iter().any(|name| attribute.path().is_ident(name)))
            .collect();
        Ok(Self {
            name,
            visibility: &function.vis,
            attributes,
            parameters,
            output,
            is_async: signature.asyncness.is_some(),
        })
    }

    /// The match arm that decodes the arguments, runs the method and encodes its result.
    fn arm(&self) -> TokenStream {
        let Self {
            name, parameters, ..
        } = self;
        let text = name_text(name);
        let conditions = self
            .attributes
            .iter()
            .filter(|attribute| attribute.path().is_ident("cfg"));
        let names: Vec<_> = parameters.iter().map(|(name, _)| name).collect();
        let types = parameters.iter().map(|(_, ty)| ty);
        let count = parameters.len();
        let output = self.output();
        // Types that do not implement serde's traits are reported at the method's name.
        let run = if self.is_async {
            quote_spanned! {here(name)=>
                ::std::boxed::Box::pin(async move {
                    let result: #output = __this.#name(#(#names),*).await;
                    ::abide::__private::rpc::encode_result(args.encoding(), &result)
                })
            }
        } else {
            quote_spanned! {here(name)=> {
                let storage = ::std::clone::Clone::clone(storage);
                ::std::boxed::Box::pin(async move {
                    #[allow(unused_imports)]
                    use ::abide::__private::rpc::{IsNoResult as _, IsResult as _};
                    let result: #output = ::abide::__private::rpc::transaction(
                        &storage,
                        || __this.#name(#(#names),*),
                        |result| (&::abide::__private::rpc::Returned(result)).is_failure(),
                    )?;
                    ::abide::__private::rpc::encode_result(args.encoding(), &result)
                })
            }}
        };
        let body = quote_spanned! {here(name)=>
            match ::abide::__private::rpc::decode_args::<(#(#types,)*)>(#text, #count, &args) {
                ::std::result::Result::Ok((#(#names,)*)) => #run,
                ::std::result::Result::Err(error) => ::abide::__private::rpc::fail(error),
            }
        };
        quote! { #(#conditions)* #text => #body, }
    }

    /// The stub's method.
    fn remote(&self) -> TokenStream {
        let Self {
            name,
            visibility,
            attributes,
            parameters,
            ..
        } = self;
        let text = name_text(name);
        let names: Vec<_> = parameters.iter().map(|(name, _)| name).collect();
        let types = parameters.iter().map(|(_, ty)| ty);
        let call = self.call();
        let body = match self.fallible() {
            Some((value, error)) => {
                let output = self.output();
                // A `Result` may be an alias with another error type, which must not be decoded as this one.
                let same = quote_spanned! {output.span()=>
                    let _: fn(#output) -> ::std::result::Result<#value, #error> = |result| result;
                };
                quote_spanned! {here(name)=>
                    #same
                    ::abide::__private::Remote::stub(self).call_fallible(#text, &(#(#names,)*))
                }
            }
            None => quote_spanned! {here(name)=>
                ::abide::__private::Remote::stub(self).call(#text, &(#(#names,)*))
            },
        };
        quote! {
            #(#attributes)*
            #visibility fn #name(&self, #(#names: #types),*) -> #call {
                #body
            }
        }
    }

    /// The stub's method for one that is not public: it compiles, but no call of it does.
    fn hint(&self) -> TokenStream {
        let Self {
            name, parameters, ..
        } = self;
        let conditions = self
            .attributes
            .iter()
            .filter(|attribute| attribute.path().is_ident("cfg"));
        let names = parameters.iter().map(|(name, _)| name);
        let types = parameters.iter().map(|(_, ty)| ty);
        let call = self.call();
        let text = name_text(name);
        // The lifetime defers the check of the bound until the method is called.
        quote_spanned! {here(name)=>
            #(#conditions)*
            #[doc(hidden)]
            pub fn #name<'__stub>(&'__stub self, #(#names: #types),*) -> #call
            where
                ::abide::__private::MethodWithoutPub<'__stub>: ::abide::__private::CallableThroughStub,
            {
                ::std::unreachable!(#text)
            }
        }
    }

    /// What the stub's method returns.
    fn call(&self) -> TokenStream {
        match self.fallible() {
            Some((value, error)) => quote! { ::abide::Call<#value, #error> },
            None => {
                let output = self.output();
                quote! { ::abide::Call<#output> }
            }
        }
    }

    /// The two types of a method's `Result`. One that names no error type has that of `abide::Result`.
    fn fallible(&self) -> Option<(TokenStream, TokenStream)> {
        let Type::Path(path) = self.output? else {
            return None;
        };
        let last = path.path.segments.last()?;
        let PathArguments::AngleBracketed(arguments) = &last.arguments else {
            return None;
        };
        if last.ident != "Result" {
            return None;
        }
        let mut types = arguments.args.iter();
        let value = types.next()?;
        let error = types
            .next()
            .map_or_else(|| quote! { ::abide::Error }, |error| quote! { #error });
        Some((quote! { #value }, error))
    }

    fn output(&self) -> TokenStream {
        self.output
            .map_or_else(|| quote! { () }, |output| quote! { #output })
    }
}

/// The span of a method, for diagnostics. Names resolve in the context of this macro, wherever the method was written,
/// because other macros may have assembled the block.
fn here(name: &Ident) -> Span {
    name.span().resolved_at(Span::call_site())
}

/// The name without `r#`.
fn name_text(name: &Ident) -> String {
    let text = name.to_string();
    text.strip_prefix("r#").map_or(text.clone(), str::to_owned)
}

fn parameter<'a>(method: &Ident, input: &'a FnArg) -> Result<(&'a Ident, &'a Type)> {
    let FnArg::Typed(input) = input else {
        return Err(Error::new(input.span(), "`self` must come first"));
    };
    let Pat::Ident(pattern) = &*input.pat else {
        return Err(Error::new(
            input.pat.span(),
            format!(
                "a parameter of the RPC method `{method}` must be a plain name: destructure it inside the method"
            ),
        ));
    };
    if let Some((at, _)) = &pattern.subpat {
        return Err(Error::new(
            at.span(),
            format!("a parameter of the RPC method `{method}` must be a plain name"),
        ));
    }
    owned(
        &input.ty,
        &format!("a parameter of the RPC method `{method}`"),
    )?;
    Ok((&pattern.ident, &input.ty))
}

/// Refuses types that cannot be sent: references and `impl Trait`.
fn owned(ty: &Type, what: &str) -> Result<()> {
    struct Search<'a> {
        what: &'a str,
        found: Option<Error>,
    }
    impl<'ast> Visit<'ast> for Search<'_> {
        fn visit_type(&mut self, ty: &'ast Type) {
            let text = match ty {
                Type::Reference(_) => {
                    "a reference cannot cross to another object: use an owned type (`String` for `&str`, `Vec<T>` for `&[T]`)"
                }
                Type::ImplTrait(_) => "`impl Trait` cannot cross to another object: name the type",
                Type::Infer(_) => "the type must be written out",
                _ => return visit::visit_type(self, ty),
            };
            self.found.get_or_insert_with(|| {
                Error::new(ty.span(), format!("{} must be owned: {text}", self.what))
            });
        }
    }
    let mut search = Search { what, found: None };
    search.visit_type(ty);
    search.found.map_or(Ok(()), Err)
}

/// `Spanned` as an object-safe trait.
trait Spanned2 {
    fn span_of(&self) -> proc_macro2::Span;
}

impl<T: Spanned> Spanned2 for T {
    fn span_of(&self) -> proc_macro2::Span {
        self.span()
    }
}

#[cfg(test)]
mod tests;
