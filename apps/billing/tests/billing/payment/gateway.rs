//! The adapter to a gateway, with what may befall its calls.

use std::{collections::BTreeSet, sync::Mutex, time::Duration};

use abide::{
    Env,
    clock::{Clock, TestClock},
};
use billing::gateway::{
    Asking, Charge, Gateway, GatewayError, HttpGateway, LocalGateway, PaymentStatus, Refund,
    RefundCharge,
};

/// What befalls calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Luck {
    /// Nothing.
    None,
    /// The first answer to each kind of call is lost.
    FirstAnswersLost,
    /// A customer proves who they are when the payment is about to be taken back.
    CustomerComesLast,
    /// A payment is on its way until the clock shows this.
    TakesItsTime(Duration),
    /// A payment that ends between these is on its way until the second of them.
    IsSlowBetween(Duration, Duration),
    /// Until the clock shows this the gateway does not know how a payment stands.
    Forgets(Duration),
    /// Until the clock shows this it answers questions with another payment, which has succeeded.
    MistakesIt(Duration),
    /// Until the clock shows this the gateway does not know us.
    DoesNotKnowUs(Duration),
}

/// The adapter.
pub(crate) struct Adapter {
    http: HttpGateway,
    gateway: LocalGateway,
    clock: TestClock,
    luck: Luck,
    /// The kinds of calls of which an answer was lost.
    lost: Mutex<BTreeSet<&'static str>>,
}

impl Adapter {
    /// To a gateway that knows us by a key.
    pub(crate) fn new(gateway: &LocalGateway, key: &str, clock: &TestClock, luck: Luck) -> Self {
        Self {
            http: HttpGateway::new("http://gateway.test", key),
            gateway: gateway.clone(),
            clock: clock.clone(),
            luck,
            lost: Mutex::default(),
        }
    }

    /// What we hear of what a call comes to.
    fn answer(&self, kind: &'static str, asking: Asking) -> Asking {
        let lost = self.luck == Luck::FirstAnswersLost && self.lost.lock().unwrap().insert(kind);
        let (clock, luck) = (self.clock.clone(), self.luck);
        Box::pin(async move {
            let mut payment = asking.await?;
            if lost {
                let text = "the connection broke".to_owned();
                return Err(GatewayError::Unknown { text });
            }
            let slow = match luck {
                Luck::TakesItsTime(until) => Duration::ZERO..until,
                Luck::IsSlowBetween(from, until) => from..until,
                _ => Duration::ZERO..Duration::ZERO,
            };
            if payment.status.is_final() && slow.contains(&clock.now()) {
                payment.status = PaymentStatus::Processing;
            }
            Ok(payment)
        })
    }
}

impl Gateway for Adapter {
    fn create(&self, env: &Env, key: &str, charge: &Charge) -> Asking {
        if let Luck::DoesNotKnowUs(until) = self.luck
            && self.clock.now() < until
        {
            return HttpGateway::new("http://gateway.test", "sk_other").create(env, key, charge);
        }
        self.answer("create", self.http.create(env, key, charge))
    }

    fn confirm(&self, env: &Env, key: &str, payment: &str) -> Asking {
        self.answer("confirm", self.http.confirm(env, key, payment))
    }

    fn cancel(&self, env: &Env, key: &str, payment: &str) -> Asking {
        if self.luck == Luck::CustomerComesLast {
            self.gateway.authenticate(payment, true);
        }
        self.answer("cancel", self.http.cancel(env, key, payment))
    }

    fn status(&self, env: &Env, payment: &str) -> Asking {
        let now = self.clock.now();
        match self.luck {
            Luck::Forgets(until) if now < until => {
                let text = "404 Not Found: There is no such payment.".to_owned();
                Box::pin(async { Err(GatewayError::Refused { text }) })
            }
            Luck::MistakesIt(until) if now < until => {
                let asking = self.http.status(env, payment);
                Box::pin(async {
                    let mut other = asking.await?;
                    other.status = PaymentStatus::Succeeded;
                    "pi_in_sub_2_0_1".clone_into(&mut other.reference);
                    Ok(other)
                })
            }
            _ => self.answer("status", self.http.status(env, payment)),
        }
    }

    fn refund(&self, env: &Env, key: &str, charge: &RefundCharge) -> Asking<Refund> {
        let asking = self.http.refund(env, key, charge);
        let lost =
            self.luck == Luck::FirstAnswersLost && self.lost.lock().unwrap().insert("refund");
        Box::pin(async move {
            let refund = asking.await?;
            if lost {
                let text = "the connection broke".to_owned();
                return Err(GatewayError::Unknown { text });
            }
            Ok(refund)
        })
    }

    fn refund_status(&self, env: &Env, refund: &str) -> Asking<Refund> {
        self.http.refund_status(env, refund)
    }
}
