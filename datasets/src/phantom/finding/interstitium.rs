//! Signs of both lungs at large: edema, emphysema, fibrosis. They have no box.

use super::Sign;
use crate::phantom::anatomy::Hemithorax;
use crate::phantom::canvas::{PixelBox, distance, smooth};

/// Haze around the hila, like the wings of a bat, and septal lines at the wall.
pub(super) fn edema(sign: &mut Sign<'_>) -> Vec<PixelBox> {
    let part = sign.graded(0.20, 0.42);
    let reach = sign.draws.between(0.36, 0.50);
    let field = sign.field;
    for side in Hemithorax::BOTH {
        let hilum = [side.sign() * 0.20, 0.02];
        sign.canvas.paint(hilum, reach, |cell, point| {
            let haze = smooth(1.0 - distance(point, hilum) / reach);
            cell.air *= 1.0 - (part * haze * (1.0 + 0.8 * field.at(point, 9.0))).min(0.9);
            true
        });
        for _ in 0..12 {
            let y = sign.draws.between(-0.05, 0.38);
            let wall = wall(sign, side, y);
            let inner = wall - side.sign() * sign.draws.between(0.09, 0.16);
            let density = sign.graded(0.20, 0.44);
            sign.canvas
                .paint_line([[wall, y], [inner, y + 0.01]], 0.015, |cell, _, line| {
                    cell.tissue += density * line * cell.air.min(1.0);
                    true
                });
        }
    }
    Vec::new()
}

/// x of the chest wall of `side` at the height `y`.
fn wall(sign: &Sign<'_>, side: Hemithorax, y: f32) -> f32 {
    let steps = (0..80).map(|step| side.sign() * sign.anatomy.thorax * (1.0 - step as f32 / 80.0));
    let mut inside = steps.filter(|&x| sign.anatomy.costal_depth([x, y]) > 0.0);
    inside.next().unwrap_or(0.0)
}

/// Bullae: dark holes with a thin wall. The rest of the sign is the shape of the chest (see
/// [`Finding::shape`](super::Finding::shape)).
pub(super) fn emphysema(sign: &mut Sign<'_>) -> Vec<PixelBox> {
    for _ in 0..sign.draws.count(2, 5) {
        let side = Hemithorax::drawn(&mut sign.draws);
        let radius = sign.draws.between(0.07, 0.13);
        let center = sign
            .anatomy
            .lung_point(&mut sign.draws, side, 0.05, [-0.7, 0.3]);
        let edge = 1.2 * sign.canvas.pixel();
        sign.canvas.paint(center, radius, |cell, point| {
            let inside = radius - distance(point, center);
            if inside <= 0.0 || cell.air == 0.0 {
                return false;
            }
            cell.markings *= 1.0 - smooth(inside / edge);
            cell.air *= 1.0 + 0.08 * smooth(inside / edge);
            cell.tissue += 0.05 * smooth(1.0 - inside / edge);
            true
        });
    }
    Vec::new()
}

/// A net of scars, densest at the base and at the wall.
pub(super) fn fibrosis(sign: &mut Sign<'_>) -> Vec<PixelBox> {
    let density = sign.graded(0.30, 0.66);
    let mesh = sign.draws.between(7.0, 10.0);
    let top = sign.draws.between(-0.25, 0.1);
    let (anatomy, field) = (sign.anatomy, sign.field);
    sign.canvas.paint_all(|cell, point| {
        if cell.air == 0.0 {
            return false;
        }
        let base = smooth((point[1] - top) / 0.35);
        let rim = smooth(1.0 - anatomy.costal_depth(point) / 0.25);
        let weight = (0.8 * base + 0.5 * rim * base.max(0.3)).min(1.0);
        let line = |frequency: f32| smooth(1.0 - field.at(point, frequency).abs() / 0.28);
        let net = line(mesh).max(0.8 * line(1.7 * mesh));
        cell.tissue += density * weight * (net - 0.25);
        true
    });
    Vec::new()
}
