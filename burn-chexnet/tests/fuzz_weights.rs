//! Damaged and hostile files of weights: no reader may panic or allocate without bound; it refuses a file
//! in one line that names it, or loads it whole.
//!
//! `CHEXNET_FUZZ_CASES` is the number of cases (default: 10,000), numbered from `CHEXNET_FUZZ_FIRST`
//! (default: 0). A case depends on its number alone, so that one which fails can be run again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Cursor, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use burn::tensor::Device;
use burn_chexnet::model::{DenseNet, DenseNetConfig};
use burn_chexnet::weights::{Checkpoint, Head, Metadata, Reference};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

/// What reading one file may take: the files have 20 to 50 kB, and a pickle may ask for 256 MiB.
const MOST_MEMORY: usize = 512 << 20;

/// The memory in use, and the most since it was last asked.
struct Counted;

static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it came; the counters are beside it.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(used, Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`, and `pointer` is of `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect(name))
}

/// The committed checkpoints: file names and contents.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/pytorch/styles");
    let mut seeds: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            (name.to_string(), std::fs::read(&path).unwrap())
        })
        .collect();
    seeds.sort();
    assert!(seeds.len() > 10);
    seeds
}

/// Opcodes of pickles, and what else their readers look for.
const WORDS: [&[u8]; 22] = [
    b"\x80\x02",
    b"}",
    b"]",
    b")",
    b"(",
    b"t",
    b"R",
    b"b",
    b"u",
    b"s",
    b"Q",
    b".",
    b"2",
    b"0",
    b"h\x00",
    b"j\xff\xff\xff\xff",
    b"\x8a\xff",
    b"cos\nsystem\n",
    b"cbuiltins\neval\n",
    b"ctorch._utils\n_rebuild_tensor_v2\n",
    b"state_dict",
    b"\"data_offsets\":[0,18446744073709551615]",
];

/// One damage to bytes.
fn damage(mut bytes: Vec<u8>, other: &[u8], random: &mut ChaCha8Rng) -> Vec<u8> {
    let [mut start, mut end] = [(); 2].map(|()| random.random_range(0..=bytes.len()));
    // Structure is at both ends: half of the damages are done there.
    if random.random_bool(0.5) {
        start = random.random_range(0..=bytes.len().min(600));
        end = random.random_range(0..=bytes.len().min(600));
    }
    if start > end {
        (start, end) = (end, start);
    }
    match random.random_range(0..9) {
        0 if start < bytes.len() => bytes[start] ^= 1 << random.random_range(0..8),
        1 => bytes.truncate(end),
        2 => drop(bytes.drain(start..end)),
        3 => {
            let copy = bytes[start..end.min(start + 5_000)].to_vec();
            bytes.splice(end..end, copy);
        }
        4 => {
            let word = WORDS.choose(random).unwrap();
            bytes.splice(start..start, word.iter().copied());
        }
        5 => {
            let word = WORDS.choose(random).unwrap();
            let end = bytes.len().min(start + word.len());
            bytes.splice(start..end, word.iter().copied());
        }
        // Lengths, counts and offsets.
        6 => {
            let width = *[1, 2, 4, 8].choose(random).unwrap();
            let value = *[
                0,
                1,
                0x7f,
                0xff,
                0xffff,
                0x7fff_ffff,
                u64::MAX >> 1,
                u64::MAX,
            ]
            .choose(random)
            .unwrap();
            let end = bytes.len().min(start + width);
            bytes.splice(start..end, value.to_le_bytes()[..width].iter().copied());
        }
        7 => {
            let from = random.random_range(0..other.len());
            let part = &other[from..other.len().min(from + 2_000)];
            bytes.splice(start..end, part.iter().copied());
        }
        _ => {
            // Digits of shapes, offsets and protocol 0.
            let digits = bytes.iter().position(u8::is_ascii_digit);
            if let Some(at) = digits.filter(|at| at + 1 < bytes.len()) {
                bytes[at] = b'0' + random.random_range(0..10u8);
            }
        }
    }
    bytes
}

/// The zip archive `bytes` with damage to the pickle in it, but sound sums.
fn damaged_pickle(bytes: &[u8], other: &[u8], random: &mut ChaCha8Rng) -> Option<Vec<u8>> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).ok()?;
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let deflated = random.random_bool(0.5);
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).ok()?;
        let name = entry.name().ok()?.to_string();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).ok()?;
        if name.ends_with("data.pkl") {
            for _ in 0..random.random_range(1..=3) {
                content = damage(content, other, random);
            }
        }
        let method = match deflated {
            true => zip::CompressionMethod::Deflated,
            false => zip::CompressionMethod::Stored,
        };
        let options = SimpleFileOptions::default().compression_method(method);
        writer.start_file(name, options).ok()?;
        writer.write_all(&content).ok()?;
    }
    Some(writer.finish().ok()?.into_inner())
}

fn damaged(seeds: &[(String, Vec<u8>)], random: &mut ChaCha8Rng) -> (String, Vec<u8>) {
    let (name, seed) = seeds.choose(random).unwrap();
    let (_, other) = seeds.choose(random).unwrap();
    let inside = random.random_bool(0.5);
    let bytes = match inside
        .then(|| damaged_pickle(seed, other, random))
        .flatten()
    {
        Some(bytes) => bytes,
        None => {
            let times = random.random_range(1..=3);
            (0..times).fold(seed.clone(), |bytes, _| damage(bytes, other, random))
        }
    };
    (name.clone(), bytes)
}

fn networks() -> Vec<DenseNet> {
    let tiny = DenseNetConfig {
        growth_rate: 4,
        blocks: vec![2, 2],
        initial_channels: 8,
        bottleneck: 2,
        ..DenseNetConfig::densenet121()
    };
    [(3, 14), (3, 1000), (1, 18)]
        .map(|(channels, outputs)| {
            let config = tiny.clone().with_in_channels(channels);
            config.with_outputs(outputs).init(&Device::flex())
        })
        .to_vec()
}

/// Whether the file is accepted by a network; its error has to be one line with its name.
fn read(path: &Path, networks: &mut [DenseNet]) -> bool {
    let checked = |message: String| {
        assert!(!message.contains(['\r', '\n']), "{message:?}");
        assert!(message.contains(path.to_str().unwrap()), "{message:?}");
        false
    };
    // Most are neither, which has to be said likewise.
    let _ = Metadata::read(path).map_err(|error| checked(error.to_string()));
    let _ = Reference::open(path).map_err(|error| checked(error.to_string()));
    let checkpoint = match Checkpoint::open(path) {
        Ok(checkpoint) => checkpoint,
        Err(error) => return checked(error.to_string()),
    };
    let network = match (checkpoint.in_channels(), checkpoint.outputs()) {
        (Some(1), _) => &mut networks[2],
        (_, Some(1000)) => &mut networks[1],
        _ => &mut networks[0],
    };
    match checkpoint.load_into(network, &Head::Whole) {
        Ok(_) => true,
        Err(error) => checked(error.to_string()),
    }
}

/// Small files that ask for gigabytes.
fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let archive = |pickle: &[u8], storage: usize| {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default();
        for (name, content) in [("a/data.pkl", pickle), ("a/data/0", &vec![0; storage])] {
            writer.start_file(name, options).unwrap();
            writer.write_all(content).unwrap();
        }
        writer.finish().unwrap().into_inner()
    };
    let class = [b"\x80\x02c", &vec![b'x'; 1 << 20][..], b"\nb\n"].concat();
    let copies = [&class[..], &b"2".repeat(100_000), b"."].concat();
    let from_memo = [&class[..], b"q\x00", &b"h\x00".repeat(100_000), b"."].concat();
    let mut header = 8u64.to_le_bytes().to_vec();
    header.extend_from_slice(b"{       ");
    vec![
        ("copies.pth", copies.clone()),
        ("memo.pth", from_memo),
        ("copies-in-archive.pth", archive(&copies, 1)),
        ("nothing.pth", archive(&b"N".repeat(100_000_000), 1)),
        ("dictionaries.pth", archive(&b"}".repeat(7_000_000), 1)),
        ("storage.pth", archive(b"\x80\x02}.", 1 << 30)),
        ("header.safetensors", header),
        (
            "length.safetensors",
            [&u64::MAX.to_le_bytes()[..], b"{}"].concat(),
        ),
    ]
}

/// Whether the file at `path` is accepted, and the memory that it takes.
fn measured(path: &Path, networks: &mut [DenseNet]) -> (bool, usize) {
    let before = USED.load(Relaxed);
    MOST.store(before, Relaxed);
    let accepted = read(path, networks);
    (accepted, MOST.load(Relaxed).saturating_sub(before))
}

#[test]
fn damaged_files_are_refused_or_loaded() {
    let memory = Path::new("/dev/shm");
    let folder = match memory.is_dir() {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    };
    let seeds = seeds();
    let mut networks = networks();
    for (name, content) in &seeds {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        read(&path, &mut networks);
        std::fs::remove_file(path).unwrap();
    }
    for (name, content) in bombs() {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let (accepted, used) = measured(&path, &mut networks);
        assert!(!accepted && used < MOST_MEMORY, "{name}: {used} bytes");
        std::fs::remove_file(path).unwrap();
    }
    let first = number("CHEXNET_FUZZ_FIRST", 0);
    let cases = number("CHEXNET_FUZZ_CASES", 10_000);
    let (mut accepted, mut refused, mut most) = (0u64, 0u64, 0);
    for case in first..first + cases {
        let mut random = ChaCha8Rng::seed_from_u64(case);
        let (name, bytes) = damaged(&seeds, &mut random);
        let path: PathBuf = folder.path().join(&name);
        std::fs::write(&path, &bytes).unwrap();
        let outcome = catch_unwind(AssertUnwindSafe(|| measured(&path, &mut networks)));
        std::fs::remove_file(&path).unwrap();
        let again = format!(
            "case {case} ({name}): run it again with CHEXNET_FUZZ_FIRST={case} CHEXNET_FUZZ_CASES=1"
        );
        match outcome {
            Ok((whole, used)) => {
                assert!(used < MOST_MEMORY, "{used} bytes of memory in {again}");
                most = most.max(used);
                if whole { accepted += 1 } else { refused += 1 }
            }
            Err(panic) => {
                eprintln!("{again}");
                resume_unwind(panic);
            }
        }
    }
    println!(
        "{cases} damaged files: {accepted} loaded, {refused} refused; {:.1} MiB of memory at most",
        most as f64 / f64::from(1 << 20)
    );
    if cases >= 1_000 {
        // A fuzzer that only hits checksums, or never hits anything, would find nothing.
        assert!(accepted * 50 > cases, "{accepted} accepted");
        assert!(refused * 50 > cases, "{refused} refused");
    }
}
