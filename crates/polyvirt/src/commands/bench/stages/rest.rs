//! A window in which nobody does anything.

use std::time::Duration;

use polyvirt_provider_mock::{Mock, Rpc};
use tokio::time::{Instant, sleep};

use super::seconds;
use crate::commands::bench::Bench;
use crate::commands::bench::budgets::{Name, count};
use crate::commands::bench::report::number;

const SAMPLE: Duration = Duration::from_millis(100);
/// A minute, less what a call may be late and the next one in time.
const MINUTE: Duration = Duration::from_millis(59_500);

pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let window = bench
        .plan
        .pick(Duration::from_secs(65), Duration::from_secs(20));
    tracing::info!("resting for {} s", window.as_secs());
    let mark = bench.lab.ledger.mark()?;
    let cpu = bench.lab.manager.process.cpu()?;
    let calls = listen(&bench.lab.mock, window).await;
    let cpu = bench.lab.manager.process.cpu()?.saturating_sub(cpu);
    let writes = bench.lab.ledger.since(mark)?;
    bench.figure(Name::RestWrites, bench.plan.vms, count(writes.total()));
    bench.figure(
        Name::RestCalls,
        bench.plan.vms,
        count(most_within(&calls, MINUTE)),
    );
    bench
        .report
        .fact("rest: writes of the manager", writes.list());
    let load = number(seconds(cpu) * 100.0 / seconds(window));
    bench.report.fact(
        "rest: processor of the manager",
        format!("{load} % of one CPU"),
    );
    Ok(())
}

/// When calls were made, as offsets into the window.
async fn listen(mock: &Mock, window: Duration) -> Vec<Duration> {
    let begin = Instant::now();
    let (mut arrivals, mut before) = (Vec::new(), calls(mock));
    while begin.elapsed() < window {
        sleep(SAMPLE).await;
        let now = calls(mock);
        arrivals.extend((before..now).map(|_| begin.elapsed()));
        before = now;
    }
    arrivals
}

fn calls(mock: &Mock) -> u64 {
    let counts = mock.counts();
    counts.calls() - counts.of(Rpc::Watch).calls
}

/// The most arrivals within any span of that length.
fn most_within(arrivals: &[Duration], span: Duration) -> usize {
    let from = |first: &Duration| {
        arrivals
            .iter()
            .filter(|a| *a >= first && **a < *first + span)
            .count()
    };
    arrivals.iter().map(from).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_a_minute_apart_are_one_a_minute() {
        let at = |seconds: &[u64]| {
            seconds
                .iter()
                .map(|s| Duration::from_secs(*s))
                .collect::<Vec<_>>()
        };
        assert_eq!(most_within(&at(&[]), MINUTE), 0);
        assert_eq!(most_within(&at(&[3, 63]), MINUTE), 1);
        assert_eq!(most_within(&at(&[3, 33, 63]), MINUTE), 2);
    }
}
