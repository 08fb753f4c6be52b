//! Does something grow without bound?

/// The share by which the end of a stretch may be above its beginning.
const SHARE: f64 = 0.2;

/// Whether there is growth: the median of the last third of the samples is above that of the first third by more than
/// a fifth, and by more than `slack`, which is what caches and pools take until they are full.
pub(crate) fn grows(samples: &[f64], slack: f64) -> Option<(f64, f64)> {
    let third = samples.len() / 3;
    if third == 0 {
        return None;
    }
    let (before, after) = (
        median(&samples[..third]),
        median(&samples[samples.len() - third..]),
    );
    (after > before * (1.0 + SHARE) && after > before + slack).then_some((before, after))
}

fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::grows;

    #[test]
    fn what_rises_all_the_time_grows_and_what_levels_off_does_not() {
        let rising: Vec<f64> = (100..400).map(f64::from).collect();
        let level: Vec<f64> = (0..300).map(|at| f64::from(100 + at.min(40))).collect();
        assert!(grows(&rising, 10.0).is_some());
        assert!(grows(&level, 50.0).is_none());
    }

    #[test]
    fn a_saw_that_falls_back_does_not_grow() {
        let saw: Vec<f64> = (0..300).map(|at| f64::from(100 + at % 50)).collect();
        assert!(grows(&saw, 0.0).is_none());
    }

    #[test]
    fn nothing_is_known_of_two_samples() {
        assert!(grows(&[1.0, 100.0], 0.0).is_none());
    }
}
