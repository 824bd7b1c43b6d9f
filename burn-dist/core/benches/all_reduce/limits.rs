//! What the machine can do at most, on the same cores: a stream over loopback, copies of memory, and sums of two arrays.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Barrier;
use std::time::Instant;

use burn_dist_core::collective::{Element, Reduction};

use crate::{Contender, Result, Settings, Times};

/// One TCP stream from core to core, a copy by one core, one by each of two at once, and sums by one core.
pub const NAMES: [&str; 5] = [
    "TCP stream",
    "copy, 1 core",
    "copy, 2 cores",
    "sum of 2, f32",
    "sum of 2, bf16",
];

/// The limits, measured as contenders are.
pub fn contenders() -> [Contender; 5] {
    let [stream, one, two, floats, halves] = NAMES;
    let contender = |name, measure: fn(&Settings) -> Result<Times>| Contender {
        name,
        measure: Box::new(measure),
    };
    [
        contender(stream, loopback),
        contender(one, |settings| Ok(copies(settings, 1))),
        contender(two, |settings| Ok(copies(settings, 2))),
        contender(floats, sums::<f32>),
        contender(halves, sums::<half::bf16>),
    ]
}

/// Times of `once` until there are enough; their median.
fn median(settings: &Settings, mut once: impl FnMut() -> Result<f64>) -> Result<f64> {
    // What comes first finds cold caches.
    let first = once()?;
    let repetitions = ((settings.seconds / first) as usize).clamp(5, 2_000);
    let mut times = Vec::with_capacity(repetitions);
    for _ in 0..repetitions {
        times.push(once()?);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Bytes one way, until one byte says that all have come.
fn loopback(settings: &Settings) -> Result<Times> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut sending = TcpStream::connect(listener.local_addr()?)?;
    let mut receiving = listener.accept()?.0;
    sending.set_nodelay(true)?;
    receiving.set_nodelay(true)?;
    let sizes = settings.sizes.clone();
    let reader = std::thread::spawn(move || -> std::io::Result<()> {
        let mut block = vec![0; 1 << 20];
        for size in sizes {
            // Until the sender says that it goes on with the next size.
            let mut more = [1];
            while more == [1] {
                let mut left = size as usize;
                while left > 0 {
                    let most = left.min(block.len());
                    match receiving.read(&mut block[..most])? {
                        0 => return Ok(()),
                        count => left -= count,
                    }
                }
                receiving.write_all(&[0])?;
                receiving.read_exact(&mut more)?;
            }
        }
        Ok(())
    });
    let block = vec![1; 1 << 20];
    let mut all = Vec::new();
    for size in &settings.sizes {
        let mut begun = false;
        let time = median(settings, || {
            if begun {
                sending.write_all(&[1])?;
            }
            begun = true;
            let began = Instant::now();
            let mut left = *size as usize;
            while left > 0 {
                left -= sending.write(&block[..left.min(block.len())])?;
            }
            sending.read_exact(&mut [0])?;
            Ok(began.elapsed().as_secs_f64())
        })?;
        sending.write_all(&[0])?;
        all.push((*size, time));
    }
    drop(sending);
    reader.join().map_err(|_| "the reader has panicked")??;
    Ok(all)
}

/// The sum of two arrays in a third, each of the size.
fn sums<T: Element>(settings: &Settings) -> Result<Times> {
    let time = |size: &u64| {
        let count = *size as usize / size_of::<T>();
        let [one, other, mut sum] = [(); 3].map(|()| vec![T::default(); count]);
        let time = median(settings, || {
            let began = Instant::now();
            Reduction::Sum.reduce(std::hint::black_box(&[&one, &other]), &mut sum);
            std::hint::black_box(&mut sum);
            Ok(began.elapsed().as_secs_f64())
        })?;
        Ok((*size, time))
    };
    settings.sizes.iter().map(time).collect()
}

/// Allocators place two vectors so that one begins a few bytes behind the other but for whole pages, and for that some
/// processors copy at a tenth of their speed. Half a page is far from it.
const APART: usize = 2048;

/// Each of `cores` copies `size` bytes of its own: the time of the slowest.
fn copies(settings: &Settings, cores: usize) -> Times {
    let time = |size: u64| {
        let start = Barrier::new(cores);
        let copy = || {
            let (from, mut to) = (vec![1u8; size as usize], vec![0u8; size as usize + APART]);
            let to = &mut to[APART..];
            start.wait();
            let copied = median(settings, || {
                let began = Instant::now();
                to.copy_from_slice(std::hint::black_box(&from));
                std::hint::black_box(&mut *to);
                Ok(began.elapsed().as_secs_f64())
            });
            copied.unwrap_or(f64::NAN)
        };
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..cores).map(|_| scope.spawn(copy)).collect();
            let times = running.into_iter().filter_map(|thread| thread.join().ok());
            times.fold(0.0, f64::max)
        })
    };
    settings
        .sizes
        .iter()
        .map(|size| (*size, time(*size)))
        .collect()
}
