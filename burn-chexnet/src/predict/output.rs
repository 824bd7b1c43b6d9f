//! Probabilities as a table, CSV or JSON, written as they come.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;

use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};

use crate::predictions::Prediction;

/// The form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// For reading: each image, then a line a label.
    #[default]
    Table,
    /// A header `image,<label>...` and a row an image.
    Csv,
    /// An array of `{"image": ..., "probabilities": {"<label>": ...}}`, one a line.
    Json,
}

impl FromStr for OutputFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "table" => Ok(Self::Table),
            "csv" => Ok(Self::Csv),
            "json" => Ok(Self::Json),
            other => Err(format!(
                "unknown format `{other}`: expected table, csv or json"
            )),
        }
    }
}

impl fmt::Display for OutputFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Table => "table",
            Self::Csv => "csv",
            Self::Json => "json",
        })
    }
}

/// Writes predictions, each batch as soon as it is there.
///
/// ```
/// use burn_chexnet::Prediction;
/// use burn_chexnet::predict::{OutputFormat, PredictionWriter};
///
/// let labels = ["Mass".to_string(), "Edema".to_string()];
/// let mut writer = PredictionWriter::new(Vec::new(), OutputFormat::Csv, &labels)?;
/// writer.write(&[Prediction {
///     image: "scan.png".to_string(),
///     probabilities: vec![0.25, 0.5],
///     truth: Vec::new(),
/// }])?;
/// let text = String::from_utf8(writer.finish()?).unwrap_or_default();
/// assert_eq!(text, "image,Mass,Edema\nscan.png,0.25,0.5\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct PredictionWriter<W: Write> {
    output: W,
    format: OutputFormat,
    labels: Vec<String>,
    written: usize,
}

impl<W: Write> PredictionWriter<W> {
    /// Begins the output with what comes before the first image.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn new(output: W, format: OutputFormat, labels: &[String]) -> io::Result<Self> {
        let mut writer = Self {
            output,
            format,
            labels: labels.to_vec(),
            written: 0,
        };
        match format {
            OutputFormat::Table => {}
            OutputFormat::Csv => {
                let header = ["image"]
                    .into_iter()
                    .chain(labels.iter().map(String::as_str));
                let row = csv_row(header)?;
                writer.output.write_all(&row)?;
            }
            OutputFormat::Json => writer.output.write_all(b"[")?,
        }
        Ok(writer)
    }

    /// Writes the predictions of a batch, all the way to where they go.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn write(&mut self, predictions: &[Prediction]) -> io::Result<()> {
        let mut text = Vec::new();
        for prediction in predictions {
            match self.format {
                OutputFormat::Table => self.write_table(&mut text, prediction)?,
                OutputFormat::Csv => {
                    let numbers: Vec<String> = prediction
                        .probabilities
                        .iter()
                        .map(f32::to_string)
                        .collect();
                    let numbers = numbers.iter().map(String::as_str);
                    let row = csv_row([prediction.image.as_str()].into_iter().chain(numbers))?;
                    text.extend(row);
                }
                OutputFormat::Json => {
                    let separator = if self.written > 0 { ",\n" } else { "\n" };
                    text.extend(separator.as_bytes());
                    let record = Record {
                        prediction,
                        labels: &self.labels,
                    };
                    serde_json::to_writer(&mut text, &record)?;
                }
            }
            self.written += 1;
        }
        self.output.write_all(&text)?;
        self.output.flush()
    }

    fn write_table(&self, text: &mut Vec<u8>, prediction: &Prediction) -> io::Result<()> {
        if self.written > 0 {
            writeln!(text)?;
        }
        writeln!(text, "{}", prediction.image)?;
        let width = self.labels.iter().map(|label| label.chars().count()).max();
        let width = width.unwrap_or(0);
        for (label, probability) in self.labels.iter().zip(&prediction.probabilities) {
            writeln!(text, "  {label:width$}  {probability:.3}")?;
        }
        Ok(())
    }

    /// Ends the output and gives back where it went.
    ///
    /// # Errors
    ///
    /// If the end cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        if self.format == OutputFormat::Json {
            self.output.write_all(b"\n]\n")?;
        }
        self.output.flush()?;
        Ok(self.output)
    }
}

/// A file that takes its name when it is whole: until then an earlier one stays.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    aside: PathBuf,
    path: PathBuf,
}

impl OutputFile {
    /// Begins a file that will be at `path`; it lies beside until then.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn create(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let mut aside = path.as_os_str().to_owned();
        aside.push(".tmp");
        Ok(Self {
            file: File::create(&aside)?,
            aside: aside.into(),
            path,
        })
    }

    /// Gives it its name.
    ///
    /// # Errors
    ///
    /// If it cannot be written to the disk or renamed.
    pub fn commit(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.aside, &self.path)
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for OutputFile {
    /// Removes what was not to be; what has its name is no longer here.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.aside);
    }
}

fn csv_row<'a>(fields: impl Iterator<Item = &'a str>) -> io::Result<Vec<u8>> {
    let mut row = csv::Writer::from_writer(Vec::new());
    row.write_record(fields)?;
    row.into_inner().map_err(|error| error.into_error())
}

/// A prediction with its labels in their order.
struct Record<'a> {
    prediction: &'a Prediction,
    labels: &'a [String],
}

struct Probabilities<'a>(&'a Record<'a>);

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut record = serializer.serialize_struct("Record", 2)?;
        record.serialize_field("image", &self.prediction.image)?;
        record.serialize_field("probabilities", &Probabilities(self))?;
        record.end()
    }
}

impl Serialize for Probabilities<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Record { prediction, labels } = self.0;
        let mut map = serializer.serialize_map(Some(labels.len()))?;
        for (label, probability) in labels.iter().zip(&prediction.probabilities) {
            map.serialize_entry(label, probability)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn written(format: OutputFormat, images: &[&str]) -> String {
        let labels = ["Mass".to_string(), "Pleural_Thickening".to_string()];
        let mut writer = PredictionWriter::new(Vec::new(), format, &labels).unwrap();
        for image in images {
            let prediction = Prediction {
                image: image.to_string(),
                probabilities: vec![0.1, 0.98765],
                truth: Vec::new(),
            };
            writer.write(&[prediction]).unwrap();
        }
        String::from_utf8(writer.finish().unwrap()).unwrap()
    }

    #[test]
    fn names_of_any_kind_survive_csv_and_json() {
        let images = ["a.png", "comma, quote \" and\nline.png", "größe.jpg"];
        let csv = written(OutputFormat::Csv, &images);
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        let rows: Vec<Vec<String>> = reader
            .records()
            .map(|row| row.unwrap().iter().map(str::to_string).collect())
            .collect();
        let json: serde_json::Value =
            serde_json::from_str(&written(OutputFormat::Json, &images)).unwrap();
        for (index, image) in images.iter().enumerate() {
            assert_eq!(rows[index], [*image, "0.1", "0.98765"]);
            assert_eq!(json[index]["image"], *image);
            let probability = json[index]["probabilities"]["Pleural_Thickening"].as_f64();
            assert!((probability.unwrap() - 0.98765).abs() < 1e-6);
        }
    }

    #[test]
    fn labels_keep_their_order() {
        let json = written(OutputFormat::Json, &["b.png"]);
        let pleural = json.find("Pleural").unwrap();
        assert!(json.find("Mass").unwrap() < pleural);
        assert_eq!(json.lines().count(), 3);
        assert_eq!(written(OutputFormat::Json, &[]), "[\n]\n");
    }

    #[test]
    fn a_table_aligns_its_numbers() {
        let table = written(OutputFormat::Table, &["a.png", "b.png"]);
        let expected = "a.png\n  Mass                0.100\n  Pleural_Thickening  0.988\n";
        assert_eq!(
            table,
            format!("{expected}\n{}", expected.replace("a.png", "b.png"))
        );
    }
}
