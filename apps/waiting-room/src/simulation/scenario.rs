//! What visitors do, and when workers come and go.

use std::ops::Range;

use super::LIMIT;

/// Steps of a second.
pub(super) const STEPS_PER_SECOND: u64 = 10;
/// Seconds of a minute.
pub(super) const MINUTE: u64 = 60;
/// Steps of a minute.
const STEPS: u64 = MINUTE * STEPS_PER_SECOND;

/// What happens in one run.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) limit: u64,
    /// Minutes that it lasts.
    pub(super) minutes: u64,
    /// Visitors who come in a minute to each data centre, before and after the spike.
    pub(super) calm: Vec<f64>,
    /// The same in the spike.
    pub(super) spike: Vec<f64>,
    /// Steps in which the spike is.
    pub(super) spike_steps: Range<u64>,
    /// Minutes for which a visitor stays.
    pub(super) stay: u64,
    /// Workers of each data centre before and in the spike: new ones are started for a spike that lasts.
    pub(super) workers: [Vec<u64>; 2],
    /// Steps that a message between data centres takes in one direction.
    pub(super) delay: u64,
}

/// One place and many, low and high utilisation, no spike at all, and spikes that end before data centres hear of each other.
pub(super) fn all() -> Vec<Scenario> {
    let mut all = lasting();
    all.extend(sharp());
    all
}

fn lasting() -> Vec<Scenario> {
    // Utilisation is arrivals times the stay: 160 × 5 of 1,000 are 80 %.
    let high = Scenario {
        name: "",
        limit: LIMIT,
        minutes: 12,
        calm: vec![60.0, 40.0, 40.0, 20.0],
        spike: vec![60.0, 40.0, 40.0, 20.0],
        spike_steps: 7 * STEPS..9 * STEPS,
        stay: 5,
        workers: [vec![6, 4, 4, 2], vec![9, 6, 6, 3]],
        delay: 2,
    };
    let low = Scenario {
        calm: vec![15.0, 10.0, 10.0, 5.0],
        ..high.clone()
    };
    vec![
        Scenario {
            name: "no spike, 80 % full",
            ..high.clone()
        },
        Scenario {
            name: "spike from one place, 20 % full",
            spike: vec![15.0, 10.0, 10.0, 2_000.0],
            ..low.clone()
        },
        Scenario {
            name: "spike from one place, 80 % full",
            spike: vec![60.0, 40.0, 40.0, 2_000.0],
            ..high.clone()
        },
        Scenario {
            name: "spike from many places, 20 % full",
            spike: vec![800.0, 600.0, 600.0, 400.0],
            ..low
        },
        Scenario {
            name: "spike from many places, 80 % full",
            spike: vec![800.0, 600.0, 600.0, 400.0],
            ..high
        },
    ]
}

/// 1,000 visitors in one second, in the middle of a minute, while a message takes half a second.
fn sharp() -> Vec<Scenario> {
    const BEGINS: u64 = 7 * STEPS + 18 * STEPS_PER_SECOND;
    let scenario = |name, centres: usize, utilisation: f64| {
        let each = |total: f64| vec![total / centres as f64; centres];
        Scenario {
            name,
            limit: LIMIT,
            minutes: 12,
            calm: each(utilisation * 1_000.0 / 5.0),
            spike: each(60_000.0),
            spike_steps: BEGINS..BEGINS + STEPS_PER_SECOND,
            stay: 5,
            workers: [vec![4; centres], vec![4; centres]],
            delay: 5,
        }
    };
    vec![
        scenario("sharp, 2 data centres, 20 % full", 2, 0.2),
        scenario("sharp, 2 data centres, 90 % full", 2, 0.9),
        scenario("sharp, 4 data centres, 20 % full", 4, 0.2),
        scenario("sharp, 4 data centres, 90 % full", 4, 0.9),
        Scenario {
            spike: vec![60_000.0, 0.0, 0.0, 0.0],
            ..scenario("sharp, 1 of 4 data centres, 90 % full", 4, 0.9)
        },
        scenario("sharp, 8 data centres, 90 % full", 8, 0.9),
    ]
}
