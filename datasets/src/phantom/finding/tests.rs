//! Each of the 14 signs against the same chest without it: that it is seen, where its boxes say, more
//! with severity, and brighter or darker as it has to be.

use std::sync::LazyLock;

use rayon::prelude::*;

use super::*;
use crate::phantom::picture;
use crate::phantom::population::Study;
use crate::record::{Sex, View};

const SIZE: usize = 128;
const SEVERITIES: [f32; 3] = [0.0, 0.5, 1.0];
/// Grey levels of 256 that stand out from the noise, whose deviation is some 3 to 9.
const VISIBLE: f32 = 5.0;

/// One finding of one patient.
#[derive(Debug, Clone, Copy)]
struct Trial {
    finding: Finding,
    patient: u64,
}

/// What a finding changes of a picture, in grey levels, `[SIZE, SIZE]`. Pose, exposure and noise are
/// the same without it, as their draws do not depend on findings.
struct Change {
    trial: Trial,
    /// Of the picture whose chest has the finding's shape already.
    painted: Vec<f32>,
    /// Of the picture without the finding.
    all: Vec<f32>,
    boxes: Vec<PixelBox>,
}

impl Change {
    fn of(trial: Trial) -> Self {
        let Trial { finding, patient } = trial;
        let study = Study {
            patient,
            follow_up: 0,
            age: 50,
            sex: [Sex::Female, Sex::Male][patient as usize % 2],
            view: match patient % 3 {
                0 => View::AnteroPosterior,
                _ => View::PosteroAnterior,
            },
            findings: Vec::new(),
            test: false,
        };
        let take = |shaping: &[Finding], painted: &[Finding]| {
            picture::expose(0, &study, SIZE, shaping, painted)
        };
        let without = take(&[], &[]).pixels;
        let shaped = take(&[finding], &[]).pixels;
        let with = take(&[finding], &[finding]);
        let from = |before: &[u8]| {
            let pixels = with.pixels.iter().zip(before);
            pixels
                .map(|(with, before)| f32::from(*with) - f32::from(*before))
                .collect()
        };
        Self {
            trial,
            painted: from(&shaped),
            all: from(&without),
            boxes: with.boxes.into_iter().map(|(_, seen)| seen).collect(),
        }
    }

    fn pathology(&self) -> Pathology {
        self.trial.finding.pathology
    }

    fn severity(&self) -> f32 {
        self.trial.finding.severity
    }

    /// What the sign itself changes: of a large heart, its size.
    fn sign(&self) -> &[f32] {
        match self.pathology() {
            Pathology::Cardiomegaly => &self.all,
            _ => &self.painted,
        }
    }

    /// What the sign changes within its boxes, or anywhere if it is diffuse.
    fn within(&self) -> Vec<f32> {
        let boxed = |index: usize| {
            let [row, column] = [index / SIZE, index % SIZE];
            self.boxes.iter().any(|seen| {
                (seen.top..seen.bottom).contains(&row) && (seen.left..seen.right).contains(&column)
            })
        };
        let pixels = self.sign().iter().enumerate();
        pixels
            .filter(|(index, _)| is_diffuse(self.pathology()) || boxed(*index))
            .map(|(_, change)| *change)
            .collect()
    }
}

/// Every finding in five patients, on both sides, with all [`SEVERITIES`], which are neighbours.
static CHANGES: LazyLock<Vec<Change>> = LazyLock::new(|| {
    let mut trials = Vec::new();
    for pathology in Pathology::ALL {
        for patient in 1..=5 {
            for side in Hemithorax::BOTH {
                trials.extend(SEVERITIES.map(|severity| Trial {
                    finding: Finding {
                        pathology,
                        side,
                        severity,
                        key: 77 * patient + side as u64,
                    },
                    patient,
                }));
            }
        }
    }
    trials.into_par_iter().map(Change::of).collect()
});

fn is_diffuse(pathology: Pathology) -> bool {
    use Pathology::{Edema, Emphysema, Fibrosis};
    matches!(pathology, Edema | Emphysema | Fibrosis)
}

fn mean(values: &[f32]) -> f32 {
    values.iter().sum::<f32>() / values.len().max(1) as f32
}

fn mean_size(values: &[f32]) -> f32 {
    values.iter().map(|value| value.abs()).sum::<f32>() / values.len().max(1) as f32
}

/// The mean of `measure` over the changes by `pathology` with `severity`.
fn typical(pathology: Pathology, severity: f32, measure: impl Fn(&Change) -> f32) -> f32 {
    let changes = CHANGES
        .iter()
        .filter(|change| change.pathology() == pathology && change.severity() == severity);
    mean(&changes.map(measure).collect::<Vec<_>>())
}

#[test]
fn every_sign_is_seen_and_plainly_where_it_is_obvious() {
    for pathology in Pathology::ALL {
        // A diffuse sign is spread over the whole image, with much of it outside the lungs; bullae
        // are a few small circles of it.
        let [subtle, obvious] = match pathology {
            Pathology::Emphysema => [0.1, 0.1],
            Pathology::Edema | Pathology::Fibrosis => [0.7, 1.5],
            _ => [3.0, 7.0],
        };
        for (severity, least) in SEVERITIES.into_iter().zip([subtle, subtle, obvious]) {
            let size = typical(pathology, severity, |change| mean_size(&change.within()));
            assert!(size >= least, "{pathology:?} {severity}: {size}");
        }
    }
    for change in CHANGES.iter().filter(|change| change.severity() == 1.0) {
        let size = mean_size(&change.all);
        assert!(size >= 0.05, "{:?}: {size}", change.trial);
    }
}

/// Scatter takes 15 to 38 % of any change out over a fifth of the image, faintly: of that, only what
/// is next to a large and obvious sign is visible.
#[test]
fn the_boxes_cover_what_is_visible_of_a_sign() {
    let visible = |values: &[f32]| {
        let values = values.iter().map(|value| value.abs());
        values.filter(|value| *value >= VISIBLE).sum::<f32>()
    };
    for pathology in Pathology::ALL {
        for severity in SEVERITIES {
            let all = typical(pathology, severity, |change| visible(change.sign()));
            let within = typical(pathology, severity, |change| visible(&change.within()));
            let share = within / all;
            assert!(share >= 0.85, "{pathology:?} {severity}: {share}");
        }
    }
    for change in CHANGES.iter() {
        let [within, all] = [visible(&change.within()), visible(change.sign())];
        assert!(within >= 0.7 * all, "{:?}: {within} of {all}", change.trial);
    }
}

#[test]
fn a_box_ends_where_its_sign_ends() {
    // The edge of a sign is soft.
    const MARGIN: usize = 5;
    for change in CHANGES.iter().filter(|change| change.severity() == 1.0) {
        let changed = |rows: std::ops::Range<usize>, columns: std::ops::Range<usize>| {
            rows.flat_map(|row| columns.clone().map(move |column| row * SIZE + column))
                .any(|pixel| change.sign()[pixel].abs() >= 2.0)
        };
        for &seen in &change.boxes {
            let PixelBox {
                left,
                top,
                right,
                bottom,
            } = seen;
            let sides = [
                changed(top..bottom, left..right.min(left + MARGIN)),
                changed(top..bottom, left.max(right.saturating_sub(MARGIN))..right),
                changed(top..bottom.min(top + MARGIN), left..right),
                changed(top.max(bottom.saturating_sub(MARGIN))..bottom, left..right),
            ];
            assert!(sides == [true; 4], "{:?} {seen:?}: {sides:?}", change.trial);
        }
    }
}

#[test]
fn a_sign_grows_with_severity() {
    for pair in CHANGES.windows(2) {
        let [less, more] = [&pair[0], &pair[1]];
        if less.severity() < more.severity() {
            let sizes = [mean_size(&less.all), mean_size(&more.all)];
            assert!(sizes[1] > 1.1 * sizes[0], "{:?}: {sizes:?}", more.trial);
        }
    }
    // What is painted of emphysema, its bullae, is a matter of chance.
    let graded = Pathology::ALL.into_iter();
    for pathology in graded.filter(|pathology| *pathology != Pathology::Emphysema) {
        let sizes = SEVERITIES
            .map(|severity| typical(pathology, severity, |change| mean_size(change.sign())));
        let grows = sizes.windows(2).all(|pair| pair[1] > 1.1 * pair[0]);
        assert!(grows, "{pathology:?}: {sizes:?}");
    }
}

#[test]
fn opacities_brighten_and_air_darkens() {
    for change in CHANGES.iter() {
        let within = change.within();
        let brighter = mean(
            &within
                .iter()
                .map(|value| value.max(0.0))
                .collect::<Vec<_>>(),
        );
        let darker = mean(
            &within
                .iter()
                .map(|value| value.min(0.0))
                .collect::<Vec<_>>(),
        );
        let right = match change.pathology() {
            Pathology::Pneumothorax => brighter + darker < 0.0,
            Pathology::Emphysema => brighter + darker < 0.0 && mean(&change.all) < -1.0,
            // Gas above a fluid level.
            Pathology::Hernia => brighter > 0.3 && darker < -2.0,
            // The least effusion is no more than a blunted angle.
            Pathology::Effusion if change.severity() == 0.0 => darker > -0.1,
            _ => brighter + darker > 0.1,
        };
        assert!(right, "{:?}: {brighter} {darker}", change.trial);
    }
}
