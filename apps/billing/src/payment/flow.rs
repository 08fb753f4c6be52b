//! The steps of a payment.

use std::time::Duration;

use abide::workflow::{Attempt, Context, Failure, Workflow};

use super::{
    Order, intent,
    steps::{self, MAX_PAUSE, PAUSE, Wake, failure},
};
use crate::{
    gateway::{self, AnyGateway, Charge, GatewayError, PaymentStatus},
    states::{
        CARD_REPLACED, INCOMPLETE_HOURS, NO_PAYMENT_METHOD, NewRefund, PaymentResult, Settled,
        Verdict,
    },
};

/// How long a customer has to authenticate: a subscription that waits for its first payment waits longer.
const PATIENCE: Duration = Duration::from_hours(INCOMPLETE_HOURS as u64 - 1);

/// Pause between two status queries of a payment that waits for its customer, since webhooks may be lost.
const WAIT: Duration = Duration::from_hours(4);

/// One payment of an invoice.
#[derive(Clone, Copy, Debug)]
pub struct Payment;

impl Workflow for Payment {
    const NAME: &'static str = "payment";
    type Input = Order;
    type Output = Verdict;

    async fn run(&self, ctx: Context, order: Order) -> Result<Verdict, Failure> {
        let run = Run { ctx, order };
        let method = run
            .step("create", async |attempt| {
                intent::create(attempt, &run.order).await
            })
            .await?;
        let Some(method) = method else {
            run.cancel().await?;
            return run.end(Some(NO_PAYMENT_METHOD.to_owned())).await;
        };
        let mut payment = run.submit(method).await?;
        payment = run
            .follow(payment, |status| status != PaymentStatus::Processing)
            .await?;
        let secured = payment.status == PaymentStatus::RequiresAction;
        let mut why_not = "not_authenticated";
        if secured {
            let replaced;
            (payment, replaced) = run.authenticate(payment).await?;
            if replaced {
                why_not = CARD_REPLACED;
            }
        }
        run.settle(secured, &payment).await?;
        let refused = (payment.status != PaymentStatus::Succeeded)
            .then(|| payment.decline.unwrap_or_else(|| why_not.to_owned()));
        run.end(refused).await
    }
}

/// A request to the gateway.
#[derive(Clone, Copy)]
enum Act {
    Confirm,
    Cancel,
    Status,
}

struct Run {
    ctx: Context,
    order: Order,
}

impl Run {
    /// A step that is retried until its result is known: money may be in transit.
    async fn step<T: serde::Serialize + serde::de::DeserializeOwned>(
        &self,
        name: &str,
        function: impl AsyncFn(Attempt) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        steps::step(&self.ctx, name, function).await
    }

    /// Creates the payment at the gateway, and moves the money.
    async fn submit(&self, payment_method: String) -> Result<gateway::Payment, Failure> {
        let charge = Charge {
            amount: self.order.intent.amount,
            payment_method,
            reference: self.order.id.clone(),
        };
        let created = self
            .step("submit", async |attempt| {
                let env = attempt.env();
                let gateway = env.require::<AnyGateway>()?;
                let key = format!("{}-create", self.order.id);
                let created = match gateway.create(env, &key, &charge).await {
                    Err(GatewayError::Refused { text }) => gateway::Payment::refused(&charge, text),
                    created => self.ours(created.map_err(failure)?)?,
                };
                let known = (!created.id.is_empty()).then(|| created.id.clone());
                let settled = Settled {
                    payment: known,
                    ..Settled::default()
                };
                intent::write(&attempt, &self.order, "confirm", "submitted", &settled).await?;
                Ok(created)
            })
            .await?;
        if created.status.is_final() {
            return Ok(created);
        }
        self.ask("confirm", &created, Act::Confirm).await
    }

    /// Sends the gateway a request about a payment. If it rejects the request, returns the payment's status.
    async fn ask(
        &self,
        name: &str,
        payment: &gateway::Payment,
        act: Act,
    ) -> Result<gateway::Payment, Failure> {
        self.step(name, async |attempt| {
            let env = attempt.env();
            let gateway = env.require::<AnyGateway>()?;
            let id = &self.order.id;
            let asked = match act {
                Act::Confirm => gateway.confirm(env, &format!("{id}-confirm"), &payment.id),
                Act::Cancel => gateway.cancel(env, &format!("{id}-cancel"), &payment.id),
                Act::Status => gateway.status(env, &payment.id),
            };
            let answer = asked.await;
            let answer = match (act, answer) {
                (Act::Confirm | Act::Cancel, Err(GatewayError::Refused { .. })) => {
                    gateway.status(env, &payment.id).await
                }
                (_, answer) => answer,
            };
            match answer {
                // Money may be in transit nevertheless: an operator must look at this.
                Err(GatewayError::Refused { text }) => {
                    tracing::error!(intent = id, payment = payment.id, %text, "the gateway does not report the status of a payment");
                    Err(Failure::temporary(text))
                }
                answer => self.ours(answer.map_err(failure)?),
            }
        })
        .await
    }

    /// The gateway's payment, if it matches this one.
    fn ours(&self, payment: gateway::Payment) -> Result<gateway::Payment, Failure> {
        let Order { id, intent } = &self.order;
        if payment.reference == *id && payment.amount == intent.amount {
            return Ok(payment);
        }
        let text = format!(
            "the gateway returned {} of {} for {}",
            payment.id, payment.amount, payment.reference
        );
        tracing::error!(intent = id, text);
        Err(Failure::temporary(text))
    }

    /// Waits until the customer has authenticated, has not come, or pays otherwise; returns whether authentication had
    /// succeeded when the payment was canceled.
    async fn authenticate(
        &self,
        asked: gateway::Payment,
    ) -> Result<(gateway::Payment, bool), Failure> {
        let settled = settled(&asked);
        let result = self.result(Verdict::RequiresAction, None);
        self.step("ask the customer", async |attempt| {
            intent::write(&attempt, &self.order, "settle", "requires_action", &settled).await?;
            intent::report(attempt, &result, &self.order).await
        })
        .await?;
        let mut left = PATIENCE;
        let end = self.end_of(PATIENCE);
        let mut replaced = false;
        while !left.is_zero() && !replaced {
            let wake = self.listen(left.min(WAIT)).await?;
            replaced = wake.replaced;
            let now = self.ask("status", &asked, Act::Status).await?;
            if now.status.is_final() {
                return Ok((now, replaced));
            }
            left = self.until(end);
        }
        let ended = self.take_back(asked).await?;
        Ok((ended, replaced))
    }

    /// Has the gateway take a payment back, and waits until it has ended.
    async fn take_back(&self, asked: gateway::Payment) -> Result<gateway::Payment, Failure> {
        let now = self.ask("take back", &asked, Act::Cancel).await?;
        self.follow(now, PaymentStatus::is_final).await
    }

    /// Polls a payment until a condition holds: with increasing pauses, and whenever a webhook arrives.
    async fn follow(
        &self,
        mut payment: gateway::Payment,
        is_so: impl Fn(PaymentStatus) -> bool,
    ) -> Result<gateway::Payment, Failure> {
        let mut pause = PAUSE;
        while !is_so(payment.status) {
            self.listen(pause).await?;
            payment = self.ask("status", &payment, Act::Status).await?;
            pause = (pause * 2).min(MAX_PAUSE);
        }
        Ok(payment)
    }

    /// Waits for a webhook, at most this long.
    async fn listen(&self, time: Duration) -> Result<Wake, Failure> {
        steps::listen(&self.ctx, time).await
    }

    /// The time this far from now, in milliseconds since 1970.
    fn end_of(&self, time: Duration) -> i64 {
        let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        self.ctx.now().saturating_add(millis)
    }

    /// The time left until then.
    fn until(&self, end: i64) -> Duration {
        let left = end.saturating_sub(self.ctx.now());
        Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }

    /// Writes the result of the payment to the intent's chain.
    async fn settle(&self, secured: bool, payment: &gateway::Payment) -> Result<(), Failure> {
        let settled = settled(payment);
        let outcomes: &[(&str, &str)] = match (secured, payment.status) {
            (false, PaymentStatus::Succeeded) => &[("settle", "succeeded")],
            (false, _) => &[("settle", "declined"), ("cancel", "canceled")],
            (true, PaymentStatus::Succeeded) => {
                &[("authenticate", "authenticated"), ("settle", "succeeded")]
            }
            (true, PaymentStatus::Canceled) => {
                &[("authenticate", "timed_out"), ("cancel", "canceled")]
            }
            (true, _) => &[("authenticate", "failed"), ("cancel", "canceled")],
        };
        self.step("settle", async |attempt| {
            for (action, outcome) in outcomes {
                intent::write(&attempt, &self.order, action, outcome, &settled).await?;
            }
            Ok(())
        })
        .await
    }

    /// Ends without a request to the gateway.
    async fn cancel(&self) -> Result<(), Failure> {
        self.step("cancel", async |attempt| {
            let nothing = Settled::default();
            intent::write(&attempt, &self.order, "cancel", "canceled", &nothing).await
        })
        .await
    }

    /// Reports the result.
    async fn end(&self, refused: Option<String>) -> Result<Verdict, Failure> {
        let verdict = match refused {
            None => Verdict::Paid,
            Some(_) => Verdict::Failed,
        };
        let result = self.result(verdict, refused);
        let surplus = self
            .step("report", async |attempt| {
                intent::report(attempt, &result, &self.order).await
            })
            .await?;
        if let Some(surplus) = surplus {
            // Nothing, or less, was owed when the money arrived.
            self.step("give back", async |attempt| {
                let id = &self.order.id;
                let refund = NewRefund::late_id(id);
                let given = intent::give_back(attempt.env(), id, refund, surplus).await;
                given.map_err(steps::refused)
            })
            .await?;
        }
        Ok(verdict)
    }

    fn result(&self, verdict: Verdict, reason: Option<String>) -> PaymentResult {
        let Order { id, intent } = &self.order;
        PaymentResult {
            invoice: intent.invoice.clone(),
            intent: id.clone(),
            attempt: intent.attempt,
            amount: intent.amount,
            verdict,
            reason,
        }
    }
}

fn settled(payment: &gateway::Payment) -> Settled {
    Settled {
        payment: (!payment.id.is_empty()).then(|| payment.id.clone()),
        decline: payment.decline.clone(),
        action_url: payment.action_url.clone(),
    }
}
