//! Subscriptions.

use abide::schedule::{Failure, Timer};
use abide::{ErrorKind, prelude::*};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Customer, FailedTimer, Invoice, Price, Product, calls::calls, failed_timers};
use crate::{
    BillingError, Time,
    clock::{self, AnyPayments, Clock, Collection, Subject},
    machines::COPY,
    resource::{Resource, View},
    states::{
        self, Annotation, CARD_REPLACED, Created, Credited, GivenUp, MAX_TRIAL_DAYS, Moment,
        NO_PAYMENT_METHOD, NewPrice, PaymentResult, Plan, Policy, Preview, Report, Terms, Upcoming,
        Verdict,
    },
};

/// The data of a new subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewSubscription {
    /// The customer's id.
    pub customer: String,
    /// The price's id.
    pub price: String,
    /// How many units; 1 if nothing is said.
    #[serde(default = "one")]
    pub quantity: u32,
    /// Days that cost nothing, before the first period.
    #[serde(default)]
    pub trial_days: u32,
}

/// The terms of a subscription that differ from the node's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnTerms {
    /// Days after the first failure on which a payment is retried.
    #[serde(default)]
    pub dunning_days: Option<Vec<u32>>,
    /// Days after the first failure until service ends.
    #[serde(default)]
    pub grace_days: Option<u32>,
}

fn one() -> u32 {
    1
}

/// Whether a subscription gives its customer what they pay for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entitlement {
    /// Whether it does.
    pub entitled: bool,
    /// The state that says so.
    pub state: String,
    /// The end of what is paid for, or of the trial, if anything is.
    pub until: Option<Time>,
}

/// A customer's right to a product for as long as they pay for it.
#[durable_object]
pub struct Subscription {
    resource: Resource<states::Subscription>,
    clock: Clock,
}

impl DurableObject for Subscription {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let clock = Clock::open(&ctx)?;
        let follower = clock.clone();
        let resource = Resource::open(&ctx, move |entry, live| {
            follower.follow(entry, live.state, &live.machine)
        })?;
        clock.serve(resource.clone())?;
        let (activated, again) = (resource.clone(), clock.clone());
        ctx.on_activation(move |_| {
            activated.read(|live| again.follow_again(live.state, &live.machine))?
        });
        Ok(Self { resource, clock })
    }
}

impl Subject for Resource<states::Subscription> {
    fn id(&self) -> &str {
        self.id()
    }

    fn live(&self) -> Result<(&'static str, states::Subscription)> {
        Ok(self.read(|live| (live.state, live.machine.clone()))?)
    }

    fn write(&self, action: &str, outcome: &str, data: &Value) -> Result<()> {
        self.write(action, outcome, data)?;
        Ok(())
    }

    async fn collect(&self, order: Collection) -> Result<(), Failure> {
        let env = self.env();
        let (is_copy, restored) = self
            .read(|live| (live.state == COPY, live.machine.restored))
            .map_err(failure)?;
        if is_copy {
            return Ok(());
        }
        let invoice = env.object::<Invoice>().get_by_name(&order.invoice);
        if order.void {
            invoice.be_voided().await.map_err(failure)?;
            return Ok(());
        }
        if let Some(note) = order.credit {
            invoice.take_note(note).await.map_err(failure)?;
            return Ok(());
        }
        let mut attempt = order.attempt;
        let exists = restored && self.ask(&order.invoice).await?;
        match order.draft {
            Some(draft) if !exists => drop(invoice.create(draft).await.map_err(failure)?),
            // The order that creates it continues.
            None if order.ask && !exists => return Ok(()),
            _ => {}
        }
        if restored {
            let open = self.read(|live| live.machine.open_attempt(&order.invoice));
            attempt = open.map_err(failure)?.unwrap_or(0);
        }
        if attempt == 0 || self.is_unserved(&order.invoice, attempt).await? {
            return Ok(());
        }
        let begun = invoice.begin_attempt(attempt).await;
        if let Some(intent) = begun.map_err(failure)? {
            let owed = self.read(|live| live.machine.owed.get(&order.invoice).cloned());
            let owed = owed.map_err(failure)?.map(|owed| owed.amount);
            if owed.is_some_and(|owed| owed != intent.amount) {
                return Err(Failure::temporary(
                    "the invoice has not recorded a credit note yet",
                ));
            }
            let id = states::Invoice::intent(&order.invoice, attempt);
            env.require::<AnyPayments>()?.begin(env, id, intent).await?;
        }
        Ok(())
    }

    async fn fails(&self, timer: &str, error: &str) {
        tracing::error!(
            subscription = self.id(),
            timer,
            error,
            "a timer keeps failing: an operator must look at it"
        );
        let failed = FailedTimer {
            subscription: self.id().to_owned(),
            timer: timer.to_owned(),
            error: error.to_owned(),
            since: self.now(),
        };
        let noted = failed_timers(self.env()).note(failed).await;
        if let Err(error) = noted {
            tracing::error!(subscription = self.id(), %error, "cannot list a failing timer");
        }
    }
}

impl Resource<states::Subscription> {
    /// The current time, after everything due by then is written: no request overtakes what is due after downtime, and
    /// none sees the state before it.
    fn caught_up(&self) -> Result<Time, BillingError> {
        self.view()?;
        let now = self.now();
        let is_done = self.atomically(|| Ok(clock::catch_up(self, now)?))?;
        let text = if self.read(|live| !live.machine.asks.is_empty())? {
            "the subscription was restored, and asks its invoices what it has forgotten: retry in a moment"
        } else if !is_done {
            "the subscription is catching up after downtime: retry in a moment"
        } else {
            return Ok(now);
        };
        Err(Error::with_kind(ErrorKind::Unavailable, text).into())
    }

    /// Asks an invoice what has become of it, and writes the answer. Returns whether the invoice exists.
    async fn ask(&self, id: &str) -> Result<bool, Failure> {
        let invoice = self.env().object::<Invoice>().get_by_name(id);
        let view = match invoice.get_state().await {
            Err(BillingError::NotFound { .. }) => None,
            view => Some(view.map_err(failure)?),
        };
        let now = self.now();
        self.atomically(|| self.heard(id, view.as_ref(), now))
            .map_err(failure)?;
        Ok(view.is_some())
    }

    /// What an invoice says is written once, and what follows from it as if it had been reported now.
    fn heard(&self, id: &str, view: Option<&View>, at: Time) -> Result<(), BillingError> {
        if !self.read(|live| live.machine.asks.contains(id))? {
            return Ok(());
        }
        let invoice = view.map(View::live::<states::Invoice>).transpose()?;
        let said = view.zip(invoice.as_ref());
        let found = self.read(|live| {
            let said = said.map(|(view, invoice)| (view.state.as_str(), invoice));
            live.machine.found(id, said)
        })??;
        self.write("restore", "found", &found)?;
        let Some((view, invoice)) = said else {
            return Ok(());
        };
        let is_owed = self.read(|live| live.machine.owed.get(id).cloned())?;
        let Some(owed) = is_owed else { return Ok(()) };
        let report = |attempt, verdict| PaymentResult {
            invoice: id.to_owned(),
            intent: invoice.paid_by.clone().unwrap_or_default(),
            attempt,
            amount: owed.amount,
            verdict,
            reason: None,
        };
        match &*view.state {
            "paid" => self.reported(&report(owed.attempts, Verdict::Paid), at),
            "void" => self.found_void(id, at),
            state => {
                if invoice.failures > 0 {
                    self.reported(&report(invoice.failures, Verdict::Failed), at)?;
                }
                if invoice.asked > 0 {
                    self.reported(&report(invoice.asked, Verdict::RequiresAction), at)?;
                }
                let is_given_up = state == "uncollectible" && !owed.given_up;
                if is_given_up && self.must_take("give_up", "marked").is_ok() {
                    let invoice = id.to_owned();
                    self.write("give_up", "marked", &GivenUp { invoice })?;
                }
                Ok(())
            }
        }
    }

    /// An invoice was voided before the restore. The first one ends with its subscription.
    fn found_void(&self, id: &str, at: Time) -> Result<(), BillingError> {
        if self.read(|live| live.state == "incomplete")? {
            self.write("expire", "expired", &Moment { at })?;
        }
        let cleared = self.read(|live| live.machine.cleared(live.state, id, at))??;
        self.write("collect", cleared.0, &cleared.1)?;
        Ok(())
    }

    /// Writes the result of a payment, unless it is known. Returns the outcome, if it is new.
    fn reported(&self, result: &PaymentResult, at: Time) -> Result<(), BillingError> {
        let id = self.id();
        let report = self.read(|live| live.machine.report(id, live.state, result, at))??;
        if let Report::News(outcome, collected) = report {
            self.write("collect", outcome, &collected)?;
            self.void_unserved(at)?;
        }
        Ok(())
    }

    /// Returns whether it was too late for the first payment when it was to begin: that invoice then need not be paid.
    async fn is_unserved(&self, invoice: &str, attempt: u32) -> Result<bool, Failure> {
        let now = self.now();
        let (is_incomplete, expires_at, is_unserved) = self
            .read(|live| {
                let is_incomplete = live.state == "incomplete";
                (
                    is_incomplete,
                    live.machine.expires_at(),
                    live.machine.unserved,
                )
            })
            .map_err(failure)?;
        if is_incomplete && expires_at <= now {
            let text = "the subscription is about to expire";
            return Err(Error::with_kind(ErrorKind::Unavailable, text).into());
        }
        if !is_unserved {
            return Ok(false);
        }
        if self.has_begun(invoice, attempt).await? {
            return Ok(true);
        }
        let cleared = self.read(|live| {
            let is_owed = live.machine.owed.contains_key(invoice);
            is_owed.then(|| live.machine.cleared(live.state, invoice, now))
        });
        if let Some(cleared) = cleared.map_err(failure)? {
            let (outcome, cleared) = cleared.map_err(|refusal| failure(refusal.into()))?;
            self.write("collect", outcome, &cleared).map_err(failure)?;
        }
        Ok(true)
    }

    /// A payment that has begun unreported may take money: it is waited for.
    async fn has_begun(&self, invoice: &str, attempt: u32) -> Result<bool, Failure> {
        let env = self.env();
        let intent = states::Invoice::intent(invoice, attempt);
        Ok(env.require::<AnyPayments>()?.has_begun(env, intent).await?)
    }

    /// Voids the invoices of a subscription that ended before its first payment.
    fn void_unserved(&self, at: Time) -> Result<(), BillingError> {
        let writes = self.read(|live| {
            let machine = &live.machine;
            machine
                .unserved
                .then(|| clock::unserved(live.state, machine, at))
        })?;
        for write in writes.transpose()?.unwrap_or_default() {
            self.write(write.action, write.outcome, &write.data)?;
        }
        Ok(())
    }
}

/// Returns whether to retry a call that a resource has rejected.
fn failure(error: BillingError) -> Failure {
    match error {
        BillingError::Object(error) => error.into(),
        refused => Failure::permanent(refused.to_string()),
    }
}

calls! {
    impl Subscription {
        /// Creates it, on trial or waiting for its first payment. The price's terms are copied into the chain.
        pub async fn create(&self, new: NewSubscription) -> Result<View, BillingError> {
            self.create_with(new, OwnTerms::default(), Annotation::default()).await
        }

        /// The same, with its own terms and metadata.
        pub async fn create_with(
            &self,
            new: NewSubscription,
            own: OwnTerms,
            annotation: Annotation,
        ) -> Result<View, BillingError> {
            annotation.check()?;
            if new.trial_days > MAX_TRIAL_DAYS {
                return Err(BillingError::invalid(format!(
                    "A trial may have at most {MAX_TRIAL_DAYS} days, not {}.",
                    new.trial_days
                )));
            }
            let customer = self.resource.env().object::<Customer>();
            let customer = customer.get_by_name(&new.customer).get_state().await?;
            must_be_active(&customer)?;
            let plan = self.offer(&new.price).await?.plan(new.quantity)?;
            self.resource.must_be_new()?;
            let customer = self.resource.env().object::<Customer>();
            let id = self.resource.id().to_owned();
            customer.get_by_name(&new.customer).subscribe(id).await?;
            let at = self.resource.now();
            let trial_end = (new.trial_days > 0).then(|| at.plus_days(new.trial_days));
            let outcome = if trial_end.is_some() {
                "trialing"
            } else {
                "incomplete"
            };
            let created = Created {
                customer: new.customer,
                terms: self.terms(own, &plan)?,
                plan,
                at,
                trial_end,
            };
            self.resource.write("create", outcome, &created)?;
            self.resource.annotate(&annotation)
        }

        /// Changes the plan from now on. The proration for the rest of the period is on the next invoice. Without a
        /// quantity it stays unchanged.
        pub async fn change(
            &self,
            price: String,
            quantity: Option<u32>,
        ) -> Result<View, BillingError> {
            self.resource.view()?;
            let offer = self.offer(&price).await?;
            let at = self.resource.caught_up()?;
            let plan = offer.plan(self.quantity(quantity)?)?;
            let changed = self
                .resource
                .read(|live| live.machine.change(live.state, plan, at))??;
            self.resource.transition("change", "changed", &changed)
        }

        /// The next invoice, if nothing else happens; none if no period is billed.
        pub async fn upcoming(&self) -> Result<Option<Upcoming>, BillingError> {
            self.resource.caught_up()?;
            let id = self.resource.id();
            Ok(self.resource.read(|live| live.machine.upcoming(id, live.state))??)
        }

        /// Previews a plan change as of now.
        pub async fn preview(
            &self,
            price: String,
            quantity: Option<u32>,
        ) -> Result<Preview, BillingError> {
            self.resource.view()?;
            let offer = self.offer(&price).await?;
            let at = self.resource.caught_up()?;
            let plan = offer.plan(self.quantity(quantity)?)?;
            self.resource.must_take("change", "changed")?;
            let id = self.resource.id();
            Ok(self.resource.read(|live| live.machine.preview(id, live.state, plan, at))??)
        }

        /// Ends it, now or at the end of the paid period.
        pub async fn cancel(&self, at_period_end: bool) -> Result<View, BillingError> {
            let at = self.resource.caught_up()?;
            if !at_period_end {
                self.resource.must_take("cancel", "canceled")?;
                let id = self.resource.id();
                let writes = self
                    .resource
                    .read(|live| clock::cancel(id, live.state, &live.machine, at))??;
                for write in writes {
                    self.resource.write(write.action, write.outcome, &write.data)?;
                }
                return self.resource.view();
            }
            let until = self.resource.read(|live| live.machine.paid_until())?;
            let at = until.ok_or_else(|| {
                BillingError::invalid("There is no paid period: end the subscription immediately.")
            })?;
            self.resource
                .transition("cancel", "scheduled", &Moment { at })
        }

        /// Revokes a scheduled end.
        pub async fn keep(&self) -> Result<View, BillingError> {
            self.resource.caught_up()?;
            if self.resource.read(|live| live.machine.cancel_at.is_none())? {
                return Err(BillingError::invalid("No end of the subscription is scheduled."));
            }
            self.resource
                .transition("cancel", "unscheduled", &Value::Null)
        }

        /// Stops service and billing.
        pub async fn pause(&self) -> Result<View, BillingError> {
            let at = self.resource.caught_up()?;
            self.resource.must_take("pause", "paused")?;
            let paused = self.resource.read(|live| live.machine.pause(at))??;
            self.resource.transition("pause", "paused", &paused)
        }

        /// Resumes after a pause.
        pub async fn resume(&self) -> Result<View, BillingError> {
            let at = self.resource.caught_up()?;
            let (outcome, resumed) = self.resource.read(|live| live.machine.resumed(at))??;
            self.resource.transition("resume", outcome, &resumed)
        }

        /// Whether the customer is entitled to service now: from the chain, never from the read model.
        pub async fn entitlement(&self) -> Result<Entitlement, BillingError> {
            self.present()?;
            self.resource.read(|live| {
                let entitled = states::Subscription::is_entitled(live.state);
                Entitlement {
                    entitled,
                    state: live.state.to_owned(),
                    until: live.machine.entitled_until(live.state).filter(|_| entitled),
                }
            })
        }

        /// Begins another attempt to collect an owed invoice, because the customer wants to pay. While an attempt is
        /// running, nothing else begins. The attempt replaces the next one of dunning.
        pub async fn pay(&self, invoice: String) -> Result<View, BillingError> {
            self.resource.caught_up()?;
            match self.resource.read(|live| live.machine.attempt_now(&invoice))?? {
                Some(attempt) => self.resource.transition("retry", "attempted", &attempt),
                None => self.resource.view(),
            }
        }

        /// Writes off an owed invoice: no further attempts are made. It is still owed: the customer can pay it, and
        /// service ends after the days of grace.
        pub async fn give_up(&self, invoice: String) -> Result<View, BillingError> {
            self.resource.caught_up()?;
            self.resource
                .transition("give_up", "marked", &GivenUp { invoice })
        }

        /// Waives an invoice, and has it voided. Rejected while a payment of it is running. Repeating it changes
        /// nothing: the node may have crashed before the invoice was notified.
        pub async fn void(&self, invoice: String) -> Result<View, BillingError> {
            let at = self.resource.caught_up()?;
            let id = self.resource.id();
            if self.resource.read(|live| live.machine.is_settled(id, &invoice))? {
                return self.resource.view();
            }
            let (outcome, voided) = self
                .resource
                .read(|live| live.machine.void(live.state, &invoice, at))??;
            self.resource.transition("collect", outcome, &voided)
        }

        /// Reduces the amount owed for an invoice. Repeating it changes nothing.
        pub async fn reduce(&self, credited: Credited) -> Result<View, BillingError> {
            let at = self.resource.caught_up()?;
            if self.resource.read(|live| live.machine.knows_credit(&credited.id))? {
                return self.resource.view();
            }
            self.resource.must_take("credit", "reduced")?;
            let reduced = self.resource.read(|live| live.machine.reduce(live.state, &credited, at))?;
            let collected = reduced?;
            self.resource.write("credit", "reduced", &credited)?;
            if let Some((outcome, collected)) = collected {
                self.resource.write("collect", outcome, &collected)?;
            }
            self.resource.view()
        }

        /// Adds credit for the next invoice. Repeating it changes nothing.
        pub async fn grant(&self, credited: Credited) -> Result<View, BillingError> {
            self.resource.caught_up()?;
            if self.resource.read(|live| live.machine.knows_credit(&credited.id))? {
                return self.resource.view();
            }
            self.resource.read(|live| live.machine.may_grant(live.state))??;
            self.resource.transition("credit", "granted", &credited)
        }

        /// Records that money of one of its invoices was refunded. Repeating it changes nothing.
        pub async fn returned(&self, credited: Credited) -> Result<View, BillingError> {
            self.resource.caught_up()?;
            let known = self.resource.read(|live| live.machine.knows_credit(&credited.id))?;
            if known || self.resource.must_take("credit", "returned").is_err() {
                return self.resource.view();
            }
            self.resource.transition("credit", "returned", &credited)
        }

        /// Records the result of a payment, and decides what follows. A repeated report is ignored.
        pub async fn report_payment_result(&self, result: PaymentResult) -> Result<View, BillingError> {
            self.resource.view()?;
            let id = self.resource.id();
            let at = self.resource.caught_up()?;
            let report = self
                .resource
                .read(|live| live.machine.report(id, live.state, &result, at))??;
            if let Report::News(outcome, collected) = report {
                self.resource.write("collect", outcome, &collected)?;
                if outcome == "failed" {
                    self.after_failure(&collected.invoice, result.reason.as_deref(), at)?;
                }
                self.resource.void_unserved(at)?;
            }
            self.resource.view()
        }

        /// Retries a failed timer.
        pub async fn retry_timer(&self, name: String) -> Result<Vec<Timer>, BillingError> {
            self.resource.view()?;
            self.clock.retry(&name)
        }

        /// Its timers, including failed ones.
        pub async fn timers(&self) -> Result<Vec<Timer>, BillingError> {
            Ok(self.clock.timers()?)
        }

        /// The state as of now: nothing that is due is missing, however long the node was down.
        fn present(&self) -> Result<View, BillingError> {
            self.resource.view()?;
            let caught_up = self.resource.caught_up();
            // A restored subscription that waits for its invoices shows what it knows.
            if self.resource.read(|live| live.machine.asks.is_empty())? {
                caught_up?;
            }
            self.resource.view()
        }

        /// What immediately follows a failed payment.
        fn after_failure(
            &self,
            invoice: &str,
            reason: Option<&str>,
            at: Time,
        ) -> Result<(), BillingError> {
            let (state, after_trial, next) = self.resource.read(|live| {
                let next = live.machine.attempt_now(invoice);
                (live.state, live.machine.waits_since.is_some(), next)
            })?;
            match reason {
                // The customer pays with another card.
                Some(CARD_REPLACED) if self.resource.must_take("retry", "attempted").is_ok() => {
                    if let Ok(Some(attempt)) = next {
                        self.resource.write("retry", "attempted", &attempt)?;
                    }
                }
                // After a trial the customer is not there to pay: do not wait.
                Some(NO_PAYMENT_METHOD) if state == "incomplete" && after_trial => {
                    self.resource.write("expire", "expired", &Moment { at })?;
                    let cleared = self.resource.read(|live| live.machine.cleared(live.state, invoice, at));
                    let (outcome, cleared) = cleared??;
                    self.resource.write("collect", outcome, &cleared)?;
                }
                _ => {}
            }
            Ok(())
        }

        /// The node's terms, with its own ones; none if they are the defaults.
        fn terms(&self, own: OwnTerms, plan: &Plan) -> Result<Option<Terms>, BillingError> {
            let policy = self.resource.env().get::<Policy>();
            let currency = plan.unit_amount.currency();
            let mut terms = policy.map_or_else(Terms::default, |policy| policy.terms(currency));
            terms.dunning_days = own.dunning_days.unwrap_or(terms.dunning_days);
            terms.grace_days = own.grace_days.unwrap_or(terms.grace_days);
            terms.check()?;
            Ok(Some(terms).filter(|terms| *terms != Terms::default()))
        }

        /// The present quantity, unless another is requested. It is read after every `await`: another change may come in
        /// between.
        fn quantity(&self, wanted: Option<u32>) -> Result<u32, BillingError> {
            match wanted {
                Some(quantity) => Ok(quantity),
                None => Ok(self.resource.read(|live| live.machine.plan().map(|plan| plan.quantity))??),
            }
        }

        /// What a price offers now. Neither the price nor its product may be deleted.
        async fn offer(&self, price: &str) -> Result<Offer, BillingError> {
            let env = self.resource.env();
            let view = env
                .object::<Price>()
                .get_by_name(price)
                .get_state()
                .await?;
            must_be_active(&view)?;
            let terms = view.live::<states::Price>()?.terms;
            let terms = terms.ok_or_else(|| BillingError::not_found("price", price))?;
            let product = env.object::<Product>().get_by_name(&terms.product);
            must_be_active(&product.get_state().await?)?;
            Ok(Offer {
                price: price.to_owned(),
                terms,
            })
        }
    }
}

/// A price that can be subscribed to.
struct Offer {
    price: String,
    terms: NewPrice,
}

impl Offer {
    fn plan(self, quantity: u32) -> Result<Plan, BillingError> {
        let plan = Plan {
            price: self.price,
            product: self.terms.product,
            unit_amount: self.terms.unit_amount,
            quantity,
            every: self.terms.every,
        };
        plan.check()?;
        Ok(plan)
    }
}

fn must_be_active(view: &View) -> Result<(), BillingError> {
    if view.state == "active" {
        return Ok(());
    }
    Err(BillingError::not_found(&view.kind, &view.id))
}
