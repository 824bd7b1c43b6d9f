//! Signs of air spaces that lost their air: atelectasis, consolidation, infiltration, pneumonia.

use std::f32::consts::PI;

use super::Sign;
use crate::phantom::anatomy::Hemithorax;
use crate::phantom::canvas::{Cell, PixelBox, Point, distance, smooth};
use crate::phantom::draws::Draws;

/// Whether an atelectasis is of a lobe, not plate-like; from the draws of its shape.
pub(super) fn is_lobar(draws: &mut Draws) -> bool {
    draws.chance(0.4)
}

/// Fills a part of the air at a cell with fluid.
fn fill(cell: &mut Cell, part: f32) {
    cell.air *= 1.0 - part;
    cell.markings *= 1.0 - part;
}

/// Plates: dense lines across the lower lung. Of a lobe: a wedge at the base, smaller than the lobe
/// was, so that heart and diaphragm are drawn towards it (see [`Finding::shape`](super::Finding::shape)).
pub(super) fn atelectasis(sign: &mut Sign<'_>, lobar: bool) -> Vec<PixelBox> {
    match lobar {
        true => lobe_without_air(sign),
        false => plates(sign),
    }
}

fn plates(sign: &mut Sign<'_>) -> Vec<PixelBox> {
    let mut seen: Option<PixelBox> = None;
    for _ in 0..sign.draws.count(2, 4) {
        let [x, y] = sign
            .anatomy
            .lung_point(&mut sign.draws, sign.side, 0.08, [-0.1, 0.40]);
        let half = sign.draws.between(0.14, 0.24);
        let slope = 0.22 * sign.draws.normal();
        let radius = sign.draws.between(0.026, 0.040);
        let density = sign.graded(0.24, 0.54);
        let line = [[x - half, y - slope * half], [x + half, y + slope * half]];
        let plate = sign.canvas.paint_line(line, radius, |cell, _, line| {
            // No plate is seen where the line leaves the lung.
            let part = line.sqrt() * cell.air.min(1.0);
            cell.tissue += density * part;
            part > 0.1
        });
        seen = match (seen, plate) {
            (Some(seen), Some(plate)) => Some(seen.union(plate)),
            (seen, plate) => seen.or(plate),
        };
    }
    seen.into_iter().collect()
}

fn lobe_without_air(sign: &mut Sign<'_>) -> Vec<PixelBox> {
    let (anatomy, side) = (sign.anatomy, sign.side);
    let tip = sign.draws.between(-0.18, 0.0);
    let outer = sign.draws.between(0.35, 0.60);
    let part = sign.graded(0.55, 0.95);
    let seen = sign.canvas.paint_all(|cell, point| {
        if Hemithorax::of(point) != side || cell.air == 0.0 {
            return false;
        }
        // A sharp oblique edge from the hilum to the diaphragm.
        let [x, y] = [point[0].abs(), point[1]];
        let along = (y - tip) / (anatomy.diaphragm(point[0]) - tip).max(0.1);
        let edge = anatomy.mediastinum + (outer - anatomy.mediastinum) * along;
        let wedge = part * smooth((edge - x) / 0.03) * smooth((y - tip) / 0.06);
        let lost = wedge * cell.air;
        fill(cell, wedge);
        lost > 0.05
    });
    seen.into_iter().collect()
}

/// An even, ill-defined opacity in which the bronchi still hold air.
pub(super) fn consolidation(sign: &mut Sign<'_>) -> Vec<PixelBox> {
    let radius = sign.draws.between(0.17, 0.24) + sign.graded(0.0, 0.08);
    let center = sign
        .anatomy
        .lung_point(&mut sign.draws, sign.side, 0.10, [-0.5, 0.35]);
    let part = sign.graded(0.60, 0.92);
    let field = sign.field;
    let within = |point: Point| {
        let ragged = 0.26 * field.at(point, 4.7) + 0.14 * field.at([point[1], point[0]], 11.3);
        let off = distance(point, center) / radius + ragged;
        smooth((1.0 - off) / 0.35)
    };
    let seen = sign.canvas.paint(center, 1.3 * radius, |cell, point| {
        let inside = part * within(point);
        fill(cell, inside);
        inside > 0.3 && cell.air > 0.0
    });
    // Bronchi fan out from where they enter, on the side of the hilum.
    let hilum = [sign.side.sign() * 0.12, -0.02];
    let inwards = (hilum[1] - center[1]).atan2(hilum[0] - center[0]);
    let entry = [
        center[0] + 0.9 * radius * inwards.cos(),
        center[1] + 0.9 * radius * inwards.sin(),
    ];
    for spread in [-0.5, 0.0, 0.5] {
        let angle = inwards + PI + spread + 0.15 * sign.draws.normal();
        let length = radius * sign.draws.between(1.2, 1.6);
        let tip = [
            entry[0] + length * angle.cos(),
            entry[1] + length * angle.sin(),
        ];
        sign.canvas
            .paint_line([entry, tip], 0.014, |cell, point, line| {
                cell.tissue -= 0.24 * line * within(point) * part;
                true
            });
    }
    seen.into_iter().collect()
}

/// Many small, faint, ill-defined patches.
pub(super) fn infiltration(sign: &mut Sign<'_>) -> Vec<PixelBox> {
    let middle = sign
        .anatomy
        .lung_point(&mut sign.draws, sign.side, 0.12, [-0.4, 0.3]);
    let mut seen: Option<PixelBox> = None;
    for _ in 0..sign.draws.count(12, 20) {
        let center = [
            middle[0] + 0.14 * sign.draws.normal(),
            middle[1] + 0.17 * sign.draws.normal(),
        ];
        let radius = sign.draws.between(0.035, 0.065);
        let part = sign.graded(0.45, 0.85) * sign.draws.between(0.7, 1.2);
        let patch = sign.canvas.paint(center, radius, |cell, point| {
            let inside = part * smooth((1.0 - distance(point, center) / radius) / 0.8);
            cell.air *= 1.0 - inside;
            inside > 0.05 && cell.air > 0.0
        });
        seen = match (seen, patch) {
            (Some(seen), Some(patch)) => Some(seen.union(patch)),
            (seen, patch) => seen.or(patch),
        };
    }
    seen.into_iter().collect()
}

/// A lobe full of fluid up to its fissure, which is a sharp edge.
pub(super) fn pneumonia(sign: &mut Sign<'_>) -> Vec<PixelBox> {
    let side = sign.side;
    let upper = sign.draws.chance(0.5);
    let fissure = sign.draws.between(-0.22, -0.02);
    let slope = sign.draws.between(-0.15, 0.15);
    let depth = sign.draws.between(0.28, 0.42);
    let part = sign.graded(0.45, 0.80);
    let (anatomy, field) = (sign.anatomy, sign.field);
    let seen = sign.canvas.paint_all(|cell, point| {
        if Hemithorax::of(point) != side || cell.air == 0.0 {
            return false;
        }
        let from = fissure + slope * (point[0].abs() - 0.35);
        let into = if upper {
            from - point[1]
        } else {
            point[1] - from
        };
        let fade = smooth((depth - into) / 0.20) * smooth(anatomy.lung_depth(point) / 0.05 + 0.5);
        let patchy = 0.85 + 0.3 * field.at(point, 9.0);
        let inside = (part * patchy * smooth(into / 0.02) * fade).min(1.0);
        fill(cell, inside);
        inside > 0.2
    });
    seen.into_iter().collect()
}
