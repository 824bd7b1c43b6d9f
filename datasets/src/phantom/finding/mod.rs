//! The 14 pathologies of NIH ChestX-ray14 as signs on a chest: what each changes in the anatomy, and
//! what it adds to the picture. It may not know of patients, nor of how labels are drawn.

mod focal;
mod interstitium;
mod opacity;
mod pleura;
#[cfg(test)]
mod tests;

use crate::nih::Pathology;

use super::anatomy::{Anatomy, Hemithorax};
use super::canvas::{Canvas, Field, PixelBox};
use super::draws::Draws;

/// A finding of one patient, as one image shows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Finding {
    pub(super) pathology: Pathology,
    pub(super) side: Hemithorax,
    /// From 0, subtle, to 1, obvious.
    pub(super) severity: f32,
    /// Key of the draws of its place and shape: the same in all images of the patient.
    pub(super) key: u64,
}

/// What a sign is painted with and on.
struct Sign<'a> {
    canvas: &'a mut Canvas,
    anatomy: &'a Anatomy,
    field: &'a Field,
    draws: Draws,
    side: Hemithorax,
    severity: f32,
}

impl Sign<'_> {
    /// From `subtle` to `obvious` by severity.
    fn graded(&self, subtle: f32, obvious: f32) -> f32 {
        subtle + (obvious - subtle) * self.severity
    }
}

impl Finding {
    fn draws(&self, purpose: u64) -> Draws {
        Draws::new([self.key, self.pathology as u64, purpose, 0])
    }

    /// Changes the measures of the chest, before anything is painted.
    pub(super) fn shape(&self, anatomy: &mut Anatomy) {
        let mut draws = self.draws(0);
        let graded = |subtle: f32, obvious: f32| subtle + (obvious - subtle) * self.severity;
        match self.pathology {
            Pathology::Cardiomegaly => {
                // A cardiothoracic ratio of more than one half.
                let ratio = graded(0.54, 0.66);
                anatomy.heart = anatomy.heart.max(ratio * anatomy.thorax);
            }
            Pathology::Emphysema => {
                anatomy.aeration *= graded(1.04, 1.15);
                anatomy.dome_curve *= graded(0.45, 0.1);
                anatomy.domes = anatomy.domes.map(|dome| dome + graded(0.05, 0.13));
                anatomy.heart *= graded(0.9, 0.75);
                anatomy.vascularity = anatomy.vascularity.map(|vessel| vessel * graded(0.6, 0.3));
            }
            Pathology::Edema => {
                let [upper, lower] = anatomy.vascularity;
                anatomy.vascularity = [upper * graded(1.4, 2.0), lower * 1.05];
                anatomy.heart *= 1.05;
            }
            Pathology::Fibrosis => {
                anatomy.domes = anatomy.domes.map(|dome| dome - graded(0.02, 0.08));
            }
            Pathology::Atelectasis if opacity::is_lobar(&mut draws) => {
                anatomy.shift += self.side.sign() * graded(0.03, 0.09);
                anatomy.domes[self.side as usize] -= graded(0.04, 0.12);
            }
            Pathology::Pneumothorax => {
                anatomy.shift -= self.side.sign() * graded(0.0, 0.05);
            }
            _ => {}
        }
    }

    /// Paints the sign; returns a box for each place where it is seen, none for a diffuse one.
    pub(super) fn paint(
        &self,
        canvas: &mut Canvas,
        anatomy: &Anatomy,
        field: &Field,
    ) -> Vec<PixelBox> {
        let mut sign = Sign {
            canvas,
            anatomy,
            field,
            draws: self.draws(1),
            side: self.side,
            severity: self.severity,
        };
        match self.pathology {
            Pathology::Atelectasis => {
                let lobar = opacity::is_lobar(&mut self.draws(0));
                opacity::atelectasis(&mut sign, lobar)
            }
            Pathology::Cardiomegaly => focal::heart_box(&mut sign),
            Pathology::Effusion => pleura::effusion(&mut sign),
            Pathology::Infiltration => opacity::infiltration(&mut sign),
            Pathology::Mass => focal::mass(&mut sign),
            Pathology::Nodule => focal::nodules(&mut sign),
            Pathology::Pneumonia => opacity::pneumonia(&mut sign),
            Pathology::Pneumothorax => pleura::pneumothorax(&mut sign),
            Pathology::Consolidation => opacity::consolidation(&mut sign),
            Pathology::Edema => interstitium::edema(&mut sign),
            Pathology::Emphysema => interstitium::emphysema(&mut sign),
            Pathology::Fibrosis => interstitium::fibrosis(&mut sign),
            Pathology::PleuralThickening => pleura::thickening(&mut sign),
            Pathology::Hernia => focal::hernia(&mut sign),
        }
    }
}
