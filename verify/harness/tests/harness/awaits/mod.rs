//! A handler that uses its object, awaits something else, and uses its object again must read anew what it relies on:
//! other events run in between. Each such method of the programs' classes is listed with the reason why it is right.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod handlers;
mod reviewed;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use handlers::{Found, found, found_in};
use reviewed::REVIEWED;

/// The sources with classes of programs, by the name that the review uses for them.
fn programs() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let apps = std::fs::read_dir(root.join("apps")).unwrap();
    let mut programs: Vec<_> = apps
        .map(|app| app.unwrap())
        .filter(|app| app.path().is_dir())
        .map(|app| {
            (
                app.file_name().into_string().unwrap(),
                app.path().join("src"),
            )
        })
        .collect();
    programs.push(("cli".to_owned(), root.join("crates/cli/src")));
    let service = root.join("crates/outbox/src/service");
    programs.push(("outbox service".to_owned(), service));
    programs.sort();
    programs
}

#[test]
fn every_handler_that_awaits_between_uses_of_its_object_is_reviewed() {
    let mut reviewed: BTreeMap<_, _> = REVIEWED
        .iter()
        .map(|(program, method, awaits, _)| {
            (((*program).to_owned(), (*method).to_owned()), *awaits)
        })
        .collect();
    let mut wrong = Vec::new();
    for (program, sources) in programs() {
        for Found { method, awaits } in found(&sources) {
            match reviewed.remove(&(program.clone(), method.clone())) {
                Some(known) if known == awaits => {}
                Some(known) => wrong.push(format!(
                    "{program}: {method} has {awaits} awaits, and had {known} when it was reviewed"
                )),
                None => wrong.push(format!(
                    "{program}: {method} has {awaits} awaits, and was not reviewed"
                )),
            }
        }
    }
    wrong.extend(reviewed.keys().map(|(program, method)| {
        format!("{program}: {method} was reviewed, and no longer awaits between uses of its object")
    }));
    assert!(
        wrong.is_empty(),
        "other events run at each await: see “Between two awaits” in docs/gates.md, read anew after the last one what a \
         write relies on, and say why the method is right in verify/harness/tests/harness/awaits/reviewed.rs:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn every_review_has_a_reason() {
    for (program, method, _, reason) in REVIEWED {
        assert!(reason.len() > 20, "{program}: {method}");
    }
}

#[test]
fn a_use_after_an_await_is_found_and_a_method_that_never_waits_is_not() {
    let source = r"
        #[durable_object]
        struct Account { ctx: Ctx }
        impl Account {
            async fn loses(&self, other: Other) -> Result<()> {
                let balance = self.balance()?;
                other.fee().await?;
                self.write(balance)
            }
            async fn loses_in_a_loop(&self, others: Others) {
                for other in others { self.write(1); other.fee().await; }
            }
            async fn loses_through_another(&self, other: Other) {
                self.write(1);
                self.asks(other).await;
                self.write(2);
            }
            async fn asks(&self, other: Other) { other.fee().await; }
            async fn asks_first(&self) { self.env.object().fee().await; self.write(1); }
            async fn reports(&self, other: Other) { self.write(1); other.told(self.balance()).await; }
            async fn is_one_turn(&self) { self.write(1); self.inner().await; self.write(2); }
            async fn inner(&self) { self.write(3); }
        }
        struct Other;
        impl Other { async fn fee(&self) { self.a(); wait().await; self.b(); } }
    ";
    let expected = ["loses", "loses_in_a_loop", "loses_through_another"];
    let expected = expected.map(|method| Found {
        method: format!("Account::{method}"),
        awaits: 1,
    });
    assert_eq!(found_in(source), expected);
}
