//! How much memory a pickle takes to read, found without building anything of it.
//!
//! A pickle of a kilobyte can ask for gigabytes: it copies what it has made as often as it likes. So
//! it is run here first with sizes in place of objects. Knows no files.

use std::collections::HashMap;

/// What the objects of a pickle and their copies may take in all. Those of DenseNet-201 with the state of
/// an optimiser take 20 MB.
const BUDGET: u64 = 256 << 20;

/// What any object takes beside its text.
const OBJECT: u64 = 128;

/// Why a pickle is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It holds a module with its class, not only tensors.
    Module,
    /// It would take too much memory.
    Large,
    /// It ends early, or is none.
    Damaged,
}

/// The length of the pickle that `bytes` begin with, if it takes a reasonable amount of memory.
pub(super) fn measure(bytes: &[u8]) -> Result<usize, Refusal> {
    let mut run = Run {
        rest: bytes,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        total: 0,
    };
    while run.step()? {}
    Ok(bytes.len() - run.rest.len())
}

struct Run<'a> {
    rest: &'a [u8],
    /// Sizes of the objects on the stack.
    stack: Vec<u64>,
    marks: Vec<usize>,
    memo: HashMap<u32, u64>,
    total: u64,
}

impl<'a> Run<'a> {
    /// Runs one opcode; whether there are more.
    fn step(&mut self) -> Result<bool, Refusal> {
        let [code] = self.array()?;
        match code {
            b'.' => return Ok(false),
            // Protocol and frame.
            0x80 => drop(self.take(1)?),
            0x95 => drop(self.take(8)?),
            // None, booleans, empty containers.
            b'N' | 0x88 | 0x89 | b')' | b']' | b'}' | 0x8f => self.push(0)?,
            // Numbers and text in a line.
            b'I' | b'L' | b'F' | b'V' => {
                let length = self.line()?.len();
                self.push(4 * length as u64)?;
            }
            b'K' => self.skip_and_push(1)?,
            b'M' => self.skip_and_push(2)?,
            b'J' => self.skip_and_push(4)?,
            b'G' => self.skip_and_push(8)?,
            // Long numbers, bytes and text behind their length of one, four or eight bytes.
            0x8a | b'U' | 0x8c | b'C' => self.text(1)?,
            0x8b | b'T' | b'X' | b'B' => self.text(4)?,
            0x8d | 0x8e | 0x96 => self.text(8)?,
            // A class or function by its name.
            b'c' => {
                let length = self.line()?.len() + self.line()?.len();
                self.push(length as u64)?;
            }
            b'(' => self.marks.push(self.stack.len()),
            b'0' if self.marks.last() == Some(&self.stack.len()) => drop(self.marks.pop()),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.pop_to_mark()?),
            b'2' => {
                let size = *self.top()?;
                self.copy(size)?;
                self.stack.push(size);
            }
            b't' | b'l' | b'd' | 0x91 => {
                let size = self.pop_to_mark()?;
                self.join(size)?;
            }
            0x85 => self.pop_and_join(1)?,
            0x86 | b'R' | 0x81 | 0x93 => self.pop_and_join(2)?,
            0x87 | 0x92 => self.pop_and_join(3)?,
            b'Q' => self.pop_and_join(1)?,
            b'P' => {
                let length = self.line()?.len();
                self.push(length as u64)?;
            }
            b'a' => self.pop_into_top(1)?,
            b's' => self.pop_into_top(2)?,
            b'e' | b'u' | 0x90 => {
                let size = self.pop_to_mark()?;
                *self.top()? += size;
            }
            b'b' => {
                self.pop_into_top(1)?;
                // The copy in the memo is made anew.
                let size = *self.top()?;
                self.copy(size)?;
            }
            b'g' => {
                let index = self.line_number()?;
                self.get(index)?;
            }
            b'h' => {
                let [index] = self.array()?;
                self.get(index.into())?;
            }
            b'j' => {
                let index = u32::from_le_bytes(self.array()?);
                self.get(index)?;
            }
            b'p' => {
                let index = self.line_number()?;
                self.put(index)?;
            }
            b'q' => {
                let [index] = self.array()?;
                self.put(index.into())?;
            }
            b'r' => {
                let index = u32::from_le_bytes(self.array()?);
                self.put(index)?;
            }
            0x94 => self.put(self.memo.len() as u32)?,
            _ => return Err(Refusal::Damaged),
        }
        Ok(true)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Refusal> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Refusal::Damaged)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        self.take(N)?.try_into().map_err(|_| Refusal::Damaged)
    }

    fn line(&mut self) -> Result<&'a [u8], Refusal> {
        let end = self.rest.iter().position(|byte| *byte == b'\n');
        let line = self.take(end.ok_or(Refusal::Damaged)? + 1)?;
        Ok(line.strip_suffix(b"\n").unwrap_or(line))
    }

    fn line_number(&mut self) -> Result<u32, Refusal> {
        let text = std::str::from_utf8(self.line()?).map_err(|_| Refusal::Damaged)?;
        text.trim().parse().map_err(|_| Refusal::Damaged)
    }

    /// A text behind its length, which has `width` bytes.
    fn text(&mut self, width: usize) -> Result<(), Refusal> {
        let mut length = [0; 8];
        length[..width].copy_from_slice(self.take(width)?);
        let length = usize::try_from(u64::from_le_bytes(length)).map_err(|_| Refusal::Damaged)?;
        let text = self.take(length)?;
        // What every module of PyTorch has, and no dictionary of tensors.
        if text == b"_modules" {
            return Err(Refusal::Module);
        }
        self.push(length as u64)
    }

    fn skip_and_push(&mut self, count: usize) -> Result<(), Refusal> {
        self.take(count)?;
        self.push(0)
    }

    /// A new object with `text` bytes of text.
    fn push(&mut self, text: u64) -> Result<(), Refusal> {
        let size = OBJECT + text;
        self.copy(size)?;
        self.stack.push(size);
        Ok(())
    }

    /// Memory for an object of `size`.
    fn copy(&mut self, size: u64) -> Result<(), Refusal> {
        self.total = self.total.saturating_add(size);
        match self.total > BUDGET {
            true => Err(Refusal::Large),
            false => Ok(()),
        }
    }

    /// An object of parts that are there already, `size` in all.
    fn join(&mut self, size: u64) -> Result<(), Refusal> {
        self.copy(OBJECT)?;
        self.stack.push(size + OBJECT);
        Ok(())
    }

    fn pop(&mut self) -> Result<u64, Refusal> {
        self.stack.pop().ok_or(Refusal::Damaged)
    }

    fn top(&mut self) -> Result<&mut u64, Refusal> {
        self.stack.last_mut().ok_or(Refusal::Damaged)
    }

    fn pop_to_mark(&mut self) -> Result<u64, Refusal> {
        let mark = self.marks.pop().ok_or(Refusal::Damaged)?;
        match mark <= self.stack.len() {
            true => Ok(self.stack.drain(mark..).sum()),
            false => Err(Refusal::Damaged),
        }
    }

    fn pop_and_join(&mut self, count: usize) -> Result<(), Refusal> {
        let mut size = 0;
        for _ in 0..count {
            size += self.pop()?;
        }
        self.join(size)
    }

    fn pop_into_top(&mut self, count: usize) -> Result<(), Refusal> {
        let mut size = 0;
        for _ in 0..count {
            size += self.pop()?;
        }
        *self.top()? += size;
        Ok(())
    }

    fn get(&mut self, index: u32) -> Result<(), Refusal> {
        let size = *self.memo.get(&index).ok_or(Refusal::Damaged)?;
        self.copy(size)?;
        self.stack.push(size);
        Ok(())
    }

    fn put(&mut self, index: u32) -> Result<(), Refusal> {
        let size = *self.top()?;
        self.copy(size)?;
        self.memo.insert(index, size);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_that_of_the_pickle() {
        // pickle.dumps({"a": (1, 2.0, None)}, protocol) of Python 3.11, and what follows.
        let pickles: [&[u8]; 3] = [
            b"(dp0\nVa\np1\n(I1\nF2.0\nNtp2\ns.",
            b"\x80\x02}q\x00X\x01\x00\x00\x00aq\x01K\x01G@\x00\x00\x00\x00\x00\x00\x00N\x87q\x02s.",
            b"\x80\x04\x95\x17\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01a\x94K\x01G@\x00\x00\x00\x00\x00\x00\x00N\x87\x94s.",
        ];
        for pickle in pickles {
            assert_eq!(measure(pickle), Ok(pickle.len()));
            assert_eq!(measure(&[pickle, b"more"].concat()), Ok(pickle.len()));
            for end in 0..pickle.len() {
                assert_eq!(measure(&pickle[..end]), Err(Refusal::Damaged));
            }
        }
    }

    #[test]
    fn copies_are_paid_for() {
        let name = vec![b'x'; 1 << 20];
        let many = |opcode: &[u8], count: usize| opcode.repeat(count);
        for bomb in [
            // A class with a long name, doubled and doubled.
            [b"c", &name[..], b"\nb\n", &many(b"2", 4_000), b"."].concat(),
            // The same from the memo.
            [b"c", &name[..], b"\nb\nq\x00", &many(b"h\x00", 4_000), b"."].concat(),
            many(b"N", 50_000_000),
            many(b"}", 50_000_000),
            // A list of the list before, twice, thirty times.
            [b"]q\x00", &many(b"(h\x00h\x00lq\x00", 30)[..], b"."].concat(),
        ] {
            assert_eq!(measure(&bomb), Err(Refusal::Large));
        }
    }

    #[test]
    fn modules_are_told_from_tensors() {
        assert_eq!(
            measure(b"\x80\x02}X\x08\x00\x00\x00_modules"),
            Err(Refusal::Module)
        );
    }
}
