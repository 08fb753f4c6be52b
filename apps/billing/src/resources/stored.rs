//! Every resource of a node.

use abide::{Env, ObjectId, Result};

use super::{Customer, Invoice, PaymentIntent, Price, Product, Refund, Subscription};
use crate::BillingError;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Product,
    Price,
    Customer,
    Subscription,
    Invoice,
    PaymentIntent,
    Refund,
}

const KINDS: [Kind; 7] = [
    Kind::Product,
    Kind::Price,
    Kind::Customer,
    Kind::Subscription,
    Kind::Invoice,
    Kind::PaymentIntent,
    Kind::Refund,
];

/// A resource that has been written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    kind: Kind,
    id: ObjectId,
}

/// Does something with the namespace of a kind.
macro_rules! of {
    ($env:expr, $kind:expr, $namespace:ident => $then:expr) => {
        match $kind {
            Kind::Product => of!(@ $env, Product, $namespace, $then),
            Kind::Price => of!(@ $env, Price, $namespace, $then),
            Kind::Customer => of!(@ $env, Customer, $namespace, $then),
            Kind::Subscription => of!(@ $env, Subscription, $namespace, $then),
            Kind::Invoice => of!(@ $env, Invoice, $namespace, $then),
            Kind::PaymentIntent => of!(@ $env, PaymentIntent, $namespace, $then),
            Kind::Refund => of!(@ $env, Refund, $namespace, $then),
        }
    };
    (@ $env:expr, $class:ty, $namespace:ident, $then:expr) => {{
        let $namespace = $env.object::<$class>();
        $then
    }};
}

impl Stored {
    /// All of them. Reads directories.
    pub(crate) fn all(env: &Env) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for kind in KINDS {
            let ids = of!(env, kind, objects => objects.untyped().written())?;
            all.extend(ids.into_iter().map(|id| Self { kind, id }));
        }
        Ok(all)
    }

    /// Has its row written into the read model once more.
    pub(crate) async fn feed_again(self, env: &Env) -> Result<()> {
        Ok(of!(env, self.kind, objects => objects.get(self.id).feed_again().await)?)
    }

    /// Compares a replay of its chain with the live state; the number of outcomes.
    pub(crate) async fn check(self, env: &Env) -> Result<i64, BillingError> {
        of!(env, self.kind, objects => objects.get(self.id).check().await)
    }

    /// Its id, or that of its object if it does not answer.
    pub(crate) async fn name(self, env: &Env) -> String {
        let row = of!(env, self.kind, objects => objects.get(self.id).get_row().await);
        match row {
            Ok(row) => row.id,
            _ => format!("{:?} {}", self.kind, self.id),
        }
    }
}
