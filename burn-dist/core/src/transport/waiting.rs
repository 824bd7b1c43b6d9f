//! How a rank waits for several lanes at once.

use std::fmt::{Display, Formatter};
use std::io;
use std::os::fd::AsFd;
use std::str::FromStr;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::lane::{Lane, Readiness};
use super::shm::Doorbell;

/// What a rank does while nothing arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// It looks again at once: the shortest latency, and a core that does nothing else.
    Spin,
    /// It sleeps until the system wakes it: for as many ranks as cores, or more.
    Block,
    /// It looks for 50 µs, and then sleeps.
    Hybrid,
}

impl FromStr for Poll {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "spin" => Ok(Self::Spin),
            "block" => Ok(Self::Block),
            "hybrid" => Ok(Self::Hybrid),
            _ => Err("expected spin, block or hybrid".to_owned()),
        }
    }
}

impl Display for Poll {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Spin => "spin",
            Self::Block => "block",
            Self::Hybrid => "hybrid",
        })
    }
}

/// How long [`Poll::Hybrid`] looks before it sleeps.
const LOOK: Duration = Duration::from_micros(50);
/// The longest sleep: then the caller looks whether the operation has failed elsewhere.
const SLEEP: Duration = Duration::from_millis(20);
/// Looks between two looks at the clock.
const LOOKS: u32 = 64;

/// What a rank waits for on a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interest {
    pub arrival: bool,
    pub room: bool,
    /// The return of what was lent.
    pub loans: bool,
}

/// Waits, from the first fruitless look of an operation to the next fruitful one.
#[derive(Debug)]
pub(crate) struct Waiting {
    poll: Poll,
    looks: u32,
    since: Option<Instant>,
}

impl Waiting {
    pub fn new(poll: Poll) -> Self {
        Self {
            poll,
            looks: 0,
            since: None,
        }
    }

    /// Something has moved.
    pub fn over(&mut self) {
        self.looks = 0;
        self.since = None;
    }

    /// Whether to look at the lanes again before anything else.
    pub fn looks_again(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        let again = self.poll != Poll::Block && !self.looks.is_multiple_of(LOOKS);
        if again {
            std::hint::spin_loop();
        }
        again
    }

    /// Waits a little for any of `lanes`, or not at all where it is to spin.
    pub fn wait<'a>(
        &mut self,
        lanes: impl Iterator<Item = (&'a dyn Lane, Interest)>,
        doorbell: Option<&Doorbell>,
    ) -> io::Result<()> {
        let sleeps = match self.poll {
            Poll::Spin => false,
            Poll::Block => true,
            Poll::Hybrid => self.since.get_or_insert_with(Instant::now).elapsed() > LOOK,
        };
        if sleeps {
            sleep(lanes, doorbell)
        } else {
            Ok(())
        }
    }
}

/// Sleeps until one of `lanes` may go on, at most [`SLEEP`].
fn sleep<'a>(
    lanes: impl Iterator<Item = (&'a dyn Lane, Interest)>,
    doorbell: Option<&Doorbell>,
) -> io::Result<()> {
    let lanes: Vec<(&dyn Lane, Interest)> = lanes.collect();
    let mut until = Instant::now() + SLEEP;
    let mut descriptors = Vec::with_capacity(lanes.len());
    let mut bells = Vec::new();
    for (lane, interest) in &lanes {
        let mut readiness = lane.readiness();
        let mut interest = *interest;
        while let Readiness::Until(time, inner) = readiness {
            // What has arrived is shown at its time, whatever arrives behind it.
            until = until.min(time);
            interest.arrival = false;
            readiness = *inner;
        }
        let mut events = PollFlags::empty();
        events.set(PollFlags::IN, interest.arrival);
        events.set(PollFlags::OUT, interest.room);
        match readiness {
            Readiness::Descriptor(descriptor) if !events.is_empty() => {
                descriptors.push((descriptor, events));
            }
            Readiness::Doorbell { .. } => bells.push((lane, interest)),
            _ => {}
        }
    }
    let time = until.saturating_duration_since(Instant::now());
    let Some(doorbell) = doorbell.filter(|_| !bells.is_empty()) else {
        return poll_descriptors(&descriptors, time).map(|_| ());
    };
    let on_sockets = !descriptors.is_empty();
    let rung = doorbell.before_sleep(on_sockets);
    let may_go_on = |(lane, interest): &(&&dyn Lane, Interest)| {
        let mut readiness = lane.readiness();
        while let Readiness::Until(_, inner) = readiness {
            readiness = *inner;
        }
        matches!(readiness, Readiness::Doorbell { arrived, freed, paid_back, .. }
            if (interest.arrival && arrived) || (interest.room && freed) || (interest.loans && paid_back))
    };
    if !bells.iter().any(may_go_on) {
        if on_sockets {
            let own = descriptors.len();
            for (lane, _) in &bells {
                let mut readiness = lane.readiness();
                while let Readiness::Until(_, inner) = readiness {
                    readiness = *inner;
                }
                if let Readiness::Doorbell { socket, .. } = readiness {
                    descriptors.push((socket, PollFlags::IN));
                }
            }
            let readable = poll_descriptors(&descriptors, time)?;
            for index in readable.into_iter().filter(|index| *index >= own) {
                let mut bytes = [0; 64];
                // What is read is that somebody has rung; an end is noticed elsewhere, and waited for no longer.
                if let Ok(0) = rustix::io::read(descriptors[index].0, &mut bytes) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        } else {
            doorbell.sleep_on(rung, time)?;
        }
    }
    doorbell.after_sleep();
    Ok(())
}

/// Waits for one of the descriptors; the indices of those that are readable.
fn poll_descriptors(
    descriptors: &[(std::os::fd::BorrowedFd<'_>, PollFlags)],
    time: Duration,
) -> io::Result<Vec<usize>> {
    let mut polled: Vec<PollFd<'_>> = descriptors
        .iter()
        .map(|(descriptor, events)| PollFd::from_borrowed_fd(descriptor.as_fd(), *events))
        .collect();
    let time = Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: i64::from(time.subsec_nanos()),
    };
    match poll(&mut polled, Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let readable =
        |(index, fd): (usize, &PollFd<'_>)| fd.revents().contains(PollFlags::IN).then_some(index);
    Ok(polled.iter().enumerate().filter_map(readable).collect())
}
