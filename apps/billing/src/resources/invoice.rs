//! Invoices.

use abide::{Stub, durable_object};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Customer, NewPaymentRefund, PaymentIntent, Subscription,
    calls::{alarmed, calls},
};
use crate::{
    BillingError, Money,
    machines::ABSENT,
    payment,
    resource::{Resource, View},
    states::{
        self, Attempted, CreditEffect, CreditNote, Credited, Draft, NewIntent, NewRefund,
        PaymentResult, RefundTo,
    },
};

/// The data of a new credit note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewCreditNote {
    /// Its id.
    pub id: String,
    /// The amount; by default everything that is left.
    pub amount: Option<Money>,
    /// Where the money goes, if the invoice is paid.
    pub to: RefundTo,
    /// Why.
    pub reason: Option<String>,
}

/// An invoice for a period.
#[durable_object]
pub struct Invoice {
    resource: Resource<states::Invoice>,
}

alarmed!(Invoice);

calls! {
    impl Invoice {
        /// Creates and finalizes it: it is then open, or paid if nothing is due. Repeating it with the same draft
        /// changes nothing.
        pub async fn create(&self, draft: Draft) -> Result<View, BillingError> {
            let (known, other) = self.resource.read(|live| {
                let known = live.state != ABSENT;
                (known, known && live.machine.draft.as_ref() != Some(&draft))
            })?;
            if other || draft.id() != self.resource.id() {
                return Err(BillingError::invalid(format!(
                    "{} already exists with different content.",
                    self.resource.id()
                )));
            }
            if !known {
                let due = draft.totals().map_err(states::Refusal::from)?.due;
                let finalized = if due.is_zero() {
                    "settled"
                } else {
                    "finalized"
                };
                self.resource.write("create", "drafted", &draft)?;
                self.resource.write("finalize", finalized, &Value::Null)?;
            }
            self.resource.view()
        }

        /// Begins an attempt to collect it, and returns what to pay. Repeating it for the same attempt changes nothing;
        /// none if it is paid, or no longer payable.
        pub async fn begin_attempt(&self, attempt: u32) -> Result<Option<NewIntent>, BillingError> {
            let (intent, begun) = self.resource.read(|live| {
                let is_due = matches!(live.state, "open" | "uncollectible");
                let intent = live.machine.attempt(self.resource.id(), attempt);
                (is_due.then_some(intent), live.machine.attempts >= attempt)
            })?;
            let Some(intent) = intent else {
                return Ok(None);
            };
            let intent = intent?;
            if !begun {
                let attempted = Attempted {
                    intent: states::Invoice::intent(self.resource.id(), attempt),
                    attempt,
                    reason: None,
                    surplus: None,
                };
                self.resource.write("pay", "attempted", &attempted)?;
            }
            Ok(Some(intent))
        }

        /// Lets its subscription begin another attempt to collect it, because the customer wants to pay. While an
        /// attempt is running, nothing else begins. If it waits for customer authentication, and the customer has set
        /// another card since, it is canceled, and the next one begins when it has ended unpaid.
        pub async fn pay(&self) -> Result<View, BillingError> {
            self.resource.must_take("pay", "attempted")?;
            let subscription = self.subscription()?;
            subscription.pay(self.resource.id().to_owned()).await?;
            self.replace_card().await?;
            self.resource.view()
        }

        /// Cancels a payment that waits for its customer, if they have set another card since.
        async fn replace_card(&self) -> Result<(), BillingError> {
            let (waits, attempt, customer) = self.resource.read(|live| {
                let invoice = &live.machine;
                let customer = invoice.draft.as_ref().map(|draft| draft.customer.clone());
                (invoice.failures < invoice.attempts, invoice.attempts, customer)
            })?;
            let Some(customer) = customer.filter(|_| waits) else {
                return Ok(());
            };
            let env = self.resource.env();
            let intent = states::Invoice::intent(self.resource.id(), attempt);
            let view = match env.object::<PaymentIntent>().get_by_name(&intent).get_state().await {
                // The attempt has just begun.
                Err(BillingError::NotFound { .. }) => return Ok(()),
                view => view?,
            };
            let known = view.live::<states::PaymentIntent>()?.payment_method;
            let customer = env.object::<Customer>().get_by_name(&customer).get_state().await?;
            let card = customer.live::<states::Customer>()?.payment_method;
            if let Some(card) = card.filter(|card| known.as_ref() != Some(card))
                && view.state == "requires_action"
            {
                payment::replace_card(env, &intent, &card).await?;
            }
            Ok(())
        }

        /// Voids it, if its subscription agrees. Repeating it changes nothing.
        pub async fn void(&self) -> Result<View, BillingError> {
            let view = self.resource.view()?;
            if view.state == "void" {
                return Ok(view);
            }
            self.resource.must_take("void", "voided")?;
            let subscription = self.subscription()?;
                subscription.void(self.resource.id().to_owned()).await?;
            self.voided()
        }

        /// Writes it off, if its subscription agrees. Repeating it changes nothing.
        pub async fn give_up(&self) -> Result<View, BillingError> {
            let view = self.resource.view()?;
            if view.state == "uncollectible" {
                return Ok(view);
            }
            self.resource.must_take("give_up", "marked")?;
            let subscription = self.subscription()?;
            subscription.give_up(self.resource.id().to_owned()).await?;
            let view = self.resource.view()?;
            if view.state == "uncollectible" {
                return Ok(view);
            }
            self.resource.transition("give_up", "marked", &Value::Null)
        }

        /// Voids it, as its subscription has decided. Repeating it changes nothing.
        pub async fn be_voided(&self) -> Result<View, BillingError> {
            self.voided()
        }

        fn voided(&self) -> Result<View, BillingError> {
            let view = self.resource.view()?;
            // A payment was faster: its money is refunded.
            if matches!(&*view.state, "void" | "paid") {
                return Ok(view);
            }
            self.resource.transition("void", "voided", &Value::Null)
        }

        /// Issues a credit note. For an unpaid invoice, less is owed, if its subscription agrees; for a paid one, money
        /// is refunded to the card, or becomes credit for the next invoice. Repeating it with the same id changes
        /// nothing.
        pub async fn credit(&self, new: NewCreditNote) -> Result<View, BillingError> {
            let view = self.resource.view()?;
            let (known, left, paid_by) = self.resource.read(|live| {
                let known = live.machine.credit_notes.get(&new.id).cloned();
                (known, live.machine.creditable(live.state), live.machine.paid_by.clone())
            })?;
            if let Some(known) = known {
                if new.amount.is_some_and(|amount| amount != known.amount) {
                    let text = format!("{} is over {}.", known.id, known.amount);
                    return Err(BillingError::invalid(text));
                }
                return Ok(view);
            }
            self.resource.must_take("credit", "noted")?;
            let amount = new.amount.map_or(left, Ok)?;
            self.resource.read(|live| live.machine.may_credit(live.state, amount))??;
            let mut note = CreditNote {
                id: new.id,
                amount,
                effect: CreditEffect::Reduced,
                refund: None,
                reason: new.reason,
            };
            if view.state == "paid" {
                let Some(intent) = paid_by else {
                    return Err(BillingError::invalid("Nothing was paid for the invoice."));
                };
                let refund = CreditNote::refund_of(&note.id);
                note.refund = Some(refund.clone());
                note.effect = match new.to {
                    RefundTo::Card => CreditEffect::Refunded,
                    RefundTo::Balance => CreditEffect::Credited,
                };
                let wanted = NewPaymentRefund {
                    refund,
                    amount: Some(amount),
                    to: new.to,
                    reason: note.reason.clone(),
                    credit_note: Some(note.id.clone()),
                };
                let intents = self.resource.env().object::<PaymentIntent>();
                intents.get_by_name(&intent).refund(wanted).await?;
            } else {
                let credited = Credited {
                    id: note.id.clone(),
                    invoice: self.resource.id().to_owned(),
                    amount,
                    reason: note.reason.clone(),
                };
                self.subscription()?.reduce(credited).await?;
            }
            self.noted(&note).await
        }

        /// Records a credit note carried out by its subscription or a refund. Repeating it changes nothing.
        pub async fn take_note(&self, note: CreditNote) -> Result<View, BillingError> {
            self.noted(&note).await
        }

        /// Withdraws a credit note that was not carried out: the money was not refunded.
        pub async fn withdraw_note(&self, note: String) -> Result<View, BillingError> {
            match self.resource.read(|live| live.machine.credit_notes.get(&note).cloned())? {
                Some(note) => self.resource.transition("credit", "withdrawn", &note),
                None => self.resource.view(),
            }
        }

        async fn noted(&self, note: &CreditNote) -> Result<View, BillingError> {
            let is_reduced = note.effect == CreditEffect::Reduced;
            let paid_by = self.resource.read(|live| {
                let is_news = live.state == "paid" && !live.machine.credit_notes.contains_key(&note.id);
                live.machine.paid_by.clone().filter(|_| is_news && is_reduced)
            })?;
            if let Some(intent) = paid_by {
                // A payment was faster, and exceeded the amount owed by then. Its refund is started before the note is
                // written.
                let refund = NewRefund::late_note_id(&intent, &note.id);
                match payment::give_back(self.resource.env(), &intent, refund, note.amount).await {
                    Err(BillingError::Object(error)) => return Err(error.into()),
                    Err(refused) => {
                        tracing::error!(intent, note = note.id, %refused, "the amount of a credit note is not refunded");
                    }
                    Ok(()) => {}
                }
            }
            let view = self.resource.view()?;
            let (known, due) = self.resource.read(|live| {
                (live.machine.credit_notes.contains_key(&note.id), live.machine.due)
            })?;
            if known || view.state == "void" {
                return Ok(view);
            }
            let pays = is_reduced && due == Some(note.amount);
            let outcome = if pays && view.state != "paid" { "settled" } else { "noted" };
            self.resource.transition("credit", outcome, note)
        }

        fn subscription(&self) -> Result<Stub<Subscription>, BillingError> {
            let draft = self.resource.read(|live| live.machine.draft.clone())?;
            let id = self.resource.id();
            let draft = draft.ok_or_else(|| BillingError::not_found("invoice", id))?;
            let subscriptions = self.resource.env().object::<Subscription>();
            Ok(subscriptions.get_by_name(&draft.subscription))
        }

        /// Records the result of a payment. A repeated report is ignored.
        pub async fn report_payment_result(&self, result: PaymentResult) -> Result<View, BillingError> {
            let id = self.resource.id();
            let news = self
                .resource
                .read(|live| live.machine.report(id, live.state, &result))??;
            match news {
                Some((outcome, attempted)) => self.resource.transition("pay", outcome, &attempted),
                None => self.resource.view(),
            }
        }
    }
}
