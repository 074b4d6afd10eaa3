//! What is measured, one file a stage. Each leaves all VMs running and the manager at rest.

pub mod create;
pub mod drift;
pub mod edit;
pub mod large;
pub mod memory;
pub mod rest;
pub mod restart;
pub mod tasks;

use std::time::Duration;

/// So long without any movement is rest, for a manager that has little to do.
const REST: Duration = Duration::from_secs(5);

/// A time as a figure.
pub fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

/// The value that the given share of all values does not exceed.
pub fn percentile(values: &mut [f64], hundredths: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() * hundredths).div_ceil(100).max(1);
    values.get(rank - 1).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let mut values: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        let [median, high] = [50, 95].map(|p| percentile(&mut values, p));
        assert!((median - 10.0).abs() < 1e-9 && (high - 19.0).abs() < 1e-9);
        assert!(percentile(&mut [], 50).abs() < 1e-9);
    }
}
