//! Slurm's lists of hosts and of tasks: `gnode[10,20,25-27],login1` and `2(x3),1`.
//!
//! Knows no environment.

/// Hosts beyond any machine; a list that names more is a mistake.
const MOST_HOSTS: usize = 1 << 20;

/// The hosts of a list, in its order; `None` if it is none.
///
/// A range keeps its zeros: `n[08-11]` is `n08`, `n09`, `n10`, `n11`. A name may have several brackets,
/// of which the last counts fastest.
pub(super) fn hosts(list: &str) -> Option<Vec<String>> {
    let mut hosts = Vec::new();
    for name in outside_of_brackets(list)? {
        let mut names = vec![String::new()];
        let mut rest = name;
        while let Some((before, bracket)) = rest.split_once('[') {
            let (inside, behind) = bracket.split_once(']')?;
            let numbers = numbers(inside)?;
            if names.len().checked_mul(numbers.len())? > MOST_HOSTS {
                return None;
            }
            names = names
                .iter()
                .flat_map(|name| {
                    numbers
                        .iter()
                        .map(move |number| format!("{name}{before}{number}"))
                })
                .collect();
            rest = behind;
        }
        if name.is_empty() || rest.contains(']') || hosts.len() + names.len() > MOST_HOSTS {
            return None;
        }
        hosts.extend(names.iter().map(|name| format!("{name}{rest}")));
    }
    (!hosts.is_empty()).then_some(hosts)
}

/// The tasks of every host: `2(x3),1` is 2, 2, 2, 1. `None` if it is no such list.
pub(super) fn tasks(list: &str) -> Option<Vec<usize>> {
    let mut tasks = Vec::new();
    for part in list.split(',') {
        let (count, times) = match part.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
            None => (part, 1),
        };
        if times > MOST_HOSTS || tasks.len() + times > MOST_HOSTS {
            return None;
        }
        tasks.extend(std::iter::repeat_n(count.parse::<usize>().ok()?, times));
    }
    Some(tasks)
}

/// The parts between the commas that are in no bracket.
fn outside_of_brackets(list: &str) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, character) in list.char_indices() {
        match character {
            '[' if !inside => inside = true,
            ']' if inside => inside = false,
            '[' | ']' => return None,
            ',' if !inside => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    (!inside).then_some(parts)
}

/// `10,20,25-27`, each with its zeros.
fn numbers(inside: &str) -> Option<Vec<String>> {
    let mut numbers = Vec::new();
    let digits = |text: &str| {
        let all = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        all.then(|| text.parse::<usize>().ok()).flatten()
    };
    for part in inside.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (digits(first)?, digits(last)?);
        if from > to || to - from >= MOST_HOSTS || numbers.len() + (to - from) >= MOST_HOSTS {
            return None;
        }
        let width = first.len();
        numbers.extend((from..=to).map(|number| format!("{number:0width$}")));
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    /// `scontrol show hostnames LIST` of Slurm 22.05.
    #[test]
    fn lists_are_expanded_as_slurm_does() {
        for (list, expected) in [
            ("node1", "node1"),
            (
                "gnode[10,20,25-27]",
                "gnode10 gnode20 gnode25 gnode26 gnode27",
            ),
            ("n[08-11]", "n08 n09 n10 n11"),
            ("n[8-11]", "n8 n9 n10 n11"),
            ("a1,b[1-2],c", "a1 b1 b2 c"),
            ("r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02"),
            ("rack[0-1]-gpu3.local", "rack0-gpu3.local rack1-gpu3.local"),
            ("ip-10-0-0-[7,9]", "ip-10-0-0-7 ip-10-0-0-9"),
        ] {
            assert_eq!(hosts(list).unwrap().join(" "), expected, "{list}");
        }
    }

    #[test]
    fn what_is_no_list_of_hosts_is_none() {
        for list in [
            "",
            ",",
            "a,",
            "n[",
            "n]",
            "n[]",
            "n[1-]",
            "n[2-1]",
            "n[a-b]",
            "n[1]]",
            "n[[1]]",
            "n[-1]",
            "n[1-99999999999999999999]",
            "n[0-9999999]",
            "a[0-9999]b[0-9999]",
        ] {
            assert_eq!(hosts(list), None, "{list}");
        }
    }

    #[test]
    fn tasks_are_expanded() {
        assert_eq!(tasks("4"), Some(vec![4]));
        assert_eq!(tasks("2(x3),1"), Some(vec![2, 2, 2, 1]));
        for list in ["", "x", "2(x", "2(x)", "2(x9999999999)", "-1", "2x3"] {
            assert_eq!(tasks(list), None, "{list}");
        }
    }

    proptest! {
        /// Whatever it is given, it answers, and no answer holds a bracket.
        #[test]
        fn anything_is_expanded_or_none(list in r"[a-c0-3,\[\]\-]{0,16}") {
            for host in hosts(&list).unwrap_or_default() {
                prop_assert!(!host.contains(['[', ']', ',']), "{list}: {host}");
            }
        }

        /// Bracketed by hand, expanded by the code.
        #[test]
        fn ranges_hold_their_numbers(from in 0usize..200, count in 1usize..30, width in 1usize..5) {
            let last = from + count - 1;
            let list = format!("n[{from:0width$}-{last:0width$}]");
            let expected: Vec<String> = (from..=last).map(|n| format!("n{n:0width$}")).collect();
            prop_assert_eq!(hosts(&list).unwrap(), expected);
        }
    }
}
