//! Takes over what earlier owners have left, and forgets what was given away.

use std::{sync::Arc, time::Duration};

use abide_cluster::{Grant, Shard, State, Tenancy};
use abide_storage::{Claims, ErrorKind, ShardClaim};
use tokio::{select, time::timeout};
use tracing::{error, warn};

use crate::{
    End, clock,
    limits::{ASK_EVERY, MAX_RETRY_PAUSE, RETRY_EVERY},
    logs::Logs,
    member::storage_shard,
    runs::Runs,
    shared::{EndOnPanic, Shared, Unserved, blocking},
};

/// Adopts what the session is granted, until the member ends.
pub(crate) async fn run(shared: Arc<Shared>) {
    let _guard = EndOnPanic(&shared);
    let (mut forgotten, mut pause) = (Duration::ZERO, RETRY_EVERY);
    while shared.ended().is_none() {
        select! {
            () = adopt_all(&shared) => {}
            _ = shared.until_ended() => return,
        }
        // An object of a shard may be open for long, and looking for it excludes checkpoints.
        if clock::now() >= forgotten + pause && !given_away(&shared).is_empty() {
            let is_well = blocking(&shared, forget).await == Some(true);
            forgotten = clock::now();
            pause = if is_well { RETRY_EVERY } else { longer(pause) };
        }
        let _ = timeout(ASK_EVERY, shared.to_adopt.notified()).await;
    }
}

async fn adopt_all(shared: &Arc<Shared>) {
    let granted = granted(shared);
    if granted.is_empty() {
        return;
    }
    // What earlier owners have archived is in runs that were listed before the grant.
    if let Err(why) = Runs::list(shared).await {
        return note_failures(shared, &granted, &why);
    }
    let shards: Vec<_> = granted.iter().map(shard).collect();
    let looked = blocking(shared, move |shared| shared.store.begin_claims(shards)).await;
    let claims = match looked {
        Some(Ok(claims)) => claims,
        Some(Err(error)) => return note_failures(shared, &granted, &error.to_string()),
        None => return,
    };
    let parts = granted.iter().flat_map(|grant| {
        let of = grant.tenancy.shard;
        grant.parts.iter().map(move |part| (of, *part))
    });
    let logs = Logs::read(shared, parts).await;
    blocking(shared, move |shared| {
        claim_all(shared, &granted, &claims, &logs);
    })
    .await;
}

/// The shards that the store has and no longer serves.
fn given_away(shared: &Shared) -> Vec<Tenancy> {
    let session = shared.session();
    let is_served = |tenancy: &Tenancy| {
        let tenure = session.tenures().get(tenancy.shard);
        tenure
            .is_some_and(|own| own.generation == tenancy.generation && own.state == State::Serving)
    };
    let held = shared.held();
    held.values()
        .filter(|tenancy| !is_served(tenancy))
        .copied()
        .collect()
}

/// Forgets the shards that were given away, except those with objects that are still open. Returns false if the disk failed.
fn forget(shared: &Shared) -> bool {
    let mut is_well = true;
    for tenancy in given_away(shared) {
        match shared.store.forget_shard(storage_shard(tenancy.shard)) {
            Ok(()) => {
                shared.held().remove(&tenancy.shard);
            }
            Err(error) if error.kind() == ErrorKind::Refused => {}
            Err(error) if error.kind() == ErrorKind::Input => {
                shared.end(End::Store(error.to_string()));
            }
            Err(error) => {
                warn!(%error, shard = tenancy.shard.0, "what is left of a shard stays");
                is_well = false;
            }
        }
    }
    is_well
}

/// What is to be adopted: the shards that are granted, and that the store does not have from an earlier tenure. Those that could not be
/// adopted have to wait.
fn granted(shared: &Shared) -> Vec<Grant> {
    let now = clock::now();
    let session = shared.session();
    if !session.is_active() {
        return Vec::new();
    }
    let held = shared.held();
    let mut unserved = shared.unserved();
    unserved.retain(|shard, of| {
        let tenure = session.tenures().get(*shard);
        tenure.is_some_and(|own| own.generation == of.tenancy.generation)
    });
    let is_due = |shard: Shard| unserved.get(&shard).is_none_or(|of| now >= of.next);
    let tenures = session.tenures().iter();
    let adopting = tenures.filter(|(shard, tenure)| {
        let is_free = !held.contains_key(shard) && is_due(*shard);
        tenure.state == State::Adopting && is_free
    });
    adopting
        .map(|(shard, tenure)| Grant {
            tenancy: Tenancy {
                shard,
                generation: tenure.generation,
            },
            since: tenure.since,
            floor: tenure.floor,
            parts: tenure.parts.clone(),
        })
        .collect()
}

/// Has the store claim what is granted, and serves it. What cannot be claimed is noted, and stays for a later attempt.
fn claim_all(shared: &Shared, granted: &[Grant], claims: &Claims, logs: &Logs) {
    for grant in granted {
        let _claiming = shared.claiming();
        if shared.ended().is_some() || !shared.session().is_active() {
            return;
        }
        let tenancy = grant.tenancy;
        match claim(claims, grant, logs) {
            Ok(()) => {
                shared.unserved().remove(&tenancy.shard);
                shared.held().insert(tenancy.shard, tenancy);
                // The session has ended if not, and nothing was logged.
                shared.session().adopted(tenancy);
            }
            Err(why) => note_failure(shared, tenancy, why),
        }
    }
}

fn shard(grant: &Grant) -> abide_storage::Shard {
    storage_shard(grant.tenancy.shard)
}

fn claim(claims: &Claims, grant: &Grant, logs: &Logs) -> Result<(), String> {
    let inherited = grant.parts.iter().map(|part| logs.of(part));
    let claim = ShardClaim {
        shard: shard(grant),
        generation: grant.tenancy.generation.0,
        since: grant.since.0.into(),
        floor: grant.floor,
        inherited: inherited.collect::<Result<_, String>>()?,
    };
    let claimed = claims.claim(&claim);
    claimed.map_err(|error| error.to_string())
}

fn note_failures(shared: &Shared, granted: &[Grant], why: &str) {
    for grant in granted {
        note_failure(shared, grant.tenancy, why.to_owned());
    }
}

fn note_failure(shared: &Shared, tenancy: Tenancy, why: String) {
    let mut unserved = shared.unserved();
    let known = unserved.get(&tenancy.shard);
    if known.is_none_or(|known| known.why != why) {
        error!(shard = tenancy.shard.0, why, "a shard is not served");
    }
    let pause = known.map_or(RETRY_EVERY, |known| longer(known.pause));
    let failure = Unserved {
        tenancy,
        why,
        pause,
        next: clock::now() + pause,
    };
    unserved.insert(tenancy.shard, failure);
}

/// The pause after one that was too short.
fn longer(pause: Duration) -> Duration {
    MAX_RETRY_PAUSE.min(pause.saturating_mul(2))
}
