//! How busy the host is.

use super::fact::Fact;
use super::root::Root;

/// Processes of this host, in all its containers, that have run or waited for a core, on average over the last minute.
///
/// ```
/// let load = burn_dist_core::host::load_average();
/// println!("{load}");
/// ```
pub fn load_average() -> Fact<f64> {
    gather(&Root::of_process())
}

fn gather(root: &Root) -> Fact<f64> {
    Fact::of_file(root, "/proc/loadavg", |text| {
        let load: f64 = text.split_whitespace().next()?.parse().ok()?;
        load.is_finite().then_some(load)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::root::folder;

    #[test]
    fn the_first_number_is_that_of_a_minute() {
        for (text, expected) in [
            ("1.52 0.30 0.10 2/345 6789\n", "1.52 (/proc/loadavg)"),
            ("busy\n", "unknown (/proc/loadavg)"),
            ("inf\n", "unknown (/proc/loadavg)"),
            ("", "unknown (/proc/loadavg)"),
        ] {
            let (_folder, root) = folder(&[("/proc/loadavg", text)]);
            assert_eq!(gather(&root).to_string(), expected, "{text}");
        }
        assert!(load_average().value.is_some_and(|load| load >= 0.0));
    }
}
