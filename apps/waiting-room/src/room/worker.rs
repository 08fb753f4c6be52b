//! A worker: decides about each request, alone or with a number from a counter.
//!
//! Contract: a visitor who is inside is let through without any call of an object. An admission or a queue position is on disk before the
//! visitor is told. A worker decides from a state of the current minute, never from that of a minute that is over, and the
//! state counts every visitor that any data centre admitted before the minute, unless one cannot be heard.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{Cache, Place, Reporter, Session, Verdict, millis, reporter::Recorded};
use crate::{
    logic::{
        bucket::BucketId,
        minute::Minute,
        plan::{Method, Plan, Source, Way},
        report::Lane,
    },
    objects::{Claim, Happening, Number, TicketCounter, counter_name},
    ticket::{Standing, Ticket, VisitorId},
};

/// Milliseconds of a minute in which a visitor who is new waits for the reports of other data centres: two exchanges, while a message
/// takes half a second.
const LONGEST_SETTLING: u64 = 3_000;
/// In a draw every minute some wait much longer than the average: what they are told is longer by this.
const LUCK: f64 = 1.5;
/// Between two looks whether they have come.
const SETTLING_STEP: Duration = Duration::from_millis(20);

/// A worker of a data centre.
#[derive(Debug)]
pub struct Worker {
    cache: Arc<Cache>,
    reporter: Reporter,
    minute: Mutex<OwnMinute>,
}

/// What a worker remembers of a minute.
#[derive(Debug, Default)]
struct OwnMinute {
    minute: Minute,
    /// Visitors whom it admitted without a counter.
    admitted: HashMap<Lane, u64>,
    /// Counters that have no number for a lane below these bounds.
    exhausted: HashMap<(Lane, String), Source>,
}

/// What a counter or an allowance says.
enum Admission {
    Yes,
    No,
    /// The minute is over: decide again.
    Late,
    Failed,
}

impl Worker {
    /// Starts a worker.
    pub(super) fn start(cache: &Arc<Cache>, number: usize) -> Self {
        let name = format!("worker-{}", number + 1);
        Self {
            cache: Arc::clone(cache),
            reporter: Reporter::start(cache, name),
            minute: Mutex::default(),
        }
    }

    /// Decides about a request.
    pub async fn visit(&self, ticket: Option<Ticket>) -> Verdict {
        let now = self.cache.now();
        let session = self.cache.settings.session + self.cache.renew_after;
        match ticket.map_or(Standing::Stranger, |ticket| ticket.standing(now, session)) {
            Standing::Accepted(ticket) => {
                Verdict::Enter(ticket.visitor, self.check_in(ticket, now))
            }
            Standing::Waiting(ticket) => self.ask(Some(ticket)).await,
            Standing::Stranger => self.ask(None).await,
        }
    }

    /// The session of a visitor who is inside, for a connection that lasts.
    pub(crate) fn session(&self, visitor: VisitorId) -> Session {
        Session {
            reporter: self.reporter.clone(),
            visitor,
            length: self.cache.settings.session,
            renew_after: self.cache.renew_after,
        }
    }

    /// Renews a ticket that has not been for a while.
    fn check_in(&self, ticket: Ticket, now: u64) -> Option<Ticket> {
        let idle = Duration::from_millis(now.saturating_sub(ticket.last_check_in_time));
        if idle < self.cache.renew_after {
            return None;
        }
        let visitor = ticket.visitor;
        self.reporter.note(Happening::Seen { visitor });
        Some(Ticket {
            last_check_in_time: now,
            ..ticket
        })
    }

    /// Decides about a visitor who is not inside.
    async fn ask(&self, ticket: Option<Ticket>) -> Verdict {
        let visitor = match ticket {
            Some(ticket) => ticket.visitor,
            None => match VisitorId::random() {
                Some(visitor) => visitor,
                None => return Verdict::TryAgain,
            },
        };
        // A minute may end between the decision and the number, hardly twice.
        for _ in 0..3 {
            let now = self.cache.now();
            let Some(plan) = self.plan(now).await else {
                return Verdict::TryAgain;
            };
            let bucket =
                ticket.map(|ticket| self.cache.terms.place(visitor, ticket.bucket_id, now));
            let lane = bucket.map_or(Lane::New, |bucket| plan.lane_of(bucket));
            let is_drawn = match (lane, bucket) {
                (Lane::Draw, Some(bucket)) => {
                    plan.is_drawn(&visitor.0, bucket, self.cache.passed(now))
                }
                _ => true,
            };
            let admission = if is_drawn {
                self.admit(&plan, lane, visitor).await
            } else {
                Admission::No
            };
            match admission {
                Admission::Yes => {
                    metrics::counter!("waiting_room_admitted_total", "room" => self.cache.settings.name.clone()).increment(1);
                    let bucket_id = bucket.unwrap_or(BucketId::first_of(plan.minute()));
                    let ticket = Ticket {
                        visitor,
                        bucket_id,
                        last_check_in_time: now,
                        accepted_at: Some(now),
                        ahead: None,
                    };
                    return Verdict::Enter(visitor, Some(ticket));
                }
                Admission::No => {
                    if let Some(verdict) = self.queue(&plan, ticket, visitor, now).await {
                        return verdict;
                    }
                }
                Admission::Failed => return Verdict::TryAgain,
                Admission::Late => {
                    if self.reporter.record(None).await.is_err() {
                        return Verdict::TryAgain;
                    }
                }
            }
        }
        Verdict::TryAgain
    }

    /// The plan of the minute; asks for it if the cache has an older one. When a minute begins it waits a moment for what the other
    /// data centres have done in the one before, if they can be heard.
    async fn plan(&self, now: u64) -> Option<Arc<Plan>> {
        let minute = self.cache.minute(now);
        let length = self.cache.terms.minute_millis;
        let is_given_up = |plan: &Plan, now: u64| {
            let since = (now - now % length).max(plan.drawn_at());
            now.saturating_sub(since) > LONGEST_SETTLING.min(length / 2)
        };
        let fits = |plan: &Arc<Plan>| plan.minute() >= minute;
        if let Some(plan) = self.cache.plan().filter(fits)
            && (plan.is_settled() || is_given_up(&plan, now))
        {
            return Some(plan);
        }
        loop {
            self.reporter.record(None).await.ok()?;
            let plan = self.cache.plan().filter(fits)?;
            if plan.is_settled() || is_given_up(&plan, self.cache.now()) {
                return Some(plan);
            }
            tokio::time::sleep(SETTLING_STEP).await;
        }
    }

    async fn admit(&self, plan: &Plan, lane: Lane, visitor: VisitorId) -> Admission {
        let way = plan.way(lane);
        if way == Way::Shut {
            return Admission::No;
        }
        match plan.allowance(lane, &way) {
            Some(allowance) => {
                if !self.take_own(plan.minute(), lane, allowance) {
                    return Admission::No;
                }
                self.record_admission(plan.minute(), lane, visitor, None)
                    .await
            }
            None => self.take_number(plan, lane, &way, visitor).await,
        }
    }

    /// One of the visitors whom this worker may admit without a counter.
    fn take_own(&self, minute: Minute, lane: Lane, allowance: u64) -> bool {
        let mut own = self.own(minute);
        let admitted = own.admitted.entry(lane).or_default();
        let is_left = *admitted < allowance;
        if is_left {
            *admitted += 1;
        }
        is_left
    }

    /// A number of the data centre's counter, or else of another one.
    async fn take_number(
        &self,
        plan: &Plan,
        lane: Lane,
        way: &Way,
        visitor: VisitorId,
    ) -> Admission {
        let minute = plan.minute();
        let terms = &self.cache.terms;
        for source in plan.sources(way) {
            if self.is_exhausted(minute, lane, &source) {
                continue;
            }
            let is_borrowed = source.counter != terms.data_centre;
            let claim = Claim {
                minute,
                visitor,
                lane,
                most_in_lane: source.in_lane,
                most: source.in_all,
                is_borrowed,
            };
            let name = counter_name(&terms.room, &source.counter, minute);
            let counter = self.cache.env.object::<TicketCounter>().get_by_name(&name);
            let number = if is_borrowed {
                self.cache.link.over(counter.take(claim)).await
            } else {
                counter.take(claim).await
            };
            match number {
                Ok(Number::Given) if is_borrowed => {
                    return self
                        .record_admission(minute, lane, visitor, Some(source.counter))
                        .await;
                }
                Ok(Number::Given) => {
                    // The data centre learns it from the counter at the latest.
                    self.reporter.note(Happening::Admitted {
                        visitor,
                        minute,
                        lane,
                        borrowed_from: None,
                    });
                    return Admission::Yes;
                }
                Ok(Number::Closed) if !is_borrowed || self.is_over(minute) => {
                    return Admission::Late;
                }
                Ok(Number::Closed | Number::NoneLeft) => {
                    let mut own = self.own(minute);
                    own.exhausted.insert((lane, source.counter.clone()), source);
                }
                Err(error) => {
                    tracing::warn!(%error, counter = name, "a counter gave no answer; visitors are asked to try again");
                    return Admission::Failed;
                }
            }
        }
        Admission::No
    }

    fn is_over(&self, minute: Minute) -> bool {
        self.cache.minute(self.cache.now()) > minute
    }

    /// Whether the counter has said that no number below these bounds is left.
    fn is_exhausted(&self, minute: Minute, lane: Lane, source: &Source) -> bool {
        let own = self.own(minute);
        let known = own.exhausted.get(&(lane, source.counter.clone()));
        known.is_some_and(|known| known.allows_as_much_as(source))
    }

    async fn record_admission(
        &self,
        minute: Minute,
        lane: Lane,
        visitor: VisitorId,
        borrowed_from: Option<String>,
    ) -> Admission {
        let admitted = Happening::Admitted {
            visitor,
            minute,
            lane,
            borrowed_from,
        };
        match self.reporter.record(Some(admitted)).await {
            Ok(Recorded::Yes) => Admission::Yes,
            Ok(Recorded::Late) => Admission::Late,
            Err(_) => Admission::Failed,
        }
    }

    /// Gives a visitor a place, or keeps the one that they have. `None` if the minute ended before a new visitor had
    /// a place: the next minute may have a slot for them.
    async fn queue(
        &self,
        plan: &Plan,
        ticket: Option<Ticket>,
        visitor: VisitorId,
        now: u64,
    ) -> Option<Verdict> {
        if plan.rules.method == Method::Reject && ticket.is_none() {
            self.reporter.note(Happening::TurnedAway {
                minute: plan.minute(),
            });
            return Some(Verdict::Full);
        }
        let terms = &self.cache.terms;
        let is_new = ticket.is_none();
        let ticket = match ticket {
            Some(ticket) => {
                let bucket = terms.place(visitor, ticket.bucket_id, now);
                self.reporter.note(Happening::Looked { visitor, bucket });
                Ticket {
                    bucket_id: bucket,
                    last_check_in_time: now,
                    ..ticket
                }
            }
            None => {
                let bucket = terms.join(now);
                let joined = Happening::Joined {
                    visitor,
                    minute: plan.minute(),
                    bucket,
                };
                match self.reporter.record(Some(joined)).await {
                    Ok(Recorded::Yes) => {}
                    Ok(Recorded::Late) => return None,
                    Err(_) => return Some(Verdict::TryAgain),
                }
                Ticket {
                    visitor,
                    bucket_id: bucket,
                    last_check_in_time: now,
                    accepted_at: None,
                    ahead: None,
                }
            }
        };
        let newest = self.cache.plan();
        let plan = newest.as_deref().unwrap_or(plan);
        // While the order is not known, all others may be ahead.
        let is_open = terms
            .draw
            .is_some_and(|draw| now < draw.at && draw.takes(ticket.bucket_id))
            || plan.rules.method == Method::Random;
        let ahead = if is_open {
            plan.state.waiting().saturating_sub(1)
        } else {
            let told = plan.ahead(ticket.bucket_id).told();
            ticket.ahead.map_or(told, |before| told.min(before))
        };
        let certainty = if plan.rules.method == Method::Random {
            LUCK
        } else {
            1.0
        };
        let minutes = plan.minutes(ahead).map(|minutes| minutes * certainty);
        let place = Place {
            ahead,
            minutes: minutes.map(|minutes| minutes.max(self.cache.look_minutes())),
            is_held: plan.rules.holds_all,
        };
        // From now on the number does not rise; but the first one may lack visitors of other data centres.
        let is_complete = !is_open && (!is_new || plan.state.reports.len() <= 1);
        let ticket = Ticket {
            ahead: Some(ahead).filter(|_| is_complete),
            ..ticket
        };
        Some(Verdict::Wait(ticket, place))
    }

    fn own(&self, minute: Minute) -> std::sync::MutexGuard<'_, OwnMinute> {
        let mut own = self.minute.lock().unwrap_or_else(PoisonError::into_inner);
        if own.minute != minute {
            *own = OwnMinute {
                minute,
                ..OwnMinute::default()
            };
        }
        own
    }
}

/// How long a cookie is of use to a browser: as long as the ticket in it may be renewed.
pub(crate) fn cookie_age(ticket: &Ticket, session: Duration) -> u64 {
    let kept = match ticket.accepted_at {
        Some(_) => session,
        None => crate::ticket::PLACE_IS_KEPT,
    };
    millis(kept).div_ceil(1000)
}
