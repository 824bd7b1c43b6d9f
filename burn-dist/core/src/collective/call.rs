//! What a rank calls, and how messages say it.
//!
//! Every message begins with a [`Header`], so that ranks which call different things learn it from the first message
//! instead of waiting for each other. Knows no transport.

use std::fmt::{Display, Formatter};

use serde::{Deserialize, Serialize};

use super::choice::Algorithm;
use super::element::ElementType;
use super::reduction::Reduction;

/// What ranks do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// All ranks get the reduction of what all have.
    AllReduce,
    /// Each rank gets its part of the reduction.
    ReduceScatter,
    /// All ranks get what each has.
    AllGather,
    /// All ranks get what one has.
    Broadcast,
    /// One rank gets the reduction.
    Reduce,
    /// No rank goes on before all have come.
    Barrier,
    /// One rank sends to another, which sends back: to measure the way between them.
    RoundTrip,
    /// All ranks get how many elements each is going to give.
    GatherCounts,
}

impl Operation {
    const ALL: [Self; 8] = [
        Self::AllReduce,
        Self::ReduceScatter,
        Self::AllGather,
        Self::Broadcast,
        Self::Reduce,
        Self::Barrier,
        Self::RoundTrip,
        Self::GatherCounts,
    ];

    /// The operation whose messages it sends.
    pub(crate) fn in_messages(self) -> Self {
        match self {
            Self::GatherCounts => Self::AllGather,
            other => other,
        }
    }
}

impl Display for Operation {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::AllReduce => "all_reduce",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllGather => "all_gather",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Barrier => "barrier",
            Self::RoundTrip => "round_trip",
            Self::GatherCounts => "gather_counts",
        })
    }
}

/// A call: what has to be the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Call {
    /// What is done.
    pub operation: Operation,
    /// How numbers become one, where they do.
    pub reduction: Option<Reduction>,
    /// What the numbers are.
    pub element: ElementType,
    /// How many there are, on all ranks together where ranks have different ones.
    pub count: u64,
    /// The rank that has or gets them, where one does.
    pub root: Option<u16>,
}

impl Call {
    /// Operation, element, reduction and root, as messages have them.
    pub(crate) fn numbers(&self) -> [u16; 4] {
        let reduction = self
            .reduction
            .map(|reduction| index_of(&Reduction::ALL, &reduction));
        [
            index_of(&Operation::ALL, &self.operation),
            index_of(&ElementType::ALL, &self.element),
            reduction.unwrap_or(NONE),
            self.root.unwrap_or(NONE),
        ]
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.operation)?;
        if self.operation == Operation::Barrier {
            return Ok(());
        }
        write!(f, "({} {}", self.count, self.element)?;
        if let Some(reduction) = self.reduction {
            write!(f, ", {reduction}")?;
        }
        if let Some(root) = self.root {
            write!(f, ", root {root}")?;
        }
        f.write_str(")")
    }
}

/// The head of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// What the sender has called.
    pub call: Call,
    /// How it goes about it.
    pub algorithm: Algorithm,
    /// The elements do not follow, but the place where they are lent.
    pub lent: bool,
    /// The ranks among which it is called.
    pub group: u32,
    /// Calls of the group before it.
    pub sequence: u64,
    /// Bytes of elements, without those that fill up a multiple of 8.
    pub bytes: u32,
}

/// Marks a header; another version of the protocol has another.
const MAGIC: u16 = 0xBD01;
/// In place of a reduction or a root that a call has not.
const NONE: u16 = u16::MAX;

impl Header {
    /// Bytes of a header: a multiple of 8, as what follows it, so that elements stay aligned.
    pub const SIZE: usize = 40;

    pub fn encode(&self) -> [u8; Self::SIZE] {
        let [operation, element, reduction, root] = self.call.numbers();
        let mut bytes = [0; Self::SIZE];
        bytes[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[2] = operation as u8;
        bytes[3] = element as u8;
        bytes[4..6].copy_from_slice(&reduction.to_le_bytes());
        bytes[6..8].copy_from_slice(&root.to_le_bytes());
        bytes[8] = index_of(&Algorithm::ALL, &self.algorithm) as u8;
        bytes[9] = self.lent.into();
        bytes[12..16].copy_from_slice(&self.group.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.call.count.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.bytes.to_le_bytes());
        bytes
    }

    /// The header in `bytes`; `None` if they are none.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let two = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let four = |at: usize| bytes[at..at + 4].try_into().map(u32::from_le_bytes).ok();
        let eight = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        let filled = [10..12, 36..40].into_iter().flatten();
        if two(0) != MAGIC || filled.map(|at| bytes[at]).any(|byte| byte != 0) {
            return None;
        }
        let reduction = match two(4) {
            NONE => None,
            index => Some(*Reduction::ALL.get(usize::from(index))?),
        };
        Some(Self {
            call: Call {
                operation: *Operation::ALL.get(usize::from(bytes[2]))?,
                element: *ElementType::ALL.get(usize::from(bytes[3]))?,
                reduction,
                root: Some(two(6)).filter(|root| *root != NONE),
                count: eight(24)?,
            },
            algorithm: *Algorithm::ALL.get(usize::from(bytes[8]))?,
            lent: match bytes[9] {
                0 => false,
                1 => true,
                _ => return None,
            },
            group: four(12)?,
            sequence: eight(16)?,
            bytes: four(32)?,
        })
    }
}

fn index_of<T: PartialEq>(all: &[T], one: &T) -> u16 {
    all.iter()
        .position(|other| other == one)
        .unwrap_or_default() as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fuzzing::{self, Random};

    fn headers() -> impl Strategy<Value = Header> {
        let call = (
            proptest::sample::select(Operation::ALL.to_vec()),
            proptest::option::of(proptest::sample::select(Reduction::ALL.to_vec())),
            proptest::sample::select(ElementType::ALL.to_vec()),
            any::<u64>(),
            proptest::option::of(0..NONE),
        );
        let algorithm = proptest::sample::select(Algorithm::ALL.to_vec());
        let numbers = (any::<bool>(), any::<u32>(), any::<u64>(), any::<u32>());
        (call, algorithm, numbers).prop_map(|(call, algorithm, numbers)| {
            let (lent, group, sequence, bytes) = numbers;
            let (operation, reduction, element, count, root) = call;
            let call = Call {
                operation,
                reduction,
                element,
                count,
                root,
            };
            Header {
                call,
                algorithm,
                lent,
                group,
                sequence,
                bytes,
            }
        })
    }

    proptest! {
        #[test]
        fn headers_come_back(header in headers()) {
            prop_assert_eq!(Header::decode(&header.encode()), Some(header));
        }

        /// What is read is what was written: no bit of a header is ignored.
        #[test]
        fn bytes_are_a_header_or_none(
            header in headers(),
            damage in proptest::collection::vec((0..Header::SIZE, any::<u8>()), 0..4),
        ) {
            let mut bytes = header.encode();
            for (at, byte) in damage {
                bytes[at] = byte;
            }
            if let Some(read) = Header::decode(&bytes) {
                prop_assert_eq!(read.encode(), bytes);
            }
        }
    }

    #[test]
    fn damaged_headers_are_refused_or_read() {
        let header = Header {
            call: Call {
                operation: Operation::Reduce,
                reduction: Some(Reduction::Max),
                element: ElementType::F16,
                count: 1 << 40,
                root: Some(65_534),
            },
            algorithm: Algorithm::Tree,
            lent: true,
            group: 0xABCD_EF01,
            sequence: 812,
            bytes: 512 << 10,
        };
        let (mut accepted, mut refused) = (0, 0);
        for case in 0..fuzzing::cases() {
            let bytes = Random::new(case).damage(&header.encode());
            match bytes
                .first_chunk()
                .map(|bytes| (bytes, Header::decode(bytes)))
            {
                Some((bytes, Some(read))) => {
                    accepted += 1;
                    assert_eq!(read.encode(), *bytes);
                }
                _ => refused += 1,
            }
        }
        assert!(accepted > 50 && refused > 50, "{accepted}, {refused}");
    }

    #[test]
    fn calls_say_what_they_are() {
        let mut call = Call {
            operation: Operation::AllReduce,
            reduction: Some(Reduction::Mean),
            element: ElementType::BF16,
            count: 6_553_600,
            root: None,
        };
        assert_eq!(call.to_string(), "all_reduce(6553600 bf16, mean)");
        call.operation = Operation::Broadcast;
        (call.reduction, call.root) = (None, Some(3));
        assert_eq!(call.to_string(), "broadcast(6553600 bf16, root 3)");
        call.operation = Operation::Barrier;
        assert_eq!(call.to_string(), "barrier");
    }
}
