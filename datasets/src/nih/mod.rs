//! NIH ChestX-ray14: 112,120 frontal radiographs of 30,805 patients (Wang et al., *ChestX-ray8*,
//! CVPR 2017; <https://nihcc.app.box.com/v/ChestXray-NIHCC>). It may not depend on splits or images.

mod boxes;
mod entries;
mod lists;
mod pathology;

use std::path::Path;

pub use boxes::BoundingBox;
pub use lists::{ImageList, OfficialLists};
pub use pathology::{Pathology, UnknownPathology};

use crate::dataset::Dataset;
use crate::table_error::TableError;
use crate::text_file;

/// The data set's name, for messages.
pub(crate) const NAME: &str = "NIH ChestX-ray14";
/// The table of labels: the release of 2020 and that of 2017.
const ENTRIES: [&str; 2] = ["Data_Entry_2017_v2020.csv", "Data_Entry_2017.csv"];
const BOXES: &str = "BBox_List_2017.csv";

/// The tables of ChestX-ray14. Images are looked for only when they are read: see
/// [`ImageSource`](crate::ImageSource).
///
/// ```no_run
/// use chest_datasets::{ChestXray14, Split};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let nih = ChestXray14::open("ChestX-ray14")?;
/// if let Some(lists) = &nih.lists {
///     let split = Split::official(&nih.dataset, lists, 42)?;
///     println!("{}", split.check(&nih.dataset));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ChestXray14 {
    /// The records: one for each image, with the 14 labels of
    /// [`LabelSet::nih`](crate::LabelSet::nih).
    pub dataset: Dataset,
    /// The official lists, where the folder has them.
    pub lists: Option<OfficialLists>,
    /// The boxes around findings; none where the folder has no list of them.
    pub boxes: Vec<BoundingBox>,
}

impl ChestXray14 {
    /// Whether one of the tables of labels is in `folder`.
    pub fn is_in(folder: impl AsRef<Path>) -> bool {
        let folder = folder.as_ref();
        ENTRIES.iter().any(|name| folder.join(name).exists())
    }

    /// Reads the tables in `folder`, as NIH names them.
    ///
    /// `Data_Entry_2017_v2020.csv`, or else `Data_Entry_2017.csv`; `train_val_list.txt` with
    /// `test_list.txt`, and `BBox_List_2017.csv`, where they are there.
    ///
    /// # Errors
    ///
    /// Neither table is there; one of the two lists is there without the other; a file cannot be
    /// read, is empty, lacks a column or holds what it should not, such as an unknown label. Each
    /// error names the file, and the row where there is one.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, TableError> {
        let folder = folder.as_ref();
        let table = ENTRIES
            .iter()
            .find_map(|name| text_file::existing(folder, name));
        let table = table.ok_or_else(|| text_file::no_table(folder, ENTRIES, NAME))?;
        Ok(Self {
            dataset: entries::parse(&table, &text_file::read(&table)?)?,
            lists: OfficialLists::find(folder)?,
            boxes: match text_file::existing(folder, BOXES) {
                Some(path) => boxes::parse(&path, &text_file::read(&path)?)?,
                None => Vec::new(),
            },
        })
    }
}
