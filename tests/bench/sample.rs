//! Measurements in turn, and what is made of them.

use anyhow::Result;

/// What was measured of two things, or of three with the copy, in turn.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// Seconds of ours.
    pub ours: Vec<f64>,
    /// Seconds of the other.
    pub theirs: Vec<f64>,
}

impl Sample {
    /// Measures `pairs` pairs; who comes first changes from pair to pair, as whatever drifts must not favour either.
    pub fn take(pairs: usize, mut ours: impl FnMut() -> Result<f64>, mut theirs: impl FnMut() -> Result<f64>) -> Result<Self> {
        let mut sample = Self::default();
        for pair in 0..pairs {
            if pair % 2 == 0 {
                sample.ours.push(ours()?);
                sample.theirs.push(theirs()?);
            } else {
                sample.theirs.push(theirs()?);
                sample.ours.push(ours()?);
            }
        }
        Ok(sample)
    }

    /// The median of the pairs' ratios, ours by theirs.
    pub fn ratio(&self) -> f64 {
        median(self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| ours / theirs))
    }
}

/// The middle one; of an even number, the mean of the two in the middle.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// The power of `n` with which `value` grows, by least squares through the logarithms: 1 is linear, 0 is flat.
pub fn exponent(points: &[(usize, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(n, value)| ((*n as f64).ln(), value.ln())).collect();
    let count = logs.len() as f64;
    let (mean_x, mean_y) = (logs.iter().map(|p| p.0).sum::<f64>() / count, logs.iter().map(|p| p.1).sum::<f64>() / count);
    let over = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>();
    over / logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_ratios_is_not_the_ratio_of_medians() {
        let sample = Sample { ours: vec![1.0, 4.0, 9.0], theirs: vec![2.0, 2.0, 3.0] };
        assert!((sample.ratio() - 2.0).abs() < 1e-9);
        assert!((median([1.0, 2.0, 4.0, 3.0]) - 2.5).abs() < 1e-9);
    }

    #[test]
    fn an_exponent_tells_linear_from_flat_and_square() {
        let grown = |power: i32| [500_usize, 1000, 2000].map(|n| (n, 3.0 * (n as f64).powi(power)));
        for power in 0..3 {
            assert!((exponent(&grown(power)) - f64::from(power)).abs() < 1e-9);
        }
    }
}
