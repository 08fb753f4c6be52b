//! What visitors do, and when workers come and go.

/// Steps of a second.
pub(super) const STEPS_PER_SECOND: u64 = 10;
/// Seconds of a minute.
pub(super) const MINUTE: u64 = 60;

/// What happens in one run.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) limit: u64,
    /// Minutes that it lasts.
    pub(super) minutes: u64,
    /// Visitors who come in a minute to each data centre, before the spike.
    pub(super) calm: [f64; 4],
    /// The same in the spike.
    pub(super) spike: [f64; 4],
    /// Minutes in which the spike is.
    pub(super) spike_minutes: std::ops::Range<u64>,
    /// Minutes for which a visitor stays.
    pub(super) stay: u64,
    /// Workers of each data centre, before and in the spike: new ones are started for it.
    pub(super) workers: [[u64; 4]; 2],
    /// Steps that a message between data centres takes in one direction.
    pub(super) delay: u64,
}

/// One place and many, low and high utilisation, and no spike at all.
pub(super) fn all() -> Vec<Scenario> {
    let base = Scenario {
        name: "",
        limit: 1_000,
        minutes: 12,
        calm: [60.0, 40.0, 40.0, 20.0],
        spike: [60.0, 40.0, 40.0, 20.0],
        spike_minutes: 7..9,
        stay: 5,
        workers: [[6, 4, 4, 2], [9, 6, 6, 3]],
        delay: 2,
    };
    // Utilisation is arrivals times the stay: 160 × 5 of 1,000 are 80 %.
    let high = base.clone();
    let low = Scenario {
        calm: [15.0, 10.0, 10.0, 5.0],
        ..base.clone()
    };
    vec![
        Scenario {
            name: "no spike, 80 % full",
            ..high.clone()
        },
        Scenario {
            name: "spike from one place, 20 % full",
            spike: [15.0, 10.0, 10.0, 2_000.0],
            ..low.clone()
        },
        Scenario {
            name: "spike from one place, 80 % full",
            spike: [60.0, 40.0, 40.0, 2_000.0],
            ..high.clone()
        },
        Scenario {
            name: "spike from many places, 20 % full",
            spike: [800.0, 600.0, 600.0, 400.0],
            ..low
        },
        Scenario {
            name: "spike from many places, 80 % full",
            spike: [800.0, 600.0, 600.0, 400.0],
            ..high
        },
    ]
}
