//! What can be wrong with a heat map: one line each that says what to do. Draws nothing.

use std::path::PathBuf;

use thiserror::Error;

use super::Rectangle;
use super::check::{LARGEST_SIDE, LONGEST_LABEL};

/// Why a heat map cannot be drawn or written.
#[derive(Debug, Error)]
pub enum HeatMapError {
    /// The label has no character, or more than a caption takes.
    #[error("a label of {characters} characters makes no caption: give 1 to {LONGEST_LABEL}")]
    Label {
        /// Number of characters.
        characters: usize,
    },
    /// The probability is not between 0 and 1.
    #[error("{label:?}: the probability is {probability}: give 0 to 1")]
    Probability {
        /// The label.
        label: String,
        /// The probability.
        probability: f32,
    },
    /// The number of pixels is not width times height, or zero, or a side is too large.
    #[error(
        "{label:?}: {pixels} pixels do not make a radiograph of {width}x{height}: give width times height of them, 1 to {LARGEST_SIDE} a side"
    )]
    Pixels {
        /// The label.
        label: String,
        /// Number of pixels.
        pixels: usize,
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// The number of values is not rows times columns, or zero.
    #[error(
        "{label:?}: {values} values do not make a map of {rows} rows and {columns} columns: give rows times columns of them, at least one"
    )]
    Map {
        /// The label.
        label: String,
        /// Number of values.
        values: usize,
        /// Rows of the map.
        rows: usize,
        /// Columns of the map.
        columns: usize,
    },
    /// A value of the map is infinite or not a number.
    #[error(
        "{label:?}: the map is {value} at row {row}, column {column} (counted from 0): check the weights and the image"
    )]
    NotFinite {
        /// The label.
        label: String,
        /// The value.
        value: f32,
        /// Its row, counted from 0.
        row: usize,
        /// Its column, counted from 0.
        column: usize,
    },
    /// The rectangle is less than a pixel wide or high, or not within the radiograph.
    #[error(
        "{label:?}: the rectangle of {}x{} pixels at ({}, {}) is not within the radiograph of {width}x{height}: give a part of it, at least one pixel",
        rectangle.width, rectangle.height, rectangle.left, rectangle.top
    )]
    Rectangle {
        /// The label.
        label: String,
        /// The rectangle.
        rectangle: Rectangle,
        /// Width of the radiograph in pixels.
        width: u32,
        /// Height of the radiograph in pixels.
        height: u32,
    },
    /// The file cannot be written.
    #[error("cannot write the heat map {}: {reason}; check that the folder exists and is writable", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}
