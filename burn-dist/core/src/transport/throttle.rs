//! A slower and later version of any lane, for tests and to see what a network would do.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::str::FromStr;
use std::time::{Duration, Instant};

use super::lane::{Lane, LaneError, Readiness, Transport, WINDOW};

/// How slow and late bytes are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    /// Bytes a second of each direction of a lane, at most.
    pub rate: f64,
    /// Time from a message's sending to its arrival, at least.
    pub latency: Duration,
}

impl FromStr for Throttle {
    type Err = String;

    /// Reads `RATE:LATENCY` in MB/s and microseconds, as `125:100`.
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once(':').and_then(|(rate, latency)| {
            let (rate, latency) = (rate.parse::<f64>().ok()?, latency.parse::<u64>().ok()?);
            let fits = (1e-3..=1e6).contains(&rate) && latency <= 1_000_000_000;
            fits.then_some((rate, latency))
        });
        let (rate, latency) = numbers.ok_or_else(|| {
            "expected a rate in MB/s and a latency in microseconds, as 125:100".to_owned()
        })?;
        Ok(Self {
            rate: rate * 1e6,
            latency: Duration::from_micros(latency),
        })
    }
}

/// A lane that shows what has arrived only when it would have arrived over a slower network.
///
/// The receiving side holds back: what is not shown fills the window and the buffers below, and so stops the
/// sender in its turn.
#[derive(Debug)]
pub struct Throttled<L> {
    lane: L,
    throttle: Throttle,
    /// Bytes that have arrived and when they may be shown, in order.
    held: VecDeque<(Instant, usize)>,
    /// Bytes at hand that may be shown.
    shown: usize,
    /// When the network has carried all that has arrived.
    free_at: Instant,
}

impl<L: Lane> Throttled<L> {
    /// Slows `lane` down.
    pub fn new(lane: L, throttle: Throttle) -> Self {
        Self {
            lane,
            throttle,
            held: VecDeque::new(),
            shown: 0,
            free_at: Instant::now(),
        }
    }

    /// Looks for what has arrived, and shows what is due.
    fn look(&mut self) -> Result<(), LaneError> {
        let known = self.shown + self.held.iter().map(|(_, bytes)| bytes).sum::<usize>();
        let now = Instant::now();
        let outcome = self.lane.fill(WINDOW);
        let at_hand = *outcome.as_ref().unwrap_or(&known);
        if at_hand > known {
            let bytes = at_hand - known;
            let carried = Duration::from_secs_f64(bytes as f64 / self.throttle.rate);
            self.free_at = self.free_at.max(now) + carried;
            self.held
                .push_back((self.free_at + self.throttle.latency, bytes));
        }
        while let Some((_, bytes)) = self.held.front().filter(|(due, _)| *due <= now) {
            self.shown += bytes;
            self.held.pop_front();
        }
        match outcome {
            Err(error) if known == 0 => Err(error),
            _ => Ok(()),
        }
    }
}

impl<L: Lane> Lane for Throttled<L> {
    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, LaneError> {
        self.lane.send(parts)
    }

    fn flush(&mut self) -> Result<bool, LaneError> {
        self.lane.flush()
    }

    fn fill(&mut self, _most: usize) -> Result<usize, LaneError> {
        self.look()?;
        Ok(self.shown)
    }

    fn peek(&self) -> &[u8] {
        &self.lane.peek()[..self.shown]
    }

    fn consume(&mut self, count: usize) {
        assert!(count <= self.shown, "more than is at hand");
        self.shown -= count;
        self.lane.consume(count);
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<usize, LaneError> {
        self.look()?;
        let count = self.shown.min(into.len());
        into[..count].copy_from_slice(&self.lane.peek()[..count]);
        self.consume(count);
        Ok(count)
    }

    fn check(&self) -> Result<(), LaneError> {
        // Whoever has left may have done so behind what is held back.
        if self.held.is_empty() {
            self.lane.check()
        } else {
            Ok(())
        }
    }

    fn readiness(&self) -> Readiness<'_> {
        match self.held.front() {
            Some((due, _)) => Readiness::Until(*due, Box::new(self.lane.readiness())),
            None => self.lane.readiness(),
        }
    }

    fn transport(&self) -> Transport {
        self.lane.transport()
    }
}
