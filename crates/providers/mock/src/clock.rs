//! Where time comes from: tokio's (real, or paused in tests), or a hand that turns it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

/// Whose time it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Tokio's: real, or paused in a test.
    #[default]
    Tokio,
    /// Stands still until [`Mock::advance`](crate::Mock::advance). No timer of any runtime is touched, so a simulation
    /// with its own executor can drive the mock.
    Manual,
}

/// Time since the mock began.
#[derive(Debug)]
pub(crate) enum Time {
    Tokio(Instant),
    Manual(Mutex<Hand>),
}

#[derive(Debug, Default)]
pub(crate) struct Hand {
    now: Duration,
    sleepers: Vec<(Duration, Waker)>,
}

impl Time {
    pub(crate) fn new(clock: Clock) -> Self {
        match clock {
            Clock::Tokio => Self::Tokio(Instant::now()),
            Clock::Manual => Self::Manual(Mutex::default()),
        }
    }

    pub(crate) fn now(&self) -> Duration {
        match self {
            Self::Tokio(start) => start.elapsed(),
            Self::Manual(hand) => lock(hand).now,
        }
    }

    /// The instant of `due` on tokio's clock; `None` if the hand turns time.
    pub(crate) fn instant(&self, due: Duration) -> Option<Instant> {
        match self {
            Self::Tokio(start) => Some(*start + due),
            Self::Manual(_) => None,
        }
    }

    /// Turns the hand to `now`, and never back. Nothing happens on tokio's clock.
    pub(crate) fn turn_to(&self, now: Duration) {
        let Self::Manual(hand) = self else { return };
        let mut hand = lock(hand);
        hand.now = hand.now.max(now);
        let now = hand.now;
        let awake: Vec<_> = hand
            .sleepers
            .extract_if(.., |(due, _)| *due <= now)
            .collect();
        drop(hand);
        for (_, waker) in awake {
            waker.wake();
        }
    }

    /// When the next sleeper on the manual clock wakes.
    pub(crate) fn next_sleeper(&self) -> Option<Duration> {
        match self {
            Self::Tokio(_) => None,
            Self::Manual(hand) => lock(hand).sleepers.iter().map(|(due, _)| *due).min(),
        }
    }

    /// Waits. A zero duration does not yield.
    pub(crate) async fn sleep(&self, duration: Duration) {
        if duration.is_zero() {
            return;
        }
        match self {
            Self::Tokio(_) => tokio::time::sleep(duration).await,
            Self::Manual(hand) => {
                let due = lock(hand).now + duration;
                Nap { hand, due }.await;
            }
        }
    }
}

/// Ends when the hand has passed `due`.
struct Nap<'a> {
    hand: &'a Mutex<Hand>,
    due: Duration,
}

impl Future for Nap<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut hand = lock(self.hand);
        if hand.now >= self.due {
            return Poll::Ready(());
        }
        let waker = context.waker();
        let known = hand
            .sleepers
            .iter()
            .any(|(due, w)| *due == self.due && w.will_wake(waker));
        if !known {
            hand.sleepers.push((self.due, waker.clone()));
        }
        Poll::Pending
    }
}

fn lock(hand: &Mutex<Hand>) -> MutexGuard<'_, Hand> {
    hand.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn the_hand_wakes_sleepers_when_their_time_has_come() {
        let time = Time::new(Clock::Manual);
        let mut nap = Box::pin(time.sleep(Duration::from_secs(2)));
        assert!(poll(nap.as_mut()).is_pending());
        assert_eq!(time.next_sleeper(), Some(Duration::from_secs(2)));
        time.turn_to(Duration::from_secs(1));
        assert!(poll(nap.as_mut()).is_pending());
        time.turn_to(Duration::from_secs(2));
        assert!(poll(nap.as_mut()).is_ready());
        assert_eq!(time.next_sleeper(), None);
    }

    #[test]
    fn the_hand_never_turns_back() {
        let time = Time::new(Clock::Manual);
        time.turn_to(Duration::from_secs(5));
        time.turn_to(Duration::from_secs(1));
        assert_eq!(time.now(), Duration::from_secs(5));
    }
}
