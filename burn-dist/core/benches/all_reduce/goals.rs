//! What is aimed at for two ranks of one host.

use crate::report::Report;

/// Prints what was aimed at, and how many goals are missed.
pub fn missed(report: &Report) -> usize {
    const K: u64 = 1 << 10;
    const M: u64 = 1 << 20;
    let ratios = [
        ("tcp spin", "Gloo tcp", M, 2.0),
        ("tcp spin", "Gloo tcp", 16 * M, 2.0),
        ("tcp spin", "Gloo tcp", 64 * M, 1.5),
        ("tcp spin", "Open MPI tcp", M, 0.9),
        ("tcp spin", "Open MPI tcp", 16 * M, 0.9),
        ("tcp spin", "Open MPI tcp", 64 * M, 1.5),
        ("shm spin", "Open MPI shm", M, 1.0),
        ("shm spin", "Open MPI shm", 16 * M, 1.0),
        ("shm spin", "Open MPI shm", 64 * M, 2.0),
    ];
    let times = [
        ("tcp spin", K, 25e-6),
        ("tcp block", K, 100e-6),
        ("shm spin", K, 5e-6),
    ];
    let mut missed = 0;
    println!("\ngoals");
    for (own, peer, size, goal) in ratios {
        let Some(ratio) = report.ratio(own, peer, size) else {
            continue;
        };
        let met = ratio.median >= goal;
        missed += usize::from(!met);
        println!(
            "  {} {own} at {size} bytes: {:.2} ({:.2} to {:.2}) times as fast as {peer}, goal {goal}",
            if met { "met   " } else { "missed" },
            ratio.median,
            ratio.least,
            ratio.greatest
        );
    }
    for (own, size, goal) in times {
        let Some(time) = report.spread(own, size) else {
            continue;
        };
        let met = time.median <= goal;
        missed += usize::from(!met);
        println!(
            "  {} {own} at {size} bytes: {:.1} ({:.1} to {:.1}) µs, goal {:.0}",
            if met { "met   " } else { "missed" },
            time.median * 1e6,
            time.least * 1e6,
            time.greatest * 1e6,
            goal * 1e6
        );
    }
    missed
}
