//! What `#[rpc]` generates, and what it refuses with which message.

use super::*;

fn expanded(block: TokenStream) -> String {
    expand(&TokenStream::new(), block)
        .unwrap_or_else(Error::into_compile_error)
        .to_string()
}

#[track_caller]
fn assert_refused(method: &TokenStream, reason: &str) {
    let out = expanded(quote! { impl Seats { #method } });
    assert!(out.contains("compile_error"), "nothing was refused: {out}");
    assert!(out.contains(reason), "no {reason:?} in {out}");
}

#[test]
fn a_public_method_gets_a_stub_method_with_its_documentation() {
    let out = expanded(quote! {
        impl Seats {
            /// Takes a seat.
            pub async fn take(&self, mut seat: String, row: u32) -> Result<(), Taken> { Ok(()) }
            fn helper(&mut self) {}
        }
    });
    assert!(out.contains("impl SeatsStub"), "{out}");
    assert!(
        out.contains(
            "pub fn take (& self , seat : String , row : u32) -> :: abide :: Call < () , Taken >"
        ),
        "{out}"
    );
    assert_eq!(out.matches(" Takes a seat.").count(), 2, "{out}");
    assert_eq!(out.matches("helper").count(), 1, "{out}");
}

#[test]
fn a_call_has_the_error_type_of_its_method() {
    let out = expanded(quote! {
        impl Seats {
            pub fn count(&self) -> u32 { 0 }
            pub fn free(&self) -> Result<Vec<String>> { Ok(Vec::new()) }
            pub fn row(&self) -> abide::Result<u32, std::string::String> { Ok(1) }
        }
    });
    for call in [
        "pub fn count (& self ,) -> :: abide :: Call < u32 >",
        "pub fn free (& self ,) -> :: abide :: Call < Vec < String > , :: abide :: Error >",
        "pub fn row (& self ,) -> :: abide :: Call < u32 , std :: string :: String >",
    ] {
        assert!(out.contains(call), "no {call:?} in {out}");
    }
}

#[test]
fn a_block_in_another_module_finds_the_stub_beside_the_class() {
    assert!(expanded(quote! { impl super::Seats {} }).contains("impl super :: SeatsStub"));
}

#[test]
fn a_public_method_that_is_not_async_runs_in_a_transaction() {
    let out = expanded(quote! { impl Seats { pub fn take(&self) -> bool { true } } });
    assert!(
        out.contains("pub fn take (& self ,) -> :: abide :: Call < bool >"),
        "{out}"
    );
    assert!(
        out.contains("rpc :: transaction (& storage , || __this . take ()"),
        "{out}"
    );
}

#[test]
fn a_call_of_a_private_method_is_told_what_is_missing() {
    let out = expanded(quote! {
        impl Seats {
            async fn take(&self, seat: String) -> bool { true }
            async fn find<T>(&self, what: T) {}
            fn helper(&self) {}
        }
    });
    assert!(out.contains("fn take < '__stub > (& '__stub self , seat : String) -> :: abide :: Call < bool > where :: abide :: __private :: MethodWithoutPub < '__stub > : :: abide :: __private :: CallableThroughStub"), "{out}");
    // A function that cannot be called remotely has no stub method.
    assert_eq!(out.matches("fn find").count(), 1, "{out}");
    assert_eq!(out.matches("fn helper").count(), 1, "{out}");
}

#[test]
fn a_method_without_a_shared_self_is_refused() {
    assert_refused(&quote! { pub async fn take() {} }, "has no `&self`");
    assert_refused(
        &quote! { pub async fn take(seat: String) {} },
        "has no `&self`",
    );
    assert_refused(&quote! { pub async fn take(&mut self) {} }, "takes `&self`");
    assert_refused(&quote! { pub async fn take(self) {} }, "takes `&self`");
    assert_refused(
        &quote! { pub async fn take(self: Rc<Self>) {} },
        "takes `&self`",
    );
}

#[test]
fn generic_methods_are_refused() {
    assert_refused(
        &quote! { pub async fn take<T>(&self, seat: T) {} },
        "has type parameters",
    );
    assert_refused(
        &quote! { pub async fn take(&self, seat: impl Into<String>) {} },
        "`impl Trait` cannot cross",
    );
}

#[test]
fn parameters_and_results_must_be_plain_and_owned() {
    assert_refused(
        &quote! { pub async fn take(&self, (row, seat): (u32, char)) {} },
        "must be a plain name",
    );
    assert_refused(
        &quote! { pub async fn take(&self, _: u32) {} },
        "must be a plain name",
    );
    assert_refused(
        &quote! { pub async fn take(&self, seat: &str) {} },
        "use an owned type",
    );
    assert_refused(
        &quote! { pub async fn take(&self, seats: Vec<Option<&str>>) {} },
        "use an owned type",
    );
    assert_refused(
        &quote! { pub async fn take(&self) -> &str { "" } },
        "use an owned type",
    );
}

#[test]
fn names_that_every_stub_has_are_refused() {
    assert_refused(
        &quote! { pub async fn fetch(&self) {} },
        "is a method of every stub",
    );
}

#[test]
fn every_wrong_method_of_a_block_is_reported() {
    let out = expanded(quote! { impl Seats { pub fn one() {} pub async fn two() {} } });
    assert_eq!(out.matches("compile_error").count(), 2, "{out}");
}

#[test]
fn blocks_that_cannot_be_rpc_are_refused() {
    assert!(expanded(quote! { impl Trait for Seats {} }).contains("not on a trait's"));
    assert!(expanded(quote! { impl<T> Seats<T> {} }).contains("cannot have parameters"));
    assert!(expanded(quote! { struct Seats; }).contains("goes on an `impl` block"));
}
