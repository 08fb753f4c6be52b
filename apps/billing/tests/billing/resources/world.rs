//! A node without payments, on a disk in memory with a clock that stands still.

use std::{path::Path, sync::Arc, time::Duration};

use abide::{
    Node, Stub,
    clock::{Clock, TestClock},
    storage::{SimDisk, Store, StoreOptions},
};
use billing::{
    BillingError, Every, Line, LineKind, Lines, Money, Period, Time,
    resource::View,
    resources::{
        Customer, Invoice, NewSubscription, PaymentIntent, Price, Product, Subscription, register,
    },
    states::{Draft, PaymentResult, Verdict},
};
use serde_json::{Value, json};

/// Between two looks at the engine's own work.
const LOOK: Duration = Duration::from_millis(1);

/// Looks before the clock moves.
const PATIENT_LOOKS: u32 = 3_000;

/// Looks in all.
const PATIENCE: u32 = 60_000;

/// What moves the clock past whatever waits a moment.
const AGAIN: Duration = Duration::from_mins(1);

pub(crate) struct World {
    disk: SimDisk,
    pub(crate) clock: TestClock,
    pub(crate) node: Node,
}

/// Calls a method that every resource has, of the class that an id belongs to.
macro_rules! of {
    ($world:expr, $id:expr, $method:ident($($given:expr),*)) => {{
        let (env, id) = ($world.node.env(), $id);
        match id.split('_').next().unwrap() {
            "prod" => env.object::<Product>().get_by_name(id).$method($($given),*).await,
            "price" => env.object::<Price>().get_by_name(id).$method($($given),*).await,
            "cus" => env.object::<Customer>().get_by_name(id).$method($($given),*).await,
            "sub" => env.object::<Subscription>().get_by_name(id).$method($($given),*).await,
            "in" => env.object::<Invoice>().get_by_name(id).$method($($given),*).await,
            _ => env.object::<PaymentIntent>().get_by_name(id).$method($($given),*).await,
        }
    }};
}

pub(crate) use of;

impl World {
    pub(crate) fn new() -> Self {
        Self::at(SimDisk::new(), TestClock::new())
    }

    pub(crate) fn at(disk: SimDisk, clock: TestClock) -> Self {
        let store = Store::open(
            Arc::new(disk.clone()),
            Path::new("/data"),
            StoreOptions::small(),
        )
        .unwrap();
        let node = register(Node::builder(store))
            .clock(Arc::new(clock.clone()))
            .start()
            .unwrap();
        Self { disk, clock, node }
    }

    pub(crate) fn killed(self) -> Self {
        Self::at(self.disk.after_kill(), self.clock)
    }

    pub(crate) fn now(&self) -> Time {
        Time(self.clock.unix_millis().cast_signed())
    }

    pub(crate) async fn write(&self, id: &str, action: &str, outcome: &str, data: Value) -> View {
        self.try_write(id, action, outcome, data).await.unwrap()
    }

    pub(crate) async fn try_write(
        &self,
        id: &str,
        action: &str,
        outcome: &str,
        data: Value,
    ) -> Result<View, BillingError> {
        of!(
            self,
            id,
            transition(action.to_owned(), outcome.to_owned(), data)
        )
    }

    pub(crate) async fn state(&self, id: &str) -> String {
        of!(self, id, get_state()).unwrap().state
    }

    /// A product with two prices, and a customer.
    pub(crate) async fn stocked(&self) {
        self.write("prod_tea", "create", "created", json!({"name": "Tea"}))
            .await;
        for amount in [1_000, 3_000] {
            let new =
                json!({"product": "prod_tea", "unit_amount": euro(amount), "every": Every::MONTH});
            self.write(&format!("price_{amount}"), "create", "created", new)
                .await;
        }
        let new = json!({"name": "Ada", "email": "ada@example.com", "payment_method": "card_ok"});
        self.write("cus_ada", "create", "created", new).await;
    }

    pub(crate) fn subscription(&self) -> Stub<Subscription> {
        self.node
            .env()
            .object::<Subscription>()
            .get_by_name("sub_1")
    }

    pub(crate) fn invoice(&self, number: u32) -> Stub<Invoice> {
        let id = Draft::id_of("sub_1", number);
        self.node.env().object::<Invoice>().get_by_name(&id)
    }

    /// A subscription whose first invoice waits to be paid, with its draft. The engine bills it; it is not paid,
    /// since the node has no payments.
    pub(crate) async fn billed(&self) -> Draft {
        self.stocked().await;
        let made = self.subscription().create(tea(0)).await.unwrap();
        assert_eq!(made.state, "incomplete");
        let begun = self.begun(0, 1).await;
        serde_json::from_value(begun.data["draft"].clone()).unwrap()
    }

    /// Waits until the engine has begun an attempt to collect an invoice. What it has put off for a moment is due when the
    /// clock moves, which it does only if nothing happens for long.
    pub(crate) async fn begun(&self, number: u32, attempt: u32) -> View {
        for look in 1..=PATIENCE {
            match self.invoice(number).get_state().await {
                Ok(view) if view.data["attempts"] == attempt => return view,
                _ => tokio::time::sleep(LOOK).await,
            }
            if look % PATIENT_LOOKS == 0 {
                self.clock.advance(AGAIN);
            }
        }
        panic!("the engine begins what is to be paid");
    }

    /// What came of an attempt is told to the invoice and to the subscription.
    pub(crate) async fn report(&self, invoice: u32, attempt: u32, verdict: Verdict) {
        let id = Draft::id_of("sub_1", invoice);
        let told = PaymentResult {
            intent: format!("pi_{id}_{attempt}"),
            invoice: id,
            ..result(attempt, verdict)
        };
        let heard = self.invoice(invoice).report_payment_result(told.clone());
        heard.await.unwrap();
        let decided = self.subscription().report_payment_result(told);
        decided.await.unwrap();
    }

    pub(crate) fn draft(&self, number: u32, amount: i64) -> Draft {
        let month = 31 * 24 * 60 * 60 * 1_000;
        let start = self.now();
        let period = Period {
            number,
            start,
            end: start.plus(month),
        };
        let mut lines = Lines::new("EUR".parse().unwrap());
        lines
            .add(Line {
                kind: LineKind::Period,
                description: "1 × Tea".into(),
                price: None,
                period: Some(period),
                amount: euro(amount),
            })
            .unwrap();
        Draft {
            subscription: "sub_1".into(),
            customer: "cus_ada".into(),
            period,
            lines,
        }
    }
}

pub(crate) fn euro(amount: i64) -> Money {
    Money::new(amount, "EUR".parse().unwrap()).unwrap()
}

pub(crate) fn tea(trial_days: u32) -> NewSubscription {
    NewSubscription {
        customer: "cus_ada".into(),
        price: "price_1000".into(),
        quantity: 1,
        trial_days,
    }
}

pub(crate) fn result(attempt: u32, verdict: Verdict) -> PaymentResult {
    PaymentResult {
        invoice: "in_sub_1_0".into(),
        intent: format!("pi_in_sub_1_0_{attempt}"),
        attempt,
        amount: euro(1_000),
        verdict,
        reason: None,
    }
}
