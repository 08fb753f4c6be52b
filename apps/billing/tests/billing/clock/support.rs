//! One subscription, a bank that says what a test wants, and time that jumps from one alarm to the next.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use abide::schedule::{Phase, Timer};
use abide::{
    Env, Error, ErrorKind, LocalFuture, Node, Result, Stub,
    clock::{Clock, TestClock},
    storage::{AlarmState, SimDisk, Store, StoreOptions},
};
use billing::{
    Every, Time,
    clock::{AnyPayments, Payments},
    resource::View,
    resources::{Customer, Invoice, NewSubscription, Price, Product, Subscription, register},
    states::{self, Draft, Invoiced, NewIntent, PaymentResult, Policy, Verdict},
};
use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) const HOUR: i64 = 3_600_000;
pub(crate) const DAY: i64 = 24 * HOUR;

/// So often one looks at a disk that does not change, before it is believed to stand still.
const STILL_LOOKS: u32 = 20;

/// So often one looks whether something still happens, without an end.
const PATIENT_PULSES: usize = 300;

pub(crate) fn date(text: &str) -> Time {
    Time(text.parse::<Timestamp>().unwrap().as_millisecond())
}

/// A subscription to a price, billed each month.
pub(crate) fn monthly(price: i64) -> NewSubscription {
    NewSubscription {
        customer: "cus_ada".into(),
        price: format!("price_{price}"),
        quantity: 1,
        trial_days: 0,
    }
}

type Answer = Box<dyn Fn(&NewIntent) -> Verdict + Send>;

/// A payment that has begun.
#[derive(Clone)]
pub(crate) struct Payment {
    pub(crate) at: Time,
    result: PaymentResult,
    subscription: String,
    reported: bool,
}

/// Begins payments, and reports each twice, to the invoice and to the subscription. It outlives the node.
#[derive(Clone)]
pub(crate) struct Bank {
    clock: TestClock,
    answer: Arc<Mutex<Answer>>,
    begun: Arc<Mutex<BTreeMap<String, Payment>>>,
    is_away: Arc<AtomicBool>,
    loses_answers: Arc<AtomicBool>,
}

impl Bank {
    /// Says from now on how payments end.
    pub(crate) fn answer(&self, answer: impl Fn(&NewIntent) -> Verdict + Send + 'static) {
        *self.answer.lock().unwrap() = Box::new(answer);
    }

    /// Begins no payment, or does again.
    pub(crate) fn is_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::SeqCst);
    }

    /// Begins payments and loses the answers; or stops that.
    pub(crate) fn loses_answers(&self, loses: bool) {
        self.loses_answers.store(loses, Ordering::SeqCst);
    }

    /// The payments that have begun, in order.
    pub(crate) fn begun(&self) -> Vec<Payment> {
        let mut begun: Vec<Payment> = self.begun.lock().unwrap().values().cloned().collect();
        begun.sort_by_key(|payment| payment.at);
        begun
    }

    /// Reports what has not been reported.
    async fn report(&self, env: &Env) -> Result<()> {
        let begun = self.begun();
        for payment in begun.into_iter().filter(|payment| !payment.reported) {
            let result = payment.result;
            let subscription = env
                .object::<Subscription>()
                .get_by_name(&payment.subscription);
            let invoice = env.object::<Invoice>().get_by_name(&result.invoice);
            for _ in 0..2 {
                invoice.report_payment_result(result.clone()).await?;
                subscription.report_payment_result(result.clone()).await?;
            }
            let mut begun = self.begun.lock().unwrap();
            begun
                .entry(result.intent)
                .and_modify(|payment| payment.reported = true);
        }
        Ok(())
    }
}

impl Payments for Bank {
    fn begin(&self, _env: &Env, id: String, intent: NewIntent) -> LocalFuture<Result<()>> {
        if self.is_away.load(Ordering::SeqCst) {
            let error = Error::with_kind(ErrorKind::Unavailable, "the bank is away");
            return Box::pin(async { Err(error) });
        }
        let verdict = (self.answer.lock().unwrap())(&intent);
        let payment = Payment {
            at: Time::now(&self.clock),
            subscription: intent.subscription,
            result: PaymentResult {
                invoice: intent.invoice,
                intent: id.clone(),
                attempt: intent.attempt,
                amount: intent.amount,
                verdict,
                reason: None,
            },
            reported: false,
        };
        self.begun.lock().unwrap().entry(id).or_insert(payment);
        if self.loses_answers.load(Ordering::SeqCst) {
            let error = Error::with_kind(ErrorKind::Unavailable, "the answer is lost");
            return Box::pin(async { Err(error) });
        }
        Box::pin(async { Ok(()) })
    }

    fn has_begun(&self, _env: &Env, id: String) -> LocalFuture<Result<bool>> {
        let has_begun = self.begun.lock().unwrap().contains_key(&id);
        Box::pin(async move { Ok(has_begun) })
    }
}

pub(crate) struct World {
    policy: Option<Policy>,
    disk: SimDisk,
    clock: TestClock,
    node: Node,
    pub(crate) bank: Bank,
}

impl World {
    /// A world at a time, with two prices and a customer, whose payments succeed.
    pub(crate) async fn starting(at: &str) -> Self {
        Self::starting_with(at, None).await
    }

    /// The same, with terms of the node.
    pub(crate) async fn starting_with(at: &str, policy: Option<Policy>) -> Self {
        let clock = TestClock::new();
        let bank = Bank {
            clock: clock.clone(),
            answer: Arc::new(Mutex::new(Box::new(|_| Verdict::Paid))),
            begun: Arc::default(),
            is_away: Arc::default(),
            loses_answers: Arc::default(),
        };
        let late = date(at).0 - Time::now(&clock).0;
        clock.advance(Duration::from_millis(late.try_into().unwrap()));
        let world = Self::at(SimDisk::new(), clock, bank, policy);
        let env = world.node.env();
        let write = |outcome: &str| ("create".to_owned(), outcome.to_owned());
        let (create, created) = write("created");
        let product = env.object::<Product>().get_by_name("prod_tea");
        product
            .transition(create.clone(), created.clone(), json!({"name": "Tea"}))
            .await
            .unwrap();
        for amount in [0, 1_000, 3_000] {
            let price = env
                .object::<Price>()
                .get_by_name(&format!("price_{amount}"));
            let terms = json!({
                "product": "prod_tea", "unit_amount": {"amount": amount, "currency": "EUR"}, "every": Every::MONTH
            });
            price
                .transition(create.clone(), created.clone(), terms)
                .await
                .unwrap();
        }
        let ada = json!({"name": "Ada", "email": "ada@example.com", "payment_method": "card_ok"});
        let customer = env.object::<Customer>().get_by_name("cus_ada");
        customer.transition(create, created, ada).await.unwrap();
        world
    }

    fn at(disk: SimDisk, clock: TestClock, bank: Bank, policy: Option<Policy>) -> Self {
        let time = clock.clone();
        let options = StoreOptions::small().unix_millis(Arc::new(move || time.unix_millis()));
        let store = Store::open(Arc::new(disk.clone()), Path::new("/data"), options).unwrap();
        let node = register(Node::builder(store))
            .with(AnyPayments::new(bank.clone()))
            .clock(Arc::new(clock.clone()))
            .workers(1);
        let node = match &policy {
            Some(policy) => node.with(policy.clone()),
            None => node,
        };
        let node = node.start().unwrap();
        Self {
            policy,
            disk,
            clock,
            node,
            bank,
        }
    }

    /// Another node, on what a kill of this one leaves.
    pub(crate) async fn killed(self) -> Self {
        self.dies(None).await
    }

    /// Another node, on what a kill leaves, or a power failure of that seed.
    pub(crate) async fn dies(self, power: Option<u64>) -> Self {
        let disk = match power {
            Some(seed) => self.disk.crash(seed),
            None => self.disk.after_kill(),
        };
        self.disk.release_syncs();
        Self::at(disk, self.clock.clone(), self.bank.clone(), self.policy)
    }

    pub(crate) fn now(&self) -> Time {
        Time::now(&self.clock)
    }

    /// Writes the invoice of a period off.
    pub(crate) async fn give_up(&self, number: u32) {
        let invoices = self.node.env().object::<Invoice>();
        let invoice = invoices.get_by_name(&Draft::id_of("sub_1", number));
        invoice.give_up().await.unwrap();
    }

    /// There is another price.
    pub(crate) async fn price(&self, id: &str, amount: i64, unit: &str) {
        let price = self.node.env().object::<Price>().get_by_name(id);
        let terms = json!({
            "product": "prod_tea",
            "unit_amount": {"amount": amount, "currency": "EUR"},
            "every": {"count": 1, "unit": unit}
        });
        let made = price.transition("create".into(), "created".into(), terms);
        made.await.unwrap();
    }

    pub(crate) fn customer(&self) -> Stub<Customer> {
        self.node.env().object::<Customer>().get_by_name("cus_ada")
    }

    pub(crate) fn subscription(&self) -> Stub<Subscription> {
        self.node
            .env()
            .object::<Subscription>()
            .get_by_name("sub_1")
    }

    pub(crate) async fn subscribe(&self, new: NewSubscription) {
        self.subscription().create(new).await.unwrap();
    }

    /// The state of the subscription.
    pub(crate) async fn state(&self) -> String {
        self.subscription().get_state().await.unwrap().state
    }

    pub(crate) async fn is_entitled(&self) -> bool {
        self.subscription().entitlement().await.unwrap().entitled
    }

    /// The timers that will go off, or have failed.
    pub(crate) async fn timers(&self) -> Vec<Timer> {
        let mut timers = self.subscription().timers().await.unwrap();
        timers.retain(|timer| timer.ended_at.is_none());
        timers
    }

    /// The invoice of a period, if there is one, with the time at which it was billed.
    pub(crate) async fn invoice(&self, number: u32) -> Option<View> {
        let invoice = self
            .node
            .env()
            .object::<Invoice>()
            .get_by_name(&Draft::id_of("sub_1", number));
        invoice.get_state().await.ok()
    }

    /// What is due for a period.
    pub(crate) async fn due(&self, number: u32) -> i64 {
        let invoice = self.invoice(number).await.unwrap();
        let invoice: states::Invoice = serde_json::from_value(invoice.data).unwrap();
        invoice.due.unwrap().amount()
    }

    /// Reports the outcome of a payment that the customer was asked about.
    pub(crate) async fn reports(&self, number: u32, attempt: u32, verdict: Verdict) {
        let id = Draft::id_of("sub_1", number);
        let payment =
            self.bank.begun.lock().unwrap()[&states::Invoice::intent(&id, attempt)].clone();
        let result = PaymentResult {
            verdict,
            ..payment.result
        };
        let invoice = self.node.env().object::<Invoice>().get_by_name(&id);
        let told = invoice.report_payment_result(result.clone()).await;
        told.unwrap();
        let told = self.subscription().report_payment_result(result).await;
        told.unwrap();
    }

    /// The customer pays by hand: with an attempt that no clock begins.
    pub(crate) async fn pays(&self, number: u32, attempt: u32) {
        let id = Draft::id_of("sub_1", number);
        let retry = json!({"invoice": id, "attempt": attempt});
        self.bank.answer(|_| Verdict::Paid);
        let retried = self
            .subscription()
            .transition("retry".into(), "attempted".into(), retry)
            .await;
        retried.unwrap();
    }

    /// What each outcome of an action says, in order.
    async fn said(&self, action: &str) -> Vec<Value> {
        let mut said = Vec::new();
        let mut after = 0;
        loop {
            let page = self.subscription().get_history(after, 100).await.unwrap();
            let Some(last) = page.last() else {
                return said;
            };
            after = last.entry.seq;
            let of = page.iter().filter(|event| event.entry.action == action);
            said.extend(of.map(|event| event.entry.data::<Value>().unwrap()));
        }
    }

    /// The periods that were entered or skipped, in order.
    pub(crate) async fn periods(&self) -> Vec<u32> {
        let said = self.said("advance").await;
        said.iter()
            .map(|period| period["number"].as_u64().unwrap().try_into().unwrap())
            .collect()
    }

    /// The periods that were billed, in order.
    pub(crate) async fn billed(&self) -> Vec<u32> {
        let said = self.said("bill").await;
        said.into_iter()
            .map(|bill| {
                serde_json::from_value::<Invoiced>(bill)
                    .unwrap()
                    .draft
                    .period
                    .number
            })
            .collect()
    }

    /// What was told before it happened, and for when that was due.
    pub(crate) async fn notified(&self) -> Vec<(String, Time)> {
        let chain = self.subscription().get_history(0, 500).await;
        let chain = chain.unwrap().into_iter();
        let told = chain.filter(|event| event.entry.action == "notify");
        told.map(|event| {
            let at: states::Moment = event.entry.data().unwrap();
            (event.entry.outcome, at.at)
        })
        .collect()
    }

    /// Whether the subscription still waits for the money of a period.
    pub(crate) async fn owes(&self, number: u32) -> bool {
        let view = self.subscription().get_state().await.unwrap();
        let live: states::Subscription = serde_json::from_value(view.data).unwrap();
        live.owed.contains_key(&Draft::id_of("sub_1", number))
    }

    /// The chain leads to the live state, and nothing that was to happen has failed.
    pub(crate) async fn check(&self) {
        self.subscription().check().await.unwrap();
        for timer in self.timers().await {
            assert!(timer.run.is_none(), "{timer:?}");
        }
    }

    /// The next alarm of any object.
    fn alarm(&self) -> Option<Time> {
        let alarms = self.node.alarms(AlarmState::Pending, None, 1);
        alarms.first().map(|alarm| Time(alarm.due.unix_millis()))
    }

    /// Moves the clock, and nothing happens meanwhile.
    pub(crate) fn jump(&self, to: Time) {
        let by = to.0 - self.now().0;
        self.clock
            .advance(Duration::from_millis(by.max(0).try_into().unwrap()));
    }

    /// Moves the clock to the next alarm on a disk with this many more syncs, and waits until the node is idle.
    pub(crate) async fn stalls_after(&self, syncs: u64) {
        self.disk.hold_syncs();
        self.jump_to_alarm(self.now().plus(40 * DAY));
        self.disk.allow_syncs(syncs);
        let (mut still, mut before) = (0, self.disk.changes());
        while still < STILL_LOOKS {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let changes = self.disk.changes();
            still = if changes == before { still + 1 } else { 0 };
            before = changes;
        }
    }

    /// Sets the clock back.
    pub(crate) fn set_back(&self, by: i64) {
        self.clock.set_wall(-by);
    }

    /// Moves the clock to the next alarm, or to a time, whichever is first.
    pub(crate) fn jump_to_alarm(&self, at_most: Time) {
        self.jump(self.alarm().map_or(at_most, |alarm| alarm.min(at_most)));
    }

    /// Lets time pass: from one alarm to the next, with all that follows from it.
    pub(crate) async fn until(&self, end: Time) {
        self.rest().await;
        while self.now() < end {
            self.jump_to_alarm(end);
            self.rest().await;
        }
    }

    /// Lets everything happen that can without the clock moving.
    pub(crate) async fn rest(&self) {
        for _ in 0..PATIENT_PULSES {
            if self.bank.report(self.node.env()).await.is_ok()
                && let Ok(timers) = self.subscription().timers().await
                && !timers.iter().any(|timer| self.goes_off(timer))
                && self.bank.begun().iter().all(|payment| payment.reported)
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // A kill has left the object with an alarm that waits for its next attempt.
    }

    /// Whether a timer goes off, or is about to.
    fn goes_off(&self, timer: &Timer) -> bool {
        let now = self.now().0;
        match &timer.run {
            Some(run) if run.phase == Phase::Retrying => run.fire_at.is_some_and(|at| at <= now),
            Some(run) => run.phase == Phase::Running,
            None => timer.due_at.is_some_and(|at| at <= now),
        }
    }
}
