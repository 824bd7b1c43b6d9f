//! Lines from bytes as they come, in bounded memory.
//!
//! A carriage return ends a line too: each state of a progress bar is one.

/// The most bytes that a line of a rank may have; a longer one becomes several.
pub(super) const LONGEST: usize = 64 * 1024;

/// Bytes that have come and are no whole line yet.
pub(super) struct Lines {
    pending: Vec<u8>,
    /// How many of them are known to hold no end.
    searched: usize,
    longest: usize,
}

impl Lines {
    /// Splits lines of more than `longest` bytes into lines of so many.
    pub(super) fn new(longest: usize) -> Self {
        Self {
            pending: Vec::new(),
            searched: 0,
            longest,
        }
    }

    /// Calls `each` with every line that `bytes` complete, its end included.
    pub(super) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        self.pending.extend_from_slice(bytes);
        let (mut start, mut searched) = (0, self.searched);
        loop {
            let rest = &self.pending[start..];
            let window = &rest[..rest.len().min(self.longest)];
            let end = window[searched..]
                .iter()
                .position(|byte| matches!(byte, b'\n' | b'\r'));
            let length = match end.map(|end| searched + end) {
                Some(end) if rest[end] == b'\n' => end + 1,
                Some(end) => match rest.get(end + 1) {
                    Some(b'\n') => end + 2,
                    Some(_) => end + 1,
                    // The line feed of the same end may be still to come.
                    None => {
                        searched = end;
                        break;
                    }
                },
                None if window.len() == self.longest => self.longest,
                None => {
                    searched = window.len();
                    break;
                }
            };
            each(&rest[..length]);
            start += length;
            searched = 0;
        }
        self.pending.drain(..start);
        self.searched = searched;
    }

    /// Calls `each` with what is left when no more bytes come.
    pub(super) fn finish(&mut self, each: impl FnOnce(&[u8])) {
        if !self.pending.is_empty() {
            each(&self.pending);
        }
        self.pending.clear();
        self.searched = 0;
    }
}

/// `line` without its end.
pub(super) fn text(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Whether a line may be one of a back-trace, as Rust prints it behind `stack backtrace:`.
pub(super) fn is_of_backtrace(line: &str) -> bool {
    let start = line.trim_start();
    let is_frame = start
        .split_once(": ")
        .is_some_and(|(number, _)| start != line && number.bytes().all(|b| b.is_ascii_digit()));
    let is_place = start != line && start.starts_with("at ");
    let is_note = line.starts_with("note: Some details are omitted, run with `RUST_BACKTRACE");
    is_frame || is_place || is_note
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(parts: &[&[u8]], longest: usize) -> Vec<Vec<u8>> {
        let (mut lines, mut found) = (Lines::new(longest), Vec::new());
        for part in parts {
            lines.push(part, |line| found.push(line.to_vec()));
        }
        lines.finish(|line| found.push(line.to_vec()));
        found
    }

    #[test]
    fn lines_end_by_line_feed_carriage_return_or_both() {
        assert_eq!(
            lines(&[b"a\nb\r", b"\n", b"\r 1%\r 2%", b"\n\nc"], 10),
            [
                &b"a\n"[..],
                b"b\r\n",
                b"\r",
                b" 1%\r",
                b" 2%\n",
                b"\n",
                b"c"
            ]
        );
    }

    #[test]
    fn a_long_line_is_split() {
        assert_eq!(
            lines(&[b"12345", b"678\n123\n"], 3),
            [&b"123"[..], b"456", b"78\n", b"123", b"\n"]
        );
    }

    proptest! {
        /// Nothing is lost, no line is too long, and where bytes are parted changes nothing.
        #[test]
        fn however_bytes_come_the_lines_are_the_same(
            bytes in proptest::collection::vec(proptest::sample::select(b"ab\r\n".to_vec()), 0..60),
            parts in 1usize..9,
            longest in 1usize..9,
        ) {
            let whole = lines(&[&bytes], longest);
            prop_assert_eq!(whole.concat(), bytes.clone());
            prop_assert!(whole.iter().all(|line| line.len() <= longest + 1));
            let parts: Vec<&[u8]> = bytes.chunks(parts).collect();
            prop_assert_eq!(lines(&parts, longest), whole);
        }
    }

    #[test]
    fn lines_of_a_backtrace_are_told_from_others() {
        for line in [
            "   0: __rustc::rust_begin_unwind",
            "  10: core::ops::function::FnOnce::call_once",
            "             at /rustc/59807616e1fa/library/std/src/panicking.rs:689:5",
            "note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.",
        ] {
            assert!(is_of_backtrace(line), "{line}");
        }
        for line in [
            "thread 'main' panicked at src/main.rs:3:5:",
            "index out of bounds: the len is 3 but the index is 7",
            "error: 7: no such file",
            "7: it is",
            "  x: 3",
            "at last",
        ] {
            assert!(!is_of_backtrace(line), "{line}");
        }
    }
}
