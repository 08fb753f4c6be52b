//! `#[durable_object]`: a stub struct, and the trait implementation that ties it to the class. On the class's
//! `impl DurableObject` it is the work of [`handlers`].

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{Attribute, Error, Generics, Item, Result, Visibility, spanned::Spanned};

use crate::handlers;

pub(crate) fn expand(arguments: &TokenStream, item: TokenStream) -> Result<TokenStream> {
    if !arguments.is_empty() {
        return Err(Error::new(
            arguments.span(),
            "`#[durable_object]` takes no arguments: how objects are run is said where the class is registered, \
             in `ClassOptions`",
        ));
    }
    let item: Item = syn::parse2(item)?;
    if let Item::Impl(block) = item {
        return handlers::expand(block);
    }
    let class = Class::of(&item)?;
    let generated = class.generate();
    Ok(quote! { #item #generated })
}

struct Class<'a> {
    name: &'a Ident,
    visibility: &'a Visibility,
    conditions: Vec<&'a Attribute>,
}

impl<'a> Class<'a> {
    fn of(item: &'a Item) -> Result<Self> {
        let (name, visibility, generics, attributes) = match item {
            Item::Struct(item) => (&item.ident, &item.vis, &item.generics, &item.attrs),
            Item::Enum(item) => (&item.ident, &item.vis, &item.generics, &item.attrs),
            other => {
                return Err(Error::new(
                    other.span(),
                    "`#[durable_object]` goes on the struct that holds the object's memory",
                ));
            }
        };
        refuse_generics(generics)?;
        let conditions = attributes
            .iter()
            .filter(|attribute| attribute.path().is_ident("cfg"))
            .collect();
        Ok(Self {
            name,
            visibility,
            conditions,
        })
    }

    fn generate(&self) -> TokenStream {
        let Self {
            name,
            visibility,
            conditions,
        } = self;
        let stub = stub_name(name);
        let text = name.to_string();
        let doc = format!("The remote methods of [`{name}`]: what `Stub<{name}>` dereferences to.");
        // Errors such as a missing `impl DurableObject` point at the class's name.
        let implementation = quote_spanned! {name.span()=>
            impl ::abide::__private::ObjectClass for #name {
                const NAME: &'static str = #text;
                type Remote = #stub;

                fn dispatch(
                    this: ::std::rc::Rc<Self>,
                    storage: &::abide::Storage,
                    method: ::std::borrow::Cow<'static, str>,
                    args: ::abide::__private::rpc::Args,
                ) -> ::abide::__private::LocalFuture<::abide::Result<::std::vec::Vec<u8>>> {
                    // The `#[rpc]` block's function, if there is one, takes precedence over this trait's.
                    #[allow(unused_imports)]
                    use ::abide::__private::NoRpc as _;
                    #name::__a_class_has_one_rpc_block_move_all_public_methods_into_it(this, storage, method, args)
                }
            }
        };
        quote! {
            #(#conditions)*
            #[doc = #doc]
            #[derive(Clone, Debug)]
            #visibility struct #stub(::abide::AnyStub);

            #(#conditions)*
            #[automatically_derived]
            impl ::abide::__private::Remote for #stub {
                fn wrap(stub: ::abide::AnyStub) -> Self {
                    Self(stub)
                }

                fn stub(&self) -> &::abide::AnyStub {
                    &self.0
                }
            }

            #(#conditions)*
            #[automatically_derived]
            #implementation
        }
    }
}

pub(crate) fn stub_name(class: &Ident) -> Ident {
    format_ident!("{class}Stub", span = class.span())
}

fn refuse_generics(generics: &Generics) -> Result<()> {
    if generics.params.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        generics.span(),
        "a durable object class cannot have type or lifetime parameters, because its objects are identified by the class's name",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(item: TokenStream) -> String {
        expand(&TokenStream::new(), item).unwrap_err().to_string()
    }

    #[test]
    fn a_class_gets_a_stub_of_its_visibility_and_conditions() {
        let out = expand(
            &TokenStream::new(),
            quote! { #[cfg(unix)] pub(crate) struct Seats { ctx: Ctx } },
        );
        let out = out.unwrap().to_string();
        assert!(out.contains("pub (crate) struct SeatsStub"), "{out}");
        assert_eq!(out.matches("# [cfg (unix)]").count(), 4, "{out}");
    }

    #[test]
    fn what_cannot_be_a_class_is_refused_with_the_reason() {
        assert!(
            error(quote! { struct Seats<T> { t: T } })
                .contains("cannot have type or lifetime parameters")
        );
        assert!(
            error(quote! { struct Seats<'a> { t: &'a str } })
                .contains("cannot have type or lifetime parameters")
        );
        assert!(error(quote! { fn seats() {} }).contains("goes on the struct"));
        let arguments = expand(&quote! { unique_key = "x" }, quote! { struct Seats; }).unwrap_err();
        assert!(arguments.to_string().contains("ClassOptions"));
    }
}
