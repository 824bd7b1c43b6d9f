//! What a rank sees to from time to time, whether its program calls anything or not: that it tells what it has called, that
//! its trace is written, and that the processes beside it live: the next one, rank 0, and all that it waits for. A process
//! that has died may have left its connections to its children, so that nobody sees them end.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::supervisor::Supervisor;
use crate::rendezvous::Member;

/// The time between two rounds: two of them, and a question to two ranks, are less than a second.
const PERIOD: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 150_000_000,
};
/// Processes that are looked after while they are waited for, at most: those behind them follow.
const MOST: usize = 64;
/// How long after its end a process may still be heard to have left.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(500);

/// Starts the rounds of `supervisor`, which end with it.
pub(super) fn start(supervisor: &Arc<Supervisor>) -> io::Result<()> {
    let watched = watched(supervisor.rank, &supervisor.members);
    let mut processes = BTreeMap::new();
    let mut ended = BTreeMap::new();
    for member in watched {
        look_after(member, &mut processes, &mut ended);
    }
    let supervisor = Arc::downgrade(supervisor);
    let thread = std::thread::Builder::new()
        .name("supervision".into())
        .stack_size(256 << 10);
    thread.spawn(
        move || {
            while round(&mut processes, &mut ended, &supervisor) {}
        },
    )?;
    Ok(())
}

/// A process that can be waited for; `SRCH` where it has ended, anything else where the system cannot do that.
fn open(process: u32) -> Result<OwnedFd, Errno> {
    let number = i32::try_from(process).map_err(|_| Errno::INVAL)?;
    pidfd_open(
        Pid::from_raw(number).ok_or(Errno::INVAL)?,
        PidfdFlags::empty(),
    )
}

/// Watches the process of `member` from now on, or takes note that it has ended.
fn look_after(
    member: &Member,
    processes: &mut BTreeMap<usize, OwnedFd>,
    ended: &mut BTreeMap<usize, Option<Instant>>,
) {
    let rank = member.rank;
    if processes.contains_key(&rank) || ended.contains_key(&rank) {
        return;
    }
    match open(member.process) {
        Ok(process) => drop(processes.insert(rank, process)),
        Err(Errno::SRCH) => drop(ended.insert(rank, Some(Instant::now()))),
        // Of such a process connections have to tell.
        Err(_) => {}
    }
}

/// Waits a moment for the process of `rank` to end, if it is another one that this process sees.
pub(super) fn await_end(members: &[Member], own: usize, rank: usize) {
    let (Some(own), Some(other)) = (members.get(own), members.get(rank)) else {
        return;
    };
    if !is_another(other, own) {
        return;
    }
    let Ok(process) = open(other.process) else {
        return;
    };
    let limit = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(LAST_WORDS.subsec_nanos()),
    };
    // However it ends, there is no more to wait for.
    let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit));
}

/// Of the processes that this one sees: the next, so that each has somebody, and rank 0, whose end nobody else would
/// tell.
fn watched(rank: usize, members: &[Member]) -> Vec<&Member> {
    let Some(own) = members.get(rank) else {
        return Vec::new();
    };
    let seen = |member: &&Member| member.rank != rank && member.host.shares_processes(&own.host);
    let near: Vec<&Member> = members.iter().filter(seen).collect();
    let after = near.iter().find(|member| member.rank > rank);
    let next = after.or(near.first()).copied();
    let first = near.first().filter(|member| member.rank == 0).copied();
    let mut watched: Vec<&Member> = next.into_iter().chain(first).collect();
    watched.dedup_by_key(|member| member.rank);
    watched
}

/// Waits a while; whether there is to be another round.
fn round(
    processes: &mut BTreeMap<usize, OwnedFd>,
    ended: &mut BTreeMap<usize, Option<Instant>>,
    supervisor: &Weak<Supervisor>,
) -> bool {
    let flags = PollFlags::IN;
    let mut polled: Vec<PollFd<'_>> = processes
        .values()
        .map(|process| PollFd::new(process, flags))
        .collect();
    let outcome = poll(&mut polled, Some(&PERIOD));
    if outcome.is_err_and(|error| error != Errno::INTR) {
        // Out of memory: not to be done again at once.
        std::thread::sleep(LAST_WORDS);
    }
    // Of an interrupted one nothing is known; the rest of the round is due all the same.
    let over = polled
        .iter()
        .map(|fd| outcome.is_ok() && !fd.revents().is_empty());
    let over: Vec<bool> = over.collect();
    let mut over = over.into_iter();
    processes.retain(|rank, _| {
        let over = over.next().unwrap_or_default();
        if over {
            ended.insert(*rank, Some(Instant::now()));
        }
        !over
    });
    let Some(supervisor) = supervisor.upgrade() else {
        return false;
    };
    // Who watched one of these may have left.
    let members = &supervisor.members;
    for rank in supervisor.waits_long_for().into_iter().take(MOST) {
        let own = &members[supervisor.rank];
        let waited_for = members.get(rank);
        let near = waited_for.filter(|member| is_another(member, own));
        if let Some(member) = near {
            look_after(member, processes, ended);
        }
    }
    for (rank, when) in ended.iter_mut() {
        // Each is told once.
        if when.take_if(|when| when.elapsed() >= LAST_WORDS).is_some() {
            supervisor.ended(*rank);
        }
    }
    supervisor.round()
}

/// Whether `member` is another process, and one that `own` sees.
fn is_another(member: &Member, own: &Member) -> bool {
    member.process != own.process && member.host.shares_processes(&own.host)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::rendezvous::Host;

    #[test]
    fn every_process_of_a_host_is_watched_and_rank_0_by_all() {
        let here = Host::of_process(None);
        let there = Host::of_process(Some("there"));
        let member = |rank| Member {
            rank,
            address: IpAddr::from([127, 0, 0, 1]),
            port: 0,
            host: if rank % 2 == 0 { &here } else { &there }.clone(),
            process: 7,
        };
        let members: Vec<Member> = (0..6).map(member).collect();
        let ranks = |rank| -> Vec<usize> {
            let watched = watched(rank, &members);
            watched.iter().map(|member| member.rank).collect()
        };
        let found: Vec<Vec<usize>> = (0..6).map(ranks).collect();
        assert_eq!(
            found,
            [vec![2], vec![3], vec![4, 0], vec![5], vec![0], vec![1]]
        );
        assert!(watched(0, &members[..2]).is_empty());
    }

    #[test]
    fn a_process_that_has_ended_is_none_to_wait_for() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let open_one = open(child.id()).unwrap();
        let mut polled = [PollFd::new(&open_one, PollFlags::IN)];
        let limit = Timespec {
            tv_sec: 20,
            tv_nsec: 0,
        };
        assert_eq!(poll(&mut polled, Some(&limit)).unwrap(), 1);
        child.wait().unwrap();
        // Only of this one is known that it has ended.
        assert_eq!(open(child.id()).unwrap_err(), Errno::SRCH);
        assert_eq!(open(0).unwrap_err(), Errno::INVAL);
    }
}
