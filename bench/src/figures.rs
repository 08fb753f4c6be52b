//! Medians and percentiles.

/// The median of each column; `None` without rows.
pub(crate) fn medians<const N: usize>(rows: &[[f64; N]]) -> Option<[f64; N]> {
    if rows.is_empty() {
        return None;
    }
    Some(std::array::from_fn(|column| {
        let mut values: Vec<f64> = rows.iter().map(|row| row[column]).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        }
    }))
}

/// Latencies in nanoseconds, gathered one by one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies(Vec<u64>);

impl Latencies {
    pub(crate) fn push(&mut self, latency: std::time::Duration) {
        self.0
            .push(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The percentiles asked for, in microseconds; zeros if nothing was gathered.
    pub(crate) fn percentiles_us<const N: usize>(mut self, percents: [f64; N]) -> [f64; N] {
        self.0.sort_unstable();
        percents.map(|percent| {
            let Some(last) = self.0.len().checked_sub(1) else {
                return 0.0;
            };
            #[allow(clippy::cast_sign_loss)] // a percentile is not negative
            let index = (last as f64 * percent / 100.0).round() as usize;
            self.0[index.min(last)] as f64 / 1_000.0
        })
    }

    /// The mean in microseconds.
    pub(crate) fn mean_us(&self) -> f64 {
        self.0.iter().sum::<u64>() as f64 / 1_000.0 / self.0.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Latencies, medians};

    #[test]
    fn median_of_an_even_number_of_rows_lies_between_the_middle_two() {
        assert_eq!(medians(&[[4.0], [1.0], [2.0], [3.0]]), Some([2.5]));
        assert_eq!(medians::<1>(&[]), None);
    }

    #[test]
    fn percentiles_are_taken_from_the_sorted_latencies() {
        let mut latencies = Latencies::default();
        for micros in (0..=100).rev() {
            latencies.push(Duration::from_micros(micros));
        }
        let percentiles = latencies.percentiles_us([50.0, 99.0, 100.0]);
        assert_eq!(
            percentiles.map(|figure| figure.round() as i64),
            [50, 99, 100]
        );
    }
}
