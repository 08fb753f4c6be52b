//! What is asked of the engine, and whether the model takes it as well.

use billing::{
    BillingError,
    resource::View,
    resources::{Customer, NewCreditNote},
    states::{self, CreditEffect, CreditNote, Credited, Draft, RefundTo},
};
use serde_json::json;

use super::{CUSTOMER, SUBSCRIPTION, World, created, euro, refused};
use crate::ledger::life::{Call, Card, PRICES, Refund};

impl World {
    pub(super) async fn set_card(&self, card: Card) {
        let customer = self.node.env().object::<Customer>().get_by_name(CUSTOMER);
        let (set, card) = (
            ("set_payment_method".to_owned(), "set".to_owned()),
            json!({"payment_method": card.id()}),
        );
        created(customer.transition(set.0, set.1, card).await);
    }

    /// What the engine knows of the subscription.
    pub(super) async fn live(&self) -> Result<states::Subscription, String> {
        let view = self.subscription().get_state().await;
        let view = view.map_err(|error| error.to_string())?;
        serde_json::from_value(view.data).map_err(|error| error.to_string())
    }

    pub(super) async fn card(&self) -> Result<String, String> {
        let customer = self.node.env().object::<Customer>().get_by_name(CUSTOMER);
        let view = customer
            .get_state()
            .await
            .map_err(|error| error.to_string())?;
        let live: states::Customer =
            serde_json::from_value(view.data).map_err(|error| error.to_string())?;
        Ok(live.payment_method.unwrap_or_default())
    }

    /// Has this much of what is owed taken off an invoice.
    pub(super) async fn reduces(&self, back: u32, part: i64) -> Result<View, BillingError> {
        let number = self.model.number(back);
        let amount = self.model.reduction(number, part);
        let (Some(number), Some(amount)) = (number, amount) else {
            return Err(refused());
        };
        let note = NewCreditNote {
            id: format!("cn_{}", self.asked),
            amount: Some(euro(amount)),
            to: RefundTo::Card,
            reason: None,
        };
        self.invoice(number).credit(note).await
    }

    /// Does what a refund does: its money is at the bank, or is credit, and both are reported.
    pub(super) async fn refunds(
        &self,
        back: u32,
        part: i64,
        refund: Refund,
    ) -> Result<View, BillingError> {
        let number = self.model.number(back);
        let amount = self.model.refundable(number, part);
        let (Some(number), Some(amount)) = (number, amount) else {
            return Err(refused());
        };
        let credited = Credited {
            id: format!("re_{}", self.asked),
            invoice: Draft::id_of(SUBSCRIPTION, number),
            amount: euro(amount),
            reason: None,
        };
        let note = CreditNote {
            id: format!("cn_{}", self.asked),
            amount: euro(amount),
            effect: CreditEffect::Refunded,
            refund: Some(credited.id.clone()),
            reason: None,
        };
        let invoice = self.invoice(number);
        if refund.is_note {
            match invoice.take_note(note.clone()).await {
                Ok(_) => {}
                refused => return refused,
            }
        }
        if !refund.to_balance {
            return self.subscription().returned(credited).await;
        }
        let granted = self.subscription().grant(credited).await;
        if granted.is_err() && refund.is_note {
            created(invoice.withdraw_note(note.id).await);
        }
        granted
    }

    /// Asks for something. Whether it was taken; none if it could not be asked.
    pub(super) async fn calls(&self, call: Call) -> Result<Option<bool>, String> {
        let subscription = self.subscription();
        let invoice = |back| self.model.number(back).map(|number| self.invoice(number));
        let asked: Result<View, BillingError> = match call {
            Call::Pause => subscription.pause().await,
            Call::Resume => subscription.resume().await,
            Call::Change(price, quantity) => {
                subscription
                    .change(PRICES[price].id.to_owned(), quantity)
                    .await
            }
            Call::CancelNow => subscription.cancel(false).await,
            Call::CancelAtEnd => subscription.cancel(true).await,
            Call::Keep => subscription.keep().await,
            Call::Void(back) => match invoice(back) {
                Some(invoice) => invoice.void().await,
                None => return Ok(Some(false)),
            },
            Call::GiveUp(back) => match invoice(back) {
                Some(invoice) => invoice.give_up().await,
                None => return Ok(Some(false)),
            },
            Call::Pay(back) => match invoice(back) {
                Some(invoice) => invoice.pay().await,
                None => return Ok(Some(false)),
            },
            Call::Reduce(back, part) => self.reduces(back, part).await,
            Call::Refund(back, part, refund) => self.refunds(back, part, refund).await,
        };
        match asked {
            Ok(_) => Ok(Some(true)),
            Err(BillingError::Outcome(_) | BillingError::Refused(_)) => Ok(Some(false)),
            // After a death it may take a moment until the invoice is created.
            Err(BillingError::NotFound { kind, .. }) if kind == "invoice" => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(super) fn has_called(&mut self, call: Call, taken: Option<bool>) -> Result<(), String> {
        let Some(taken) = taken else { return Ok(()) };
        let now = self.now();
        let wanted = self.model.call(call, now);
        if taken == wanted {
            return Ok(());
        }
        let what = |taken| if taken { "takes" } else { "refuses" };
        Err(format!(
            "the engine {} it, the model {} it",
            what(taken),
            what(wanted)
        ))
    }
}
