//! Damages to small tables: those that people and programs do to rows and cells, and plain bytes.

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

/// The rows of a table, each with its cells as they stand between the commas.
type Cells = Vec<Vec<Vec<u8>>>;

/// A copy of `text` with up to three damages.
pub fn mutate(text: &[u8], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut text = text.to_vec();
    for _ in 0..random.random_range(1..=3) {
        text = if random.random_bool(0.6) {
            let lines = text.split(|byte| *byte == b'\n');
            let mut rows: Cells = lines
                .map(|line| {
                    line.split(|byte| *byte == b',')
                        .map(<[u8]>::to_vec)
                        .collect()
                })
                .collect();
            damage_cells(&mut rows, random);
            let lines: Vec<Vec<u8>> = rows.iter().map(|cells| cells.join(&b',')).collect();
            lines.join(&b'\n')
        } else {
            damage_bytes(text, random)
        };
    }
    text
}

/// What a cell may hold that no one expects there.
fn odd_cell(random: &mut ChaCha8Rng) -> Vec<u8> {
    const CELLS: [&[u8]; 50] = [
        b"",
        b" ",
        b"\"",
        b"\"\"",
        b"\"a,b\"",
        b"\"a\"\"b\"",
        b"\"a\nb\"",
        b"a\rb",
        b"\0",
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        "\u{feff}".as_bytes(),
        "\u{2028}".as_bytes(),
        "\u{a0}".as_bytes(),
        "\u{202e}ä€😀".as_bytes(),
        b"0",
        b"1",
        b"-1",
        b"1.0",
        b"-1.0",
        b"-0",
        b"2",
        b"1e0",
        b"NaN",
        b"inf",
        b"-inf",
        b"3.5e38",
        b"1e-46",
        b"1e999999",
        b"-1e9",
        b"0x10",
        b"99999999999999999999999999",
        b"65536",
        b"058Y",
        b"Y",
        b"999D",
        b"Mass|",
        b"|",
        b"Mass|Mass",
        b"No Finding",
        b"No Finding|Mass",
        b"train",
        b"Unknown",
        b"LL",
        b"patient",
        b"patient1/",
        b"../../../etc/passwd",
        b"/",
        b"=1+1",
    ];
    match random.random_range(0..100) {
        0 => vec![b'x'; 20_000],
        1 => "1".repeat(5_000).into_bytes(),
        2 => b"a|".repeat(2_000),
        _ => CELLS
            .choose(random)
            .map_or(Vec::new(), |cell| cell.to_vec()),
    }
}

/// One damage to rows, columns or cells. `rows` has a row, and every row a cell.
fn damage_cells(rows: &mut Cells, random: &mut ChaCha8Rng) {
    let [row, other] = [(); 2].map(|()| random.random_range(0..rows.len()));
    let columns = rows[row].len();
    let [column, second] = [(); 2].map(|()| random.random_range(0..columns));
    match random.random_range(0..12) {
        0 => rows.swap(row, other),
        1 => rows.insert(other, rows[row].clone()),
        2 if rows.len() > 1 => drop(rows.remove(row)),
        3 => rows[row].swap(column, second),
        4 => {
            let cell = rows[row][column].clone();
            rows[row].insert(second, cell);
        }
        5 if columns > 1 => drop(rows[row].remove(column)),
        6 => {
            let cell = rows[row][column].clone();
            *cell_of(rows, other, second) = cell;
        }
        7 => {
            let cell = &mut rows[row][column];
            *cell = [b"\"", &**cell, b"\""].concat();
        }
        // Whole columns.
        8 => rows
            .iter_mut()
            .filter(|cells| cells.len() > column.max(second))
            .for_each(|cells| cells.swap(column, second)),
        9 => rows
            .iter_mut()
            .filter(|cells| cells.len() > column)
            .for_each(|cells| cells.insert(column, cells[column].clone())),
        10 => rows
            .iter_mut()
            .filter(|cells| cells.len() > column.max(1))
            .for_each(|cells| drop(cells.remove(column))),
        _ => rows[row][column] = odd_cell(random),
    }
}

/// A cell of a row; its last where the row is shorter.
fn cell_of(rows: &mut Cells, row: usize, column: usize) -> &mut Vec<u8> {
    let last = rows[row].len() - 1;
    &mut rows[row][column.min(last)]
}

/// One damage that knows nothing of rows and cells.
fn damage_bytes(mut text: Vec<u8>, random: &mut ChaCha8Rng) -> Vec<u8> {
    let [mut start, mut end] = [(); 2].map(|()| random.random_range(0..=text.len()));
    if start > end {
        (start, end) = (end, start);
    }
    match random.random_range(0..12) {
        0 if !text.is_empty() => {
            let at = start.min(text.len() - 1);
            text[at] ^= 1 << random.random_range(0..8);
        }
        1 => text.truncate(end),
        2 => drop(text.drain(start..end)),
        3 => {
            let copy = text[start..end].to_vec();
            text.splice(end..end, copy);
        }
        4 => drop(text.splice(start..start, odd_cell(random))),
        5 => text.insert(start, random.random()),
        6 => return replace(&text, b"\n", b"\r\n"),
        7 => return replace(&text, b"\n", b"\r"),
        8 => return replace(&text, b"\n", b"\r\r\n\n"),
        9 => return replace(&text, b",", b";"),
        10 => drop(text.splice(0..0, *b"\xef\xbb\xbf")),
        // UTF-16, as some spreadsheets write it.
        _ => return text.iter().flat_map(|byte| [*byte, 0]).collect(),
    }
    text
}

fn replace(text: &[u8], from: &[u8; 1], to: &[u8]) -> Vec<u8> {
    let bytes = text.iter();
    bytes
        .flat_map(|byte| {
            if *byte == from[0] {
                to
            } else {
                std::slice::from_ref(byte)
            }
        })
        .copied()
        .collect()
}
