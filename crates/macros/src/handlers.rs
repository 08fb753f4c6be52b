//! `#[durable_object]` on `impl DurableObject for …`: a handler that is not `async` becomes one transaction.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Error, ImplItem, ImplItemFn, ItemImpl, Result, ReturnType, Type, spanned::Spanned};

/// The handlers of the trait that may be `async`.
const HANDLERS: &[&str] = &[
    "fetch",
    "alarm",
    "websocket_message",
    "websocket_close",
    "websocket_error",
];

pub(crate) fn expand(mut block: ItemImpl) -> Result<TokenStream> {
    let is_of_trait = block.trait_.as_ref().is_some_and(|(path, _)| {
        let last = path.segments.last();
        last.is_some_and(|last| last.ident == "DurableObject")
    });
    if !is_of_trait {
        return Err(Error::new(
            block.impl_token.span(),
            "`#[durable_object]` belongs on the struct that holds the object's memory, and on its `impl DurableObject` if \
             handlers are to be transactions; remote methods need `#[rpc]`",
        ));
    }
    for item in &mut block.items {
        if let ImplItem::Fn(function) = item
            && is_transaction(function)
        {
            make_transaction(function)?;
        }
    }
    // A handler owns its arguments, even if it only reads them.
    Ok(quote! {
        #[allow(clippy::needless_pass_by_value)]
        #block
    })
}

/// Whether it is a handler that returns its `Result` at once instead of a future.
fn is_transaction(function: &ImplItemFn) -> bool {
    let is_handler = HANDLERS.iter().any(|name| function.sig.ident == name);
    is_handler && function.sig.asyncness.is_none() && result_of(function).is_some()
}

/// The `Result` that a function returns.
fn result_of(function: &ImplItemFn) -> Option<&Type> {
    let ReturnType::Type(_, output) = &function.sig.output else {
        return None;
    };
    let Type::Path(path) = &**output else {
        return None;
    };
    let last = path.path.segments.last()?;
    (last.ident == "Result").then_some(output)
}

fn make_transaction(function: &mut ImplItemFn) -> Result<()> {
    let Some(output) = result_of(function).cloned() else {
        return Ok(());
    };
    let body = &function.block;
    let span = function.sig.ident.span();
    function.block = syn::parse2(quote_spanned! {span=> {
        ::abide::__private::handler(move || -> #output #body)
    }})?;
    function.sig.output = syn::parse2(quote_spanned! {output.span()=>
        -> impl ::std::future::Future<Output = #output>
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(item: TokenStream) -> Result<String> {
        expand(syn::parse2(item)?).map(|out| out.to_string())
    }

    #[test]
    fn only_handlers_that_are_not_async_become_transactions() {
        let out = expanded(quote! {
            impl abide::DurableObject for Room {
                fn new(ctx: Ctx, env: Env) -> Result<Self> { Ok(Self) }
                fn alarm(&self, info: AlarmInfo) -> Result<()> { self.count(info)?; Ok(()) }
                async fn fetch(&self, request: Request) -> Result<Response> { later().await }
                fn websocket_error(&self, ws: WebSocket, error: Error) -> impl Future<Output = Result<()>> { later() }
                fn activated(&self, how: Activation) -> Result<()> { Ok(()) }
            }
        });
        let out = out.unwrap();
        assert_eq!(out.matches("__private :: handler").count(), 1, "{out}");
        assert!(
            out.contains("fn alarm (& self , info : AlarmInfo) -> impl"),
            "{out}"
        );
    }

    #[test]
    fn another_block_is_refused_with_the_attribute_that_it_needs() {
        for block in [
            quote! { impl Room { pub fn enter(&self) {} } },
            quote! { impl Drop for Room { fn drop(&mut self) {} } },
        ] {
            let error = expanded(block).unwrap_err().to_string();
            assert!(error.contains("#[rpc]"), "{error}");
        }
    }
}
