//! One subscription whose first invoice is to be paid.

use std::{sync::Arc, time::Duration};

use abide::workflow::{StepRecord, Workflows};
use abide::{
    Env, Node,
    clock::{Clock, TestClock},
    storage::SimDisk,
};
use billing::{
    gateway::{AnyGateway, GatewayEvent, LocalGateway, Mischief, Payment},
    payment,
    resource::View,
    resources::{
        Customer, Invoice, NewSubscription, PaymentIntent, Price, Product, Refund, Subscription,
    },
};
use serde_json::json;

use crate::{
    node::{engine, passes},
    payment::gateway::{Adapter, Luck},
};

pub(crate) const SUBSCRIPTION: &str = "sub_1";
pub(crate) const INVOICE: &str = "in_sub_1_0";
pub(crate) const INTENT: &str = "pi_in_sub_1_0_1";

const KEY: &str = "sk_test";

/// What passes at a time.
const STEP: Duration = Duration::from_hours(1);

/// How long anything takes, at most, of the clock's time.
const PATIENCE: Duration = Duration::from_hours(5 * 7 * 24);

/// Looks at what comes soon.
const LOOKS: u32 = 3_000;

/// What passes between two of them: in all less than passes until a payment is asked about, and in one look less than a
/// request may take.
const MOMENT: Duration = Duration::from_millis(300);

pub(crate) struct World {
    pub(crate) gateway: LocalGateway,
    adapter: AnyGateway,
    disk: SimDisk,
    clock: TestClock,
    node: Node,
}

impl World {
    /// A node, and what befalls its calls of the gateway.
    pub(crate) async fn new(luck: Luck) -> Self {
        let clock = TestClock::new();
        let gateway = LocalGateway::new(KEY, Mischief::none(1), Arc::new(clock.clone()));
        let adapter = AnyGateway::new(Adapter::new(&gateway, KEY, &clock, luck));
        Self::at(SimDisk::new(), clock, gateway, adapter)
    }

    fn at(disk: SimDisk, clock: TestClock, gateway: LocalGateway, adapter: AnyGateway) -> Self {
        let node = engine(&disk, &clock, adapter.clone(), gateway.clone());
        Self {
            gateway,
            adapter,
            disk,
            clock,
            node: node.start().unwrap(),
        }
    }

    /// Another node, on what a kill of this one leaves. The gateway lives on.
    pub(crate) fn killed(self) -> Self {
        let disk = self.disk.after_kill();
        let (clock, gateway, adapter) = (self.clock, self.gateway, self.adapter);
        drop(self.node);
        Self::at(disk, clock, gateway, adapter)
    }

    /// Another node, on what a power failure leaves.
    pub(crate) fn without_power(self, seed: u64) -> Self {
        let disk = self.disk.crash(seed);
        let (clock, gateway, adapter) = (self.clock, self.gateway, self.adapter);
        drop(self.node);
        Self::at(disk, clock, gateway, adapter)
    }

    pub(crate) fn env(&self) -> &Env {
        self.node.env()
    }

    /// The clock's time.
    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    pub(crate) fn workflows(&self) -> Workflows<payment::Payment> {
        Workflows::new(self.env())
    }

    /// A customer subscribes, and pays with a card.
    pub(crate) async fn subscribe(&self, card: &str) {
        self.subscribe_to(Some(card), 0).await;
    }

    /// A customer subscribes, with a card or none, and a trial of some days or none.
    pub(crate) async fn subscribe_to(&self, card: Option<&str>, trial_days: u32) {
        let (create, created) = ("create".to_owned(), "created".to_owned());
        let product = self.env().object::<Product>().get_by_name("prod_tea");
        let tea = product.transition(create.clone(), created.clone(), json!({ "name": "Tea" }));
        tea.await.unwrap();
        let price = self.env().object::<Price>().get_by_name("price_year");
        let terms = json!({
            "product": "prod_tea",
            "unit_amount": { "amount": 1_000, "currency": "EUR" },
            "every": { "count": 1, "unit": "year" },
        });
        let price = price.transition(create.clone(), created.clone(), terms);
        price.await.unwrap();
        let customer = self.env().object::<Customer>().get_by_name("cus_ada");
        let ada = json!({ "name": "Ada", "email": "ada@example.com", "payment_method": card });
        let customer = customer.transition(create, created, ada);
        customer.await.unwrap();
        let new = NewSubscription {
            customer: "cus_ada".into(),
            price: "price_year".into(),
            quantity: 1,
            trial_days,
        };
        let subscription = self.env().object::<Subscription>();
        let subscription = subscription.get_by_name(SUBSCRIPTION).create(new);
        subscription.await.unwrap();
    }

    /// The customer has another card.
    pub(crate) async fn has_card(&self, card: &str) {
        let customer = self.env().object::<Customer>().get_by_name("cus_ada");
        let data = json!({ "payment_method": card });
        let set = customer.transition("set_payment_method".into(), "set".into(), data);
        set.await.unwrap();
    }

    /// The customer pays the first invoice with another card.
    pub(crate) async fn pays_with(&self, card: &str) {
        self.has_card(card).await;
        let invoice = self.env().object::<Invoice>().get_by_name(INVOICE);
        invoice.pay().await.unwrap();
    }

    /// A resource, if it is there.
    async fn look(&self, id: &str) -> Option<View> {
        let env = self.env();
        let view = match id.split('_').next().unwrap() {
            "sub" => {
                env.object::<Subscription>()
                    .get_by_name(id)
                    .get_state()
                    .await
            }
            "in" => env.object::<Invoice>().get_by_name(id).get_state().await,
            "re" => env.object::<Refund>().get_by_name(id).get_state().await,
            _ => {
                env.object::<PaymentIntent>()
                    .get_by_name(id)
                    .get_state()
                    .await
            }
        };
        view.ok()
    }

    pub(crate) async fn show(&self, id: &str) -> View {
        self.look(id).await.unwrap()
    }

    pub(crate) async fn state(&self, id: &str) -> String {
        self.show(id).await.state
    }

    async fn is(&self, id: &str, state: &str) -> bool {
        self.look(id).await.is_some_and(|view| view.state == state)
    }

    /// Lets so much time pass, with what it makes due.
    pub(crate) async fn passes(&self, time: Duration) {
        passes(&self.node, &self.clock, time, STEP).await;
    }

    /// The same for a long time in which little happens.
    pub(crate) async fn passes_by_days(&self, time: Duration) {
        passes(&self.node, &self.clock, time, Duration::from_hours(24)).await;
    }

    /// Lets time pass until a resource is in a state.
    pub(crate) async fn becomes(&self, id: &str, state: &str) {
        let end = self.now() + PATIENCE;
        self.node.settle().await.unwrap();
        while !self.is(id, state).await {
            assert!(self.now() < end, "{id} is never {state}");
            self.passes(STEP).await;
        }
    }

    /// Waits until a resource is in a state, while next to no time passes.
    pub(crate) async fn becomes_soon(&self, id: &str, state: &str) {
        let so = async || self.is(id, state).await.then_some(());
        self.soon(&format!("{id} becomes {state}"), so).await;
    }

    /// Waits until the customer is asked to prove who they are; the payment at the gateway.
    pub(crate) async fn waits_for_its_customer(&self) -> Payment {
        self.becomes_soon(INTENT, "requires_action").await;
        self.gateway.waiting().remove(0)
    }

    /// Waits until the gateway was asked how the payment stands.
    pub(crate) async fn has_asked(&self) {
        let asked = async || {
            let steps = self.workflows().history(INTENT, 0).await.unwrap();
            let is_answer =
                |step: &StepRecord| step.name.starts_with("status") && step.seq.is_some();
            steps.iter().any(is_answer).then_some(())
        };
        self.soon("the gateway is asked", asked).await;
    }

    /// Waits until the payment has ended as it should.
    pub(crate) async fn ends(&self) {
        let ended = async || {
            let record = self.workflows().status(INTENT).await.unwrap();
            record.status.is_end().then_some(record)
        };
        let record = self.soon("the payment ends", ended).await;
        assert_eq!(record.error, None);
    }

    pub(crate) async fn soon<T>(&self, what: &str, look: impl AsyncFn() -> Option<T>) -> T {
        for _ in 0..LOOKS {
            if let Some(found) = look().await {
                return found;
            }
            self.clock.advance(MOMENT);
            self.node.settle().await.unwrap();
        }
        panic!("timed out: {what}");
    }

    /// The gateway's webhook comes.
    pub(crate) async fn hears(&self, event: &GatewayEvent) {
        payment::handle_event(self.env(), event).await.unwrap();
    }
}
