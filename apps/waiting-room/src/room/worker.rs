//! A worker: decides about each request, alone or with a number from a counter.
//!
//! Contract: a visitor who is inside is let through without any call of an object. Whoever is let in or gets a place is on disk before
//! hearing of it. A worker decides from a state of the current minute, never from that of a minute that is over, and the
//! state counts everybody whom any data centre let in before the minute, unless one cannot be heard.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{Cache, Place, Reporter, Verdict, millis};
use crate::{
    logic::{
        division::Part,
        minute::Minute,
        plan::{Method, Plan, Way},
        report::Lane,
    },
    objects::{Claim, Happening, Number, TicketCounter, counter_name},
    ticket::{Standing, Ticket, VisitorId},
};

/// The name of what is nobody's own part.
const ANYWHERE: &str = "anywhere";
/// Milliseconds of a minute in which a visitor who is new waits for the reports of other data centres.
const LONGEST_SETTLING: u64 = 2_000;
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
    /// Visitors whom it let in by itself.
    admitted: HashMap<Lane, u64>,
    /// Lanes of which the counter has said that no number below this bound is left.
    exhausted: HashMap<Lane, Part>,
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
            Standing::Accepted(ticket) => Verdict::Enter(self.check_in(ticket, now)),
            Standing::Waiting(ticket) => self.ask(Some(ticket)).await,
            Standing::Stranger => self.ask(None).await,
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
            let lane = ticket.map_or(Lane::New, |ticket| plan.lane_of(ticket.bucket_id));
            match self.admit(&plan, lane, visitor).await {
                Admission::Yes => {
                    metrics::counter!("waiting_room_admitted_total", "room" => self.cache.settings.name.clone()).increment(1);
                    let bucket_id = ticket.map_or(plan.minute(), |ticket| ticket.bucket_id);
                    return Verdict::Enter(Some(Ticket {
                        visitor,
                        bucket_id,
                        last_check_in_time: now,
                        accepted_at: Some(now),
                    }));
                }
                Admission::No => return self.queue(&plan, ticket, visitor, now).await,
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
        let is_given_up = |now: u64| now % length > LONGEST_SETTLING.min(length / 2);
        let fits = |plan: &Arc<Plan>| plan.minute() >= minute;
        if let Some(plan) = self.cache.plan().filter(fits)
            && (plan.state.is_settled() || is_given_up(now))
        {
            return Some(plan);
        }
        loop {
            self.reporter.record(None).await.ok()?;
            let plan = self.cache.plan().filter(fits)?;
            if plan.state.is_settled() || is_given_up(self.cache.now()) {
                return Some(plan);
            }
            tokio::time::sleep(SETTLING_STEP).await;
        }
    }

    async fn admit(&self, plan: &Plan, lane: Lane, visitor: VisitorId) -> Admission {
        if lane == Lane::Draw && !plan.is_drawn(&visitor.0) {
            return Admission::No;
        }
        let way = plan.way(lane);
        if way == Way::Shut {
            return Admission::No;
        }
        let by_itself = match way {
            Way::Bounded(part) => plan.allowance(part),
            // Everybody of the lane may enter: workers that decide alone have hardly anything to count.
            _ => plan
                .allowance(Part::default())
                .map(|_| plan.most_in_open_lane().unwrap_or(u64::MAX)),
        };
        match by_itself {
            Some(allowance) => {
                if !self.take_own(plan.minute(), lane, allowance) {
                    return Admission::No;
                }
                self.record_admission(plan.minute(), lane, visitor, false)
                    .await
            }
            None => self.take_number(plan, lane, way, visitor).await,
        }
    }

    /// One of the visitors whom this worker may let in by itself.
    fn take_own(&self, minute: Minute, lane: Lane, allowance: u64) -> bool {
        let mut own = self.own(minute);
        let admitted = own.admitted.entry(lane).or_default();
        let is_left = *admitted < allowance;
        if is_left {
            *admitted += 1;
        }
        is_left
    }

    /// A number of the data centre, or else one of Anywhere.
    async fn take_number(
        &self,
        plan: &Plan,
        lane: Lane,
        way: Way,
        visitor: VisitorId,
    ) -> Admission {
        let part = match way {
            Way::Bounded(part) => Some(part),
            _ => None,
        };
        if let Some(part) = part
            && self
                .own(plan.minute())
                .exhausted
                .get(&lane)
                .is_some_and(|known| part.here <= known.here && part.anywhere <= known.anywhere)
        {
            return Admission::No;
        }
        let claim = Claim {
            minute: plan.minute(),
            visitor,
            lane,
            most_in_lane: match part {
                Some(part) => Some(part.here),
                None => plan.most_in_open_lane(),
            },
            most: plan.most_admissions(),
        };
        let terms = &self.cache.terms;
        let counters = self.cache.env.object::<TicketCounter>();
        let name = counter_name(&terms.room, &terms.data_centre, plan.minute());
        let number = counters.get_by_name(&name).take(claim).await;
        match number.and_then(|number| number) {
            Ok(Number::Given) => {
                // The data centre learns it from the counter at the latest.
                let minute = plan.minute();
                self.reporter.note(Happening::Admitted {
                    visitor,
                    minute,
                    lane,
                    is_from_anywhere: false,
                });
                return Admission::Yes;
            }
            Ok(Number::Closed) => return Admission::Late,
            Ok(Number::NoneLeft) => {}
            Err(error) => {
                tracing::warn!(%error, "a counter gave no answer; visitors are asked to try again");
                return Admission::Failed;
            }
        }
        let Some(part) = part else {
            return Admission::No;
        };
        if part.anywhere > 0 {
            let name = counter_name(&terms.room, ANYWHERE, plan.minute());
            let claim = Claim {
                most_in_lane: Some(part.anywhere),
                most: None,
                ..claim
            };
            let far = counters.get_by_name(&name);
            let number = self.cache.link.over(far.take(claim)).await;
            match number.and_then(|number| number) {
                Ok(Number::Given) => {
                    return self
                        .record_admission(plan.minute(), lane, visitor, true)
                        .await;
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "the counter of Anywhere gave no answer");
                    return Admission::Failed;
                }
            }
        }
        self.own(plan.minute()).exhausted.insert(lane, part);
        Admission::No
    }

    async fn record_admission(
        &self,
        minute: Minute,
        lane: Lane,
        visitor: VisitorId,
        is_from_anywhere: bool,
    ) -> Admission {
        let admitted = Happening::Admitted {
            visitor,
            minute,
            lane,
            is_from_anywhere,
        };
        match self.reporter.record(Some(admitted)).await {
            Ok(()) => Admission::Yes,
            Err(_) => Admission::Failed,
        }
    }

    /// Gives a visitor a place, or keeps the one that they have.
    async fn queue(
        &self,
        plan: &Plan,
        ticket: Option<Ticket>,
        visitor: VisitorId,
        now: u64,
    ) -> Verdict {
        if plan.rules.method == Method::Reject && ticket.is_none() {
            self.reporter.note(Happening::TurnedAway {
                minute: plan.minute(),
            });
            return Verdict::Full;
        }
        let ticket = match ticket {
            Some(ticket) => {
                let bucket = ticket.bucket_id;
                self.reporter.note(Happening::Looked { visitor, bucket });
                Ticket {
                    last_check_in_time: now,
                    ..ticket
                }
            }
            None => {
                let bucket = self.cache.minute(self.cache.settings.bucket_moment(now));
                let joined = Happening::Joined { visitor, bucket };
                if self.reporter.record(Some(joined)).await.is_err() {
                    return Verdict::TryAgain;
                }
                Ticket {
                    visitor,
                    bucket_id: bucket,
                    last_check_in_time: now,
                    accepted_at: None,
                }
            }
        };
        let newest = self.cache.plan();
        let plan = newest.as_deref().unwrap_or(plan);
        let (ahead, minutes) = plan.expect(ticket.bucket_id);
        let place = Place {
            ahead: ahead.told(),
            minutes,
            is_held: plan.rules.holds_everybody,
        };
        Verdict::Wait(ticket, place)
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
