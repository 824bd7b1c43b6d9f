//! The patients of a phantom data set: who they are, what they have, and which images were made of
//! them. It may not know how anything looks.

use crate::nih::Pathology;
use crate::record::{Sex, View};

use super::PhantomConfig;
use super::anatomy::Hemithorax;
use super::draws::Draws;
use super::finding::Finding;

/// What comes with what, and how often.
const COMPANIONS: [(Pathology, Pathology, f32); 17] = [
    (Pathology::Atelectasis, Pathology::Effusion, 0.30),
    (Pathology::Cardiomegaly, Pathology::Edema, 0.25),
    (Pathology::Cardiomegaly, Pathology::Effusion, 0.15),
    (Pathology::Effusion, Pathology::Atelectasis, 0.25),
    (Pathology::Mass, Pathology::Nodule, 0.25),
    (Pathology::Nodule, Pathology::Mass, 0.15),
    (Pathology::Pneumonia, Pathology::Infiltration, 0.35),
    (Pathology::Pneumonia, Pathology::Consolidation, 0.30),
    (Pathology::Pneumonia, Pathology::Effusion, 0.15),
    (Pathology::Pneumothorax, Pathology::Emphysema, 0.25),
    (Pathology::Consolidation, Pathology::Pneumonia, 0.20),
    (Pathology::Edema, Pathology::Cardiomegaly, 0.30),
    (Pathology::Edema, Pathology::Effusion, 0.25),
    (Pathology::Emphysema, Pathology::Fibrosis, 0.15),
    (Pathology::Emphysema, Pathology::Pneumothorax, 0.15),
    (Pathology::Fibrosis, Pathology::PleuralThickening, 0.30),
    (Pathology::Hernia, Pathology::Atelectasis, 0.15),
];

/// Share of the patients without any finding.
const HEALTHY: f32 = 0.3;
/// How often a patient has one more finding that has nothing to do with the others.
const COINCIDENCE: f32 = 0.35;
/// How often an image of a patient shows a finding of his.
const SHOWN: f32 = 0.9;

/// One image to be made.
#[derive(Debug, Clone)]
pub(super) struct Study {
    pub(super) patient: u64,
    pub(super) follow_up: u64,
    pub(super) age: u32,
    pub(super) sex: Sex,
    pub(super) view: View,
    pub(super) findings: Vec<Finding>,
    /// Whether the patient is on the test side.
    pub(super) test: bool,
}

/// What a stream of draws is for: a part of its key.
pub(super) enum Purpose {
    Patient = 0,
    Study = 1,
    Anatomy = 2,
    Picture = 3,
}

/// The draws of one image of a patient, or of the patient himself with `follow_up` 0.
pub(super) fn draws(seed: u64, purpose: Purpose, patient: u64, follow_up: u64) -> Draws {
    Draws::new([seed, purpose as u64, patient, follow_up])
}

/// The images of `config`, patient by patient.
pub(super) fn studies(config: &PhantomConfig) -> Vec<Study> {
    let mut studies = Vec::with_capacity(config.images);
    for patient in 1.. {
        let missing = config.images - studies.len();
        if missing == 0 {
            break;
        }
        let mut draws = draws(config.seed, Purpose::Patient, patient, 0);
        let images = match draws.between(0.0, 1.0) {
            draw if draw < 0.55 => 1,
            draw if draw < 0.80 => 2,
            _ => 3,
        };
        let test = draws.chance(config.test_share);
        let age = draws.between(20.0, 88.0) as u32;
        let sex = if draws.chance(0.5) {
            Sex::Female
        } else {
            Sex::Male
        };
        let findings = findings(config.seed, patient, &mut draws);
        for follow_up in 0..images.min(missing) as u64 {
            let mut draws = self::draws(config.seed, Purpose::Study, patient, follow_up);
            let bedside = draws.chance(0.35);
            studies.push(Study {
                patient,
                follow_up,
                age: age + follow_up as u32,
                sex,
                view: if bedside {
                    View::AnteroPosterior
                } else {
                    View::PosteroAnterior
                },
                findings: shown(&findings, &mut draws),
                test,
            });
        }
    }
    // Of few patients all may have drawn one side.
    let (first, last) = (1, studies.last().map_or(1, |study| study.patient));
    for (test, patient) in [(false, first), (true, last)] {
        if studies.iter().all(|study| study.test != test) {
            let own = studies.iter_mut().filter(|study| study.patient == patient);
            own.for_each(|study| study.test = test);
        }
    }
    studies
}

/// What a patient has.
fn findings(seed: u64, patient: u64, draws: &mut Draws) -> Vec<Finding> {
    let mut pathologies: Vec<Pathology> = Vec::new();
    if !draws.chance(HEALTHY) {
        let first = any(draws);
        pathologies.push(first);
        for (of, companion, share) in COMPANIONS {
            if of == first && draws.chance(share) {
                pathologies.push(companion);
            }
        }
        if draws.chance(COINCIDENCE) {
            pathologies.push(any(draws));
        }
    }
    pathologies.sort();
    pathologies.dedup();
    let findings = pathologies.into_iter().map(|pathology| Finding {
        pathology,
        side: Hemithorax::drawn(draws),
        // More are obvious than subtle.
        severity: draws.between(0.0, 1.0).cbrt(),
        key: seed.rotate_left(32) ^ patient,
    });
    findings.collect()
}

fn any(draws: &mut Draws) -> Pathology {
    Pathology::ALL[draws.count(0, Pathology::ALL.len() - 1)]
}

/// The findings as one image shows them: some come and go, all vary.
fn shown(findings: &[Finding], draws: &mut Draws) -> Vec<Finding> {
    let mut shown = Vec::new();
    for finding in findings {
        let visible = draws.chance(SHOWN);
        let severity = finding.severity + 0.12 * draws.normal();
        if visible {
            shown.push(Finding {
                severity: severity.clamp(0.0, 1.0),
                ..*finding
            });
        }
    }
    shown
}
