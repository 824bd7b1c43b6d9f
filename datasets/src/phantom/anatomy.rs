//! The healthy chest of one patient: its measures, where its lungs lie, and how it is painted. It may
//! not know of findings.
//!
//! Lengths are in chest coordinates: see [`Point`].

use super::canvas::{Canvas, Field, Point, smooth};
use super::draws::Draws;

/// A side of the chest, as the patient has it. The right lung is on the image's left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hemithorax {
    Right,
    Left,
}

impl Hemithorax {
    pub(super) const BOTH: [Self; 2] = [Self::Right, Self::Left];

    pub(super) fn drawn(draws: &mut Draws) -> Self {
        Self::BOTH[draws.count(0, 1)]
    }

    /// The sign of x on this side.
    pub(super) fn sign(self) -> f32 {
        match self {
            Self::Right => -1.0,
            Self::Left => 1.0,
        }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::Right => Self::Left,
            Self::Left => Self::Right,
        }
    }

    pub(super) fn of([x, _]: Point) -> Self {
        if x < 0.0 { Self::Right } else { Self::Left }
    }
}

/// The measures of a chest.
#[derive(Debug, Clone)]
pub(super) struct Anatomy {
    /// Half the inner width of the rib cage: the T of the cardiothoracic ratio.
    pub(super) thorax: f32,
    /// Half the height of the ellipse that the rib cage is cut from.
    pub(super) height: f32,
    /// Half the width of the mediastinum above the heart.
    pub(super) mediastinum: f32,
    /// How far mediastinum and heart are drawn to the image's right.
    pub(super) shift: f32,
    /// y of the top of each dome of the diaphragm, right and left.
    pub(super) domes: [f32; 2],
    /// Curvature of the domes; near 0 they are flat.
    pub(super) dome_curve: f32,
    /// Half the width of the heart.
    pub(super) heart: f32,
    /// Angle of the heart's axis below the horizontal.
    pub(super) heart_tilt: f32,
    /// Air in the lungs; 1 is usual.
    pub(super) aeration: f32,
    /// Density of the vessels, in the upper and the lower half of the lung; 1 is usual.
    pub(super) vascularity: [f32; 2],
    torso: f32,
    breasts: f32,
    ribs: Ribs,
    clavicle_slope: f32,
    spine_curve: f32,
    gas: f32,
    hilum: f32,
}

#[derive(Debug, Clone)]
struct Ribs {
    spacing: f32,
    phase: f32,
    slope: f32,
    density: f32,
}

impl Anatomy {
    /// The chest of a patient; `antero_posterior` as the tube enlarges the heart at the bedside.
    pub(super) fn drawn(draws: &mut Draws, female: bool, antero_posterior: bool) -> Self {
        let thorax = draws.between(0.60, 0.76);
        let right_dome = draws.between(0.27, 0.47);
        let ratio = draws.between(0.40, 0.50);
        Self {
            thorax,
            height: draws.between(0.76, 0.86),
            mediastinum: draws.between(0.10, 0.15),
            shift: 0.015 * draws.normal(),
            domes: [right_dome, right_dome + draws.between(0.01, 0.06)],
            dome_curve: draws.between(0.9, 1.7),
            heart: thorax * ratio * if antero_posterior { 1.08 } else { 1.0 },
            heart_tilt: draws.between(0.35, 0.7),
            aeration: draws.between(0.84, 1.10),
            vascularity: [draws.between(0.5, 1.0), draws.between(0.7, 1.3)],
            torso: thorax + draws.between(0.10, 0.24),
            breasts: if female {
                draws.between(0.05, 0.2)
            } else {
                0.0
            },
            ribs: Ribs {
                spacing: draws.between(0.135, 0.165),
                phase: draws.between(0.0, 1.0),
                slope: draws.between(0.25, 0.5),
                density: draws.between(0.06, 0.13),
            },
            clavicle_slope: draws.between(-0.22, 0.02),
            spine_curve: 0.02 * draws.normal(),
            gas: draws.between(0.0, 0.09),
            hilum: draws.between(0.06, 0.26),
        }
    }

    /// How deep `point` lies in the rib cage, from its wall; negative outside.
    pub(super) fn costal_depth(&self, [x, y]: Point) -> f32 {
        let power = |t: f32| t * t * t.sqrt();
        let sum = power(x.abs() / self.thorax) + power(y.abs() / self.height);
        (1.0 - sum) / 2.5 * self.thorax
    }

    /// y of the diaphragm below or above `x`.
    pub(super) fn diaphragm(&self, x: f32) -> f32 {
        let dome = self.domes[Hemithorax::of([x, 0.0]) as usize];
        let off = x.abs() - self.thorax * 0.52;
        dome + self.dome_curve * off * off
    }

    /// How deep `point` lies in its lung, from the nearest edge; negative outside.
    pub(super) fn lung_depth(&self, point: Point) -> f32 {
        let [x, y] = point;
        let medial = self.mediastinum + 0.04 * smooth(1.0 - (y + 0.05).abs() / 0.25);
        let x_medial = x - self.shift * smooth(y + 0.8);
        self.costal_depth(point)
            .min(x_medial.abs() - medial)
            .min(0.8 * (self.diaphragm(x) - y))
    }

    /// From 1 in the middle of the heart to 0 at its edge, negative beyond.
    pub(super) fn heart_depth(&self, [x, y]: Point) -> f32 {
        let [center_x, center_y] = self.heart_center();
        let (sin, cos) = self.heart_tilt.sin_cos();
        let [x, y] = [x - center_x, y - center_y];
        let along = (cos * x + sin * y) / (1.05 * self.heart);
        let across = (cos * y - sin * x) / (0.78 * self.heart);
        1.0 - (along * along + across * across).sqrt()
    }

    pub(super) fn heart_center(&self) -> Point {
        let floor = self.domes[0].max(self.domes[1]);
        [
            0.28 * self.heart + self.shift,
            floor + 0.02 - 0.6 * self.heart,
        ]
    }

    /// A point of the lung of `side`, at least `depth` from its edges and between the heights `from`
    /// and `to`; the deepest of many where the lung is too narrow.
    pub(super) fn lung_point(
        &self,
        draws: &mut Draws,
        side: Hemithorax,
        depth: f32,
        [from, to]: [f32; 2],
    ) -> Point {
        let mut best = ([side.sign() * 0.35, 0.0], f32::MIN);
        for _ in 0..60 {
            let point = [
                side.sign() * draws.between(0.1, self.thorax),
                draws.between(from, to),
            ];
            let found = self.lung_depth(point);
            if found > best.1 {
                best = (point, found);
            }
            if found >= depth && self.heart_depth(point) < 0.0 {
                return point;
            }
        }
        best.0
    }

    /// Paints body, lungs, heart, bones and vessels.
    pub(super) fn paint(&self, canvas: &mut Canvas, draws: &mut Draws, field: &Field) {
        let edge = 1.5 * canvas.pixel();
        canvas.paint_all(|cell, point| {
            cell.body = self.body(point);
            if cell.body > 0.0 {
                let heart = self.heart_shadow(point, edge);
                cell.air = self.air(point, edge) * (1.0 - 0.82 * heart);
                cell.tissue = 0.13 * heart
                    + self.spine(point)
                    + self.ribs(point)
                    + self.breast(point)
                    + self.abdomen(point, edge)
                    + 0.03 * field.at(point, 2.3);
            }
            true
        });
        self.paint_clavicles(canvas, draws);
        self.paint_vessels(canvas, draws);
    }

    fn body(&self, [x, y]: Point) -> f32 {
        // Neck, shoulders, torso.
        let shoulders = smooth((y + 0.98) / 0.34);
        let width = 0.26 + (self.torso + 0.22 - 0.26) * shoulders - 0.22 * smooth((y + 0.5) / 0.5);
        let across = x.abs() / width;
        if across >= 1.0 {
            return 0.0;
        }
        (1.0 - across * across * across * across).sqrt()
    }

    fn air(&self, point: Point, edge: f32) -> f32 {
        let depth = self.lung_depth(point);
        if depth <= 0.0 {
            return 0.0;
        }
        let thick = 0.58 + 0.42 * (depth / 0.22).min(1.0);
        self.aeration * thick * smooth(depth / edge)
    }

    /// How much of the lung the heart displaces: from 0 at its edge to 1 in its middle.
    fn heart_shadow(&self, point: Point, edge: f32) -> f32 {
        let depth = self.heart_depth(point);
        if depth <= 0.0 {
            return 0.0;
        }
        smooth(depth * self.heart / edge) * (0.75 + 0.25 * depth.min(1.0))
    }

    fn spine(&self, [x, y]: Point) -> f32 {
        let off = (x - self.spine_curve * (3.0 * y).sin()).abs();
        if off > 0.085 {
            return 0.0;
        }
        let disc = (y / self.ribs.spacing * std::f32::consts::TAU).cos();
        (0.16 + 0.05 * disc) * smooth((0.085 - off) / 0.02)
    }

    fn ribs(&self, point: Point) -> f32 {
        let [x, y] = point;
        let wall = self.costal_depth(point);
        if wall < -0.02 || y > 0.62 {
            return 0.0;
        }
        let u = x.abs();
        // Behind, ribs fall from the spine outwards; in front they rise from the wall.
        let behind = self.rib(y - self.ribs.slope * u * u * 1.2 + 0.08 * u);
        let front = self.rib(y + self.ribs.slope * u * 0.9 - 0.2) * smooth((u - 0.25) / 0.2);
        let rim = 1.0 + 1.2 * smooth(1.0 - wall / 0.06);
        self.ribs.density * rim * smooth((wall + 0.02) / 0.03) * (behind + 0.55 * front)
    }

    /// One rib of the row at `height`: its two cortices are denser than its middle.
    fn rib(&self, height: f32) -> f32 {
        let turn = (height / self.ribs.spacing + self.ribs.phase).rem_euclid(1.0);
        let off = (turn - 0.5).abs() / 0.22;
        smooth((1.0 - off) / 0.25) * (0.6 + 0.4 * smooth(off))
    }

    fn breast(&self, [x, y]: Point) -> f32 {
        if self.breasts == 0.0 {
            return 0.0;
        }
        let [across, along] = [(x.abs() - 0.42) / 0.32, (y - 0.28) / 0.30];
        self.breasts * smooth((1.0 - across * across - along * along) / 0.5)
    }

    /// What lies below the diaphragm: liver, and gas in the stomach on the left.
    fn abdomen(&self, point: Point, edge: f32) -> f32 {
        let [x, y] = point;
        let below = smooth((y - self.diaphragm(x)) / edge);
        let [across, along] = [(x - 0.33) / 0.16, (y - self.domes[1] - 0.17) / 0.07];
        let bubble = smooth((1.0 - across * across - along * along) / 0.4);
        below * (0.06 - 3.0 * self.gas * bubble)
    }

    fn paint_clavicles(&self, canvas: &mut Canvas, draws: &mut Draws) {
        for side in Hemithorax::BOTH {
            let lift = self.clavicle_slope + 0.02 * draws.normal();
            let inner = [0.07 * side.sign(), -0.60];
            let bend = [0.34 * side.sign(), -0.62 + 0.3 * lift];
            let outer = [0.72 * side.sign(), -0.66 + lift];
            for line in [[inner, bend], [bend, outer]] {
                canvas.paint_line(line, 0.032, |cell, _, density| {
                    cell.tissue = cell.tissue.max(cell.body * 0.17 * density.sqrt());
                    true
                });
            }
        }
    }

    fn paint_vessels(&self, canvas: &mut Canvas, draws: &mut Draws) {
        for side in Hemithorax::BOTH {
            let hilum = [side.sign() * (self.mediastinum + 0.02) + self.shift, -0.02];
            canvas.paint(hilum, 0.13, |cell, [x, y]| {
                let off = ((x - hilum[0]) / 0.09).hypot((y - hilum[1]) / 0.13);
                cell.markings += self.hilum * smooth(1.0 - off);
                true
            });
            for angle in [-1.25, -0.75, -0.25, 0.2, 0.6, 1.0, 1.35] {
                let branch = Branch {
                    from: hilum,
                    angle: angle + 0.15 * draws.normal(),
                    length: draws.between(0.14, 0.22),
                    radius: draws.between(0.014, 0.022),
                };
                self.paint_branch(canvas, draws, side, branch, 3);
            }
        }
    }

    /// A vessel that splits in two after its length, `generations` times.
    fn paint_branch(
        &self,
        canvas: &mut Canvas,
        draws: &mut Draws,
        side: Hemithorax,
        branch: Branch,
        generations: usize,
    ) {
        let (sin, cos) = branch.angle.sin_cos();
        let to = [
            branch.from[0] + side.sign() * cos * branch.length,
            branch.from[1] + sin * branch.length,
        ];
        let strength = self.vascularity[usize::from(to[1] > 0.0)];
        canvas.paint_line([branch.from, to], branch.radius, |cell, _, density| {
            cell.markings = cell.markings.max(0.17 * strength * density);
            true
        });
        if generations == 0 {
            return;
        }
        for turn in [-0.4, 0.35] {
            let next = Branch {
                from: to,
                angle: branch.angle + turn + 0.2 * draws.normal(),
                length: branch.length * draws.between(0.62, 0.9),
                radius: branch.radius * 0.72,
            };
            self.paint_branch(canvas, draws, side, next, generations - 1);
        }
    }
}

struct Branch {
    from: Point,
    angle: f32,
    length: f32,
    radius: f32,
}
