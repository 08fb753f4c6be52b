//! Methods that set the fields of options.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DataStruct, DeriveInput, Error, Field, Fields, Result, Visibility};

pub(crate) fn expand(input: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(input)?;
    let Data::Struct(DataStruct {
        fields: Fields::Named(fields),
        ..
    }) = &input.data
    else {
        return Err(Error::new_spanned(
            &input.ident,
            "`Setters` is for structs with named fields",
        ));
    };
    let setters = fields.named.iter().map(setter);
    let setters = setters.collect::<Result<Vec<_>>>()?;
    let name = &input.ident;
    let (generics, arguments, condition) = input.generics.split_for_impl();
    Ok(quote! {
        impl #generics #name #arguments #condition {
            #(#setters)*
        }
    })
}

fn setter(field: &Field) -> Result<TokenStream> {
    let (name, of) = (&field.ident, &field.ty);
    let mut converts = false;
    for attribute in &field.attrs {
        if attribute.path().is_ident("setters") {
            attribute.parse_nested_meta(|meta| {
                if !meta.path.is_ident("into") {
                    return Err(meta.error("expected `into`"));
                }
                converts = true;
                Ok(())
            })?;
        }
    }
    // The documentation of a private field is nowhere else.
    let docs = if let (Visibility::Public(_), Some(name)) = (&field.vis, name) {
        let text = format!("Sets [`{name}`](#structfield.{name}).");
        quote! { #[doc = #text] }
    } else {
        let docs = field.attrs.iter();
        let docs = docs.filter(|attribute| attribute.path().is_ident("doc"));
        quote! { #(#docs)* }
    };
    let (parameter, value) = if converts {
        let parameter = quote! { impl ::core::convert::Into<#of> };
        (parameter, quote! { ::core::convert::Into::into(value) })
    } else {
        (quote! { #of }, quote! { value })
    };
    Ok(quote! {
        #docs
        #[must_use]
        pub fn #name(mut self, value: #parameter) -> Self {
            self.#name = #value;
            self
        }
    })
}
