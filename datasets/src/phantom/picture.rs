//! One radiograph: pose, chest, findings and detector put together.

use crate::nih::Pathology;
use crate::record::{Sex, View};

use super::anatomy::Anatomy;
use super::canvas::{Canvas, Field, PixelBox, Pose};
use super::detector::Exposure;
use super::finding::Finding;
use super::population::{Purpose, Study, draws};

/// A radiograph and where its findings are seen.
pub(super) struct Picture {
    /// 8-bit grey, `[size, size]`, row by row.
    pub(super) pixels: Vec<u8>,
    pub(super) boxes: Vec<(Pathology, PixelBox)>,
}

/// Takes the radiograph of `study` with `size` pixels a side.
pub(super) fn take(seed: u64, study: &Study, size: usize) -> Picture {
    let mut findings = study.findings.clone();
    findings.sort_by_key(|finding| order(finding.pathology));
    expose(seed, study, size, &findings, &findings)
}

/// Takes the radiograph of a chest that the findings of `shaping` shape and those of `painted` are
/// painted on, whatever findings `study` has.
pub(super) fn expose(
    seed: u64,
    study: &Study,
    size: usize,
    shaping: &[Finding],
    painted: &[Finding],
) -> Picture {
    let bedside = study.view == View::AnteroPosterior;
    // The chest is the patient's; pose, breath and exposure are the image's.
    let mut patient = draws(seed, Purpose::Anatomy, study.patient, 0);
    let mut draws = draws(seed, Purpose::Picture, study.patient, study.follow_up);
    let mut anatomy = Anatomy::drawn(&mut patient, study.sex == Sex::Female, bedside);
    let field = Field::new(&mut patient);
    let breath = 0.04 * draws.normal();
    anatomy.domes = anatomy.domes.map(|dome| dome + breath);
    let pose = Pose {
        tilt: 0.05 * draws.normal(),
        scale: draws.between(0.86, 1.10),
        shift: [0.07 * draws.normal(), 0.07 * draws.normal() + 0.03],
    };
    let exposure = Exposure::drawn(&mut draws, bedside);

    for finding in shaping {
        finding.shape(&mut anatomy);
    }
    let mut canvas = Canvas::new(size, pose);
    anatomy.paint(&mut canvas, &mut patient, &field);
    let mut boxes = Vec::new();
    for finding in painted {
        let seen = finding.paint(&mut canvas, &anatomy, &field);
        boxes.extend(seen.into_iter().map(|seen| (finding.pathology, seen)));
    }
    Picture {
        pixels: exposure.develop(&canvas, &mut draws),
        boxes,
    }
}

/// Diffuse signs first, then opacities, then what lies around the lung.
fn order(pathology: Pathology) -> u8 {
    match pathology {
        Pathology::Emphysema | Pathology::Edema | Pathology::Fibrosis => 0,
        Pathology::Effusion | Pathology::PleuralThickening => 2,
        Pathology::Pneumothorax => 3,
        _ => 1,
    }
}
