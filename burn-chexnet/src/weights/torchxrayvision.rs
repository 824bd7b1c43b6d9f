//! What TorchXRayVision's models expect and give (Cohen et al., MIDL 2022, arXiv 2111.00595).

use crate::preprocessing::Resize;
use crate::{Normalisation, Preprocessing, PreprocessingError};

/// Its labels, in the order of the outputs of every model; a data set trains those that it has.
pub(super) const LABELS: [&str; 18] = [
    "Atelectasis",
    "Consolidation",
    "Infiltration",
    "Pneumothorax",
    "Edema",
    "Emphysema",
    "Fibrosis",
    "Effusion",
    "Pneumonia",
    "Pleural_Thickening",
    "Cardiomegaly",
    "Nodule",
    "Mass",
    "Hernia",
    "Lung Lesion",
    "Fracture",
    "Lung Opacity",
    "Enlarged Cardiomediastinum",
];

/// Its input: one channel of pixels from -1024 to 1024, of the square in the centre.
pub(super) fn preprocessing(image_size: usize) -> Result<Preprocessing, PreprocessingError> {
    Ok(Preprocessing {
        resize: Resize::CentreCrop {
            short_side: image_size,
        },
        ..Preprocessing::new(image_size, 1, &Normalisation::TorchXRayVision)?
    })
}
