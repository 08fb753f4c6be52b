//! A bank that begins payments and tells later what has come of them. It outlives the node.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use abide::{
    Body, Env, Error, ErrorKind, Fetching, LocalFuture, Outbound, Request, Response, Result,
    clock::{Clock, TestClock},
};
use abide_harness::Random;
use billing::{
    clock::Payments,
    resources::{Customer, Invoice, Subscription},
    states::{self, CARD_REPLACED, NewIntent, PaymentResult, Verdict},
};

use http_body_util::BodyExt;
use serde_json::json;

use crate::ledger::{
    calendar::{DAY, HOUR, MINUTE},
    life::Card,
    model::Fate,
};

/// A payment that has begun.
#[derive(Clone, Debug)]
pub(crate) struct Payment {
    pub(crate) intent: NewIntent,
    /// The model has heard of it.
    is_known: bool,
}

/// What is to be told of a payment.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// By a clock that is never set.
    at: Duration,
    id: String,
    pub(crate) fate: Fate,
}

#[derive(Default)]
struct Book {
    /// By a clock that is never set.
    away_until: Duration,
    payments: BTreeMap<String, Payment>,
    reports: Vec<Report>,
}

#[derive(Clone)]
pub(crate) struct Bank {
    seed: u64,
    clock: TestClock,
    book: Arc<Mutex<Book>>,
}

impl Bank {
    pub(crate) fn new(seed: u64, clock: &TestClock) -> Self {
        Self {
            seed,
            clock: clock.clone(),
            book: Arc::default(),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }

    /// It begins no payment for this long.
    pub(crate) fn is_away(&self, time: i64) {
        let time = Duration::from_millis(time.try_into().unwrap());
        self.book().away_until = self.clock.now() + time;
    }

    /// The payments that have begun since it was asked last.
    pub(crate) fn begun(&self) -> Vec<NewIntent> {
        let mut book = self.book();
        let new = book
            .payments
            .values_mut()
            .filter(|payment| !payment.is_known);
        new.map(|payment| {
            payment.is_known = true;
            payment.intent.clone()
        })
        .collect()
    }

    /// When there is something to tell next.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.book().reports.iter().map(|report| report.at).min()
    }

    /// What is to be told now, first things first.
    pub(crate) fn report(&self) -> Option<(Report, NewIntent)> {
        let now = self.clock.now();
        let mut book = self.book();
        book.reports.sort_by_key(|report| report.at);
        let first = book
            .reports
            .first()
            .filter(|report| report.at <= now)?
            .clone();
        let intent = book.payments[&first.id].intent.clone();
        Some((first, intent))
    }

    /// It is told twice, to the invoice and to the subscription.
    pub(crate) async fn tell(
        &self,
        env: &Env,
        report: &Report,
        intent: &NewIntent,
    ) -> Result<(), String> {
        let result = PaymentResult {
            invoice: intent.invoice.clone(),
            intent: report.id.clone(),
            attempt: intent.attempt,
            amount: intent.amount,
            verdict: match report.fate {
                Fate::Paid => Verdict::Paid,
                Fate::Failed | Fate::Replaced => Verdict::Failed,
                Fate::Asked => Verdict::RequiresAction,
            },
            reason: (report.fate == Fate::Replaced).then(|| CARD_REPLACED.to_owned()),
        };
        let invoice = env.object::<Invoice>().get_by_name(&intent.invoice);
        let subscription = env
            .object::<Subscription>()
            .get_by_name(&intent.subscription);
        let told =
            |error: &dyn std::fmt::Display| format!("{} is {:?}: {error}", report.id, report.fate);
        for _ in 0..2 {
            let heard = invoice.report_payment_result(result.clone()).await;
            heard.map_err(|error| told(&error))?;
            let heard = subscription.report_payment_result(result.clone()).await;
            heard.map_err(|error| told(&error))?;
        }
        self.forgets(report);
        Ok(())
    }

    /// Takes a payment back that waits for its customer, because they pay with another card.
    pub(crate) fn replaces(&self, id: &str) {
        let now = self.clock.now();
        let mut book = self.book();
        let waits = |report: &Report| report.id == id && report.fate != Fate::Asked;
        // Who was asked has not been heard of yet.
        if book
            .reports
            .iter()
            .any(|report| report.id == id && report.fate == Fate::Asked)
        {
            return;
        }
        if let Some(report) = book
            .reports
            .iter_mut()
            .find(|report| waits(report) && report.at > now)
        {
            (report.at, report.fate) = (now, Fate::Replaced);
        }
    }

    /// A report is not told any more, unless it was replaced meanwhile.
    pub(crate) fn forgets(&self, report: &Report) {
        let mut book = self.book();
        let at = book
            .reports
            .iter()
            .position(|one| one.id == report.id && one.fate == report.fate);
        if let Some(at) = at {
            book.reports.remove(at);
        }
    }

    /// Decides the outcome of a payment: the same for the same one.
    fn accept(&self, id: String, intent: NewIntent, card: Card) -> Result<()> {
        let seed = id.bytes().fold(self.seed.wrapping_add(1), |sum, byte| {
            sum.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte)
        });
        let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut up_to =
            |time: i64| i64::from(random.below(u32::try_from(time / MINUTE).unwrap())) * MINUTE;
        let (first, second) = (up_to(22 * HOUR), up_to(7 * DAY));
        let luck = random.below(4);
        let or_not = |is_paid: bool| if is_paid { Fate::Paid } else { Fate::Failed };
        let fates: &[(i64, Fate)] = match card {
            Card::Ok => &[(0, Fate::Paid)],
            Card::Declined => &[(0, Fate::Failed)],
            Card::Flaky => &[(0, or_not(luck < 2))],
            Card::Secured if luck == 0 => &[(0, Fate::Asked), (22 * HOUR, Fate::Failed)],
            Card::Secured => &[(0, Fate::Asked), (first, or_not(luck < 3))],
            Card::Slow => &[(second, or_not(luck < 3))],
            Card::Late => &[(0, Fate::Failed), (HOUR, Fate::Paid)],
        };
        let mut book = self.book();
        if self.clock.now() < book.away_until {
            return Err(unavailable("the bank is away"));
        }
        if book.payments.contains_key(&id) {
            return Ok(());
        }
        // A failed payment fails again when it is retried.
        let attempt = states::Invoice::intent(&intent.invoice, intent.attempt.saturating_sub(1));
        book.reports.retain(|report| report.id != attempt);
        let now = self.clock.now();
        for (after, fate) in fates {
            let at = now + Duration::from_millis(u64::try_from(*after).unwrap());
            let id = id.clone();
            book.reports.push(Report {
                at,
                id,
                fate: *fate,
            });
        }
        book.payments.insert(
            id,
            Payment {
                intent,
                is_known: false,
            },
        );
        if random.below(8) == 0 {
            return Err(unavailable("the answer is lost"));
        }
        Ok(())
    }
}

/// The connection to the bank, which ends with the process. Only durable requests use it.
pub(crate) struct Line {
    pub(crate) bank: Bank,
    pub(crate) is_alive: Arc<AtomicBool>,
}

impl Outbound for Line {
    fn fetch(&self, request: Request) -> Fetching {
        let (bank, is_alive) = (self.bank.clone(), Arc::clone(&self.is_alive));
        Box::pin(async move {
            let body = request.into_body().collect().await;
            let body = body.map_err(Error::from_std)?.to_bytes();
            let (id, intent, card): (String, NewIntent, String) =
                serde_json::from_slice(&body).map_err(Error::from_std)?;
            if !is_alive.load(Ordering::SeqCst) {
                return Err(unavailable("the process is dead"));
            }
            bank.accept(id, intent, Card::named(&card))?;
            Ok(Response::new(Body::empty()))
        })
    }
}

fn unavailable(text: &str) -> Error {
    Error::with_kind(ErrorKind::Unavailable, text.to_owned())
}

impl Payments for Bank {
    fn begin(&self, env: &Env, id: String, intent: NewIntent) -> LocalFuture<Result<()>> {
        let env = env.clone();
        Box::pin(async move {
            let customer = env.object::<Customer>().get_by_name(&intent.customer);
            let customer = customer.get_state().await?;
            let customer: states::Customer =
                serde_json::from_value(customer.data).map_err(Error::from_std)?;
            let card = customer.payment_method.unwrap_or_default();
            let body = json!([id, intent, card]).to_string();
            let request = Request::post("http://bank.test/payments").body(Body::from(body));
            env.fetch(request.map_err(Error::from_std)?).await?;
            Ok(())
        })
    }

    fn has_begun(&self, _env: &Env, id: String) -> LocalFuture<Result<bool>> {
        let has_begun = self.book().payments.contains_key(&id);
        Box::pin(async move { Ok(has_begun) })
    }
}
