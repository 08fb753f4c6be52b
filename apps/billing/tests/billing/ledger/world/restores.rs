//! Restores and copies of the subscription.

use abide::{Activation, Bookmark, Stub};
use billing::{BillingError, resources::Subscription};

use super::{PATIENCE, World, copy};
use crate::ledger::model::Model;

impl World {
    pub(super) async fn bookmark(&self) -> Result<Bookmark, String> {
        let subscription = self.subscription();
        let now = self.node.bookmark(subscription.untyped(), None).await;
        now.map_err(|error| error.to_string())
    }

    /// The subscription is restored, and not what it has told others.
    pub(super) async fn restores(&mut self, (to, then): (Bookmark, Model)) -> Result<(), String> {
        self.rests().await?;
        self.creates_invoices().await?;
        let subscription = self.subscription();
        let undo = self.node.restore(subscription.untyped(), to).await;
        let undo = undo.map_err(|error| error.to_string())?;
        self.undo = Some((undo, self.model.clone()));
        let now = self.now();
        self.model.restored(&then, now);
        self.rests().await
    }

    /// Waits until each invoice of the model exists. After a death one may wait for the next attempt to create it, and
    /// a restore would undo it unseen.
    pub(super) async fn creates_invoices(&mut self) -> Result<(), String> {
        let numbers: Vec<u32> = self.model.invoices.keys().copied().collect();
        for number in numbers {
            let mut looks = 0;
            while let Err(BillingError::NotFound { .. }) = self.invoice(number).get_state().await {
                looks += 1;
                if looks > PATIENCE {
                    return Err(format!("invoice {number} is never created"));
                }
                self.advance(self.next());
                self.rests().await?;
            }
        }
        Ok(())
    }

    pub(super) async fn forks(&mut self, continues: bool) -> Result<(), String> {
        let now = self.bookmark().await?;
        self.copied += 1;
        let subscription = self.subscription();
        let name = copy(self.copied);
        let fork = self.node.fork(subscription.untyped(), now, &name).await;
        fork.map_err(|error| error.to_string())?;
        let how = if continues {
            Activation::Continue
        } else {
            Activation::Fresh
        };
        let subscriptions = self.node.env().object::<Subscription>();
        let copy = subscriptions.get_by_name(&name);
        let activated = self.node.activate(copy.untyped(), how).await;
        activated.map_err(|error| error.to_string())?;
        self.rests().await
    }

    pub(crate) fn copies(&self) -> Vec<Stub<Subscription>> {
        let subscriptions = self.node.env().object::<Subscription>();
        (1..=self.copied)
            .map(|number| subscriptions.get_by_name(&copy(number)))
            .collect()
    }
}
