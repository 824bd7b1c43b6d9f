//! Bytes, thousandths of a core, and limits of them.

use std::fmt::{Display, Formatter};

/// A number of bytes, shown in the largest unit of 1,024 that it fills.
///
/// ```
/// use burn_dist_core::host::Bytes;
///
/// assert_eq!(Bytes(8 << 20).to_string(), "8 MiB");
/// assert_eq!(Bytes(1_600).to_string(), "1.5 KiB");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let power = self.0.checked_ilog2().unwrap_or(0) / 10;
        let unit = 1u64 << (10 * power);
        // Rounded down: nobody has more than is said.
        let (whole, tenth) = (self.0 / unit, self.0 % unit * 10 / unit);
        match tenth {
            0 => write!(f, "{whole} {}", UNITS[power as usize]),
            _ => write!(f, "{whole}.{tenth} {}", UNITS[power as usize]),
        }
    }
}

/// Time on cores in thousandths of one, as Kubernetes counts it.
///
/// ```
/// use burn_dist_core::host::Millicores;
///
/// assert_eq!(Millicores(1_500).to_string(), "1.5 cores");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millicores(pub u64);

impl Display for Millicores {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let (whole, thousandths) = (self.0 / 1000, self.0 % 1000);
        match (whole, thousandths) {
            (1, 0) => f.write_str("1 core"),
            (_, 0) => write!(f, "{whole} cores"),
            _ => {
                let digits = format!("{thousandths:03}");
                write!(f, "{whole}.{} cores", digits.trim_end_matches('0'))
            }
        }
    }
}

/// How much is allowed, the tightest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit<T> {
    /// So much.
    AtMost(T),
    /// As much as there is.
    Unlimited,
}

impl<T: PartialOrd> Limit<T> {
    /// Whether `amount` is allowed.
    pub fn allows(&self, amount: T) -> bool {
        match self {
            Self::AtMost(limit) => amount <= *limit,
            Self::Unlimited => true,
        }
    }
}

impl<T: Display> Display for Limit<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtMost(limit) => limit.fmt(f),
            Self::Unlimited => f.write_str("unlimited"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_their_unit() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (65_536, "64 KiB"),
            (8 << 20, "8 MiB"),
            ((1 << 30) - 1, "1023.9 MiB"),
            (3 << 29, "1.5 GiB"),
            (u64::MAX, "15.9 EiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), expected);
        }
    }

    #[test]
    fn cores_are_shown_to_their_thousandth() {
        for (millicores, expected) in [
            (0, "0 cores"),
            (125, "0.125 cores"),
            (1000, "1 core"),
            (2050, "2.05 cores"),
            (64_000, "64 cores"),
        ] {
            assert_eq!(Millicores(millicores).to_string(), expected);
        }
    }

    #[test]
    fn a_limit_allows_what_it_holds() {
        assert!(Limit::AtMost(3).allows(3) && !Limit::AtMost(3).allows(4));
        assert!(Limit::Unlimited.allows(u64::MAX));
        assert_eq!(Limit::AtMost(Bytes(1024)).to_string(), "1 KiB");
        assert_eq!(Limit::<Bytes>::Unlimited.to_string(), "unlimited");
    }
}
