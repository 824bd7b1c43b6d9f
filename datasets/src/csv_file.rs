//! A CSV file whose columns are found by name. It may not know what the columns mean.

use std::path::Path;

use crate::table_error::TableError;

/// A CSV file with a header.
pub(crate) struct CsvFile<'a> {
    path: &'a Path,
    text: &'a str,
    header: Vec<String>,
    rows: Rows,
    reader: csv::Reader<&'a [u8]>,
}

/// How many cells a row has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// As many as the header: a cell too many or too few would shift values between columns.
    LikeHeader,
    /// Any number. NIH left header names with commas unquoted, so the header splits into another
    /// number than the rows; the columns that are read come before these.
    AnyLength,
}

/// A column: its position and, for messages, its name.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    position: usize,
    pub(crate) name: String,
}

impl<'a> CsvFile<'a> {
    /// Reads the header of `text`, which stands on one line. `path` names the file in messages.
    pub(crate) fn new(path: &'a Path, text: &'a str, rows: Rows) -> Result<Self, TableError> {
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let header = reader.headers().map_err(|error| csv_error(path, error))?;
        if header.iter().any(breaks_line) {
            let start = header.position().map_or(0, csv::Position::byte);
            return Err(TableError::LineBreak {
                path: path.to_owned(),
                row: LineCounter::new(text).line_at(start as usize),
            });
        }
        Ok(Self {
            path,
            text,
            header: header.iter().map(str::to_owned).collect(),
            rows,
            reader,
        })
    }

    /// The names of the columns, in the order of the file.
    pub(crate) fn header(&self) -> &[String] {
        &self.header
    }

    /// The column called `name`.
    pub(crate) fn column(&self, name: &str) -> Result<Column, TableError> {
        self.optional_column(name)?.ok_or_else(|| {
            let path = self.path.to_owned();
            // Of columns that are not separated by commas the first holds others as well.
            let first = self.header.first().map_or("", String::as_str);
            match first.chars().find(|c| matches!(c, ';' | '\t')) {
                Some(separator) => TableError::Separator { path, separator },
                None => TableError::MissingColumn {
                    path,
                    column: name.to_owned(),
                    found: self.header.clone(),
                },
            }
        })
    }

    /// The column called `name`, where there is one.
    pub(crate) fn optional_column(&self, name: &str) -> Result<Option<Column>, TableError> {
        let header = self.header.iter().enumerate();
        let mut positions = header.filter(|(_, column)| *column == name);
        let first = positions.next();
        if positions.next().is_some() {
            return Err(TableError::ColumnTwice {
                path: self.path.to_owned(),
                column: name.to_owned(),
            });
        }
        Ok(first.map(|(position, _)| Column {
            position,
            name: name.to_owned(),
        }))
    }

    /// Makes something of every row. Empty rows do not count; a file without others is refused.
    pub(crate) fn rows<T>(
        mut self,
        mut make: impl FnMut(Row<'_>) -> Result<T, TableError>,
    ) -> Result<Vec<T>, TableError> {
        let mut made = Vec::new();
        let mut cells = csv::StringRecord::new();
        let mut lines = LineCounter::new(self.text);
        while self
            .reader
            .read_record(&mut cells)
            .map_err(|error| csv_error(self.path, error))?
        {
            let start = cells.position().map_or(0, csv::Position::byte);
            if cells.iter().all(str::is_empty) {
                continue;
            }
            let number = lines.line_at(start as usize);
            self.check(&cells, number)?;
            made.push(make(Row {
                path: self.path,
                number,
                cells: &cells,
            })?);
        }
        if made.is_empty() {
            return Err(TableError::NoRows {
                path: self.path.to_owned(),
            });
        }
        Ok(made)
    }
}

impl CsvFile<'_> {
    /// Refuses a row that swallowed others or has not the cells of the header.
    fn check(&self, cells: &csv::StringRecord, row: u64) -> Result<(), TableError> {
        let path = || self.path.to_owned();
        if cells.iter().any(breaks_line) {
            return Err(TableError::LineBreak { path: path(), row });
        }
        if self.rows == Rows::LikeHeader && cells.len() != self.header.len() {
            return Err(TableError::CellCount {
                path: path(),
                row,
                found: cells.len(),
                expected: self.header.len(),
            });
        }
        Ok(())
    }
}

/// Whether a cell goes on over the end of its line.
fn breaks_line(cell: &str) -> bool {
    cell.contains(['\r', '\n'])
}

/// Counts lines: the csv crate's own count is behind after CRLF and empty lines.
struct LineCounter<'a> {
    bytes: &'a [u8],
    /// All before this byte is counted.
    position: usize,
    line: u64,
}

impl<'a> LineCounter<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            bytes: text.as_bytes(),
            position: 0,
            line: 1,
        }
    }

    /// The line, counted from 1, on which the row begins that the csv crate places at `start`: at
    /// the end of the row before, so that line ends may come first. Starts have to ascend.
    fn line_at(&mut self, start: usize) -> u64 {
        while let Some(byte) = self.bytes.get(self.position) {
            if self.position >= start && !matches!(byte, b'\r' | b'\n') {
                break;
            }
            self.line += u64::from(*byte == b'\n');
            self.position += 1;
        }
        self.line
    }
}

/// What the csv crate reports, with the file named.
fn csv_error(path: &Path, error: csv::Error) -> TableError {
    TableError::Read {
        path: path.to_owned(),
        source: error.into(),
    }
}

/// One row of a [`CsvFile`].
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    path: &'a Path,
    number: u64,
    cells: &'a csv::StringRecord,
}

impl<'a> Row<'a> {
    /// The line on which the row begins, counted from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The cell in `column`, without blanks around it.
    pub(crate) fn cell(&self, column: &Column) -> Result<&'a str, TableError> {
        self.cells
            .get(column.position)
            .ok_or_else(|| TableError::ShortRow {
                path: self.path.to_owned(),
                row: self.number(),
                column: column.name.clone(),
            })
    }

    /// The cell in `column`, which may not be empty.
    pub(crate) fn filled_cell(&self, column: &Column) -> Result<&'a str, TableError> {
        match self.cell(column)? {
            "" => Err(self.refuse(column, "", "filled: give it a value")),
            cell => Ok(cell),
        }
    }

    /// What `parse` makes of the cell in `column`; `None` if the table has no such column or the
    /// cell is empty.
    pub(crate) fn attribute<T>(
        &self,
        column: Option<&Column>,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, TableError> {
        let Some(column) = column else {
            return Ok(None);
        };
        match self.cell(column)? {
            "" => Ok(None),
            cell => parse(cell)
                .map(Some)
                .ok_or_else(|| self.refuse(column, cell, expected)),
        }
    }

    /// The error that `value` in `column` is not `expected`.
    pub(crate) fn refuse(
        &self,
        column: &Column,
        value: &str,
        expected: impl Into<String>,
    ) -> TableError {
        TableError::Value {
            path: self.path.to_owned(),
            row: self.number(),
            column: column.name.clone(),
            value: value.to_owned(),
            expected: expected.into(),
        }
    }
}
