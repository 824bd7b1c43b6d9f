//! Signs with an outline: heart, nodule, mass, hernia.

use std::f32::consts::TAU;

use super::Sign;
use crate::phantom::canvas::{PixelBox, Point, distance, smooth};

/// The box around the heart; its size is the sign.
pub(super) fn heart_box(sign: &mut Sign<'_>) -> Vec<PixelBox> {
    let anatomy = sign.anatomy;
    let reach = 1.1 * anatomy.heart;
    let seen = sign
        .canvas
        .paint(anatomy.heart_center(), reach, |_, point| {
            anatomy.heart_depth(point) > 0.0
        });
    seen.into_iter().collect()
}

/// One to three round opacities below 3 cm.
pub(super) fn nodules(sign: &mut Sign<'_>) -> Vec<PixelBox> {
    let count = 1 + usize::from(sign.draws.chance(0.5)) + usize::from(sign.draws.chance(0.3));
    let mut boxes = Vec::new();
    for _ in 0..count {
        let radius = sign.draws.between(0.045, 0.072);
        let side = if sign.draws.chance(0.5) {
            sign.side
        } else {
            sign.side.other()
        };
        let center = sign
            .anatomy
            .lung_point(&mut sign.draws, side, radius, [-0.65, 0.35]);
        let density = sign.graded(0.28, 0.64);
        boxes.extend(sign.canvas.paint(center, radius, |cell, point| {
            let off = distance(point, center) / radius;
            cell.tissue += density * smooth((1.0 - off) / 0.5);
            off < 1.0
        }));
    }
    boxes
}

/// A lobulated, often spiculated opacity of 3 cm or more. Its box leaves the spicules out.
pub(super) fn mass(sign: &mut Sign<'_>) -> Vec<PixelBox> {
    let radius = sign.draws.between(0.10, 0.13) + sign.graded(0.0, 0.05);
    let center = sign
        .anatomy
        .lung_point(&mut sign.draws, sign.side, 0.6 * radius, [-0.55, 0.30]);
    let density = sign.graded(0.26, 0.44);
    let waves: [[f32; 2]; 3] =
        [0.0; 3].map(|_| [sign.draws.between(0.0, 0.09), sign.draws.between(0.0, TAU)]);
    let outline = |[x, y]: Point| {
        let angle = (y - center[1]).atan2(x - center[0]);
        let lobes = waves.iter().zip([2.0, 3.0, 5.0]);
        let depth: f32 = lobes
            .map(|([depth, turn], count)| depth * (1.0 + (count * angle + turn).cos()))
            .sum();
        radius * (1.0 - depth)
    };
    let seen = sign.canvas.paint(center, radius, |cell, point| {
        let off = distance(point, center) / outline(point);
        cell.tissue += density * smooth((1.0 - off) / 0.3);
        cell.markings *= smooth(off);
        off < 1.0
    });
    if sign.draws.chance(0.5) {
        for spicule in 0..9 {
            let angle = (spicule as f32 + sign.draws.between(0.0, 0.8)) * TAU / 9.0;
            let length = radius * sign.draws.between(1.2, 1.6);
            let tip = [
                center[0] + length * angle.cos(),
                center[1] + length * angle.sin(),
            ];
            sign.canvas
                .paint_line([center, tip], 0.008, |cell, point, line| {
                    let outside = smooth(distance(point, center) / radius - 0.8);
                    cell.tissue += 0.5 * density * line * outside * cell.air.min(1.0);
                    true
                });
        }
    }
    seen.into_iter().collect()
}

/// Stomach in the chest: a round shadow behind the heart with gas above a fluid level.
pub(super) fn hernia(sign: &mut Sign<'_>) -> Vec<PixelBox> {
    let radius = sign.draws.between(0.12, 0.17) + sign.graded(0.0, 0.03);
    let floor = sign.anatomy.domes[0].max(sign.anatomy.domes[1]);
    let center = [
        sign.anatomy.shift + sign.draws.between(-0.16, 0.26),
        floor - radius * sign.draws.between(0.3, 0.8),
    ];
    let level = center[1] + radius * sign.draws.between(-0.2, 0.3);
    let [wall, gas] = [sign.graded(0.12, 0.26), sign.graded(0.26, 0.60)];
    let edge = 1.5 * sign.canvas.pixel();
    let seen = sign.canvas.paint(center, radius, |cell, point| {
        let inside = radius - distance(point, center);
        if inside <= 0.0 {
            return false;
        }
        let within = smooth(inside / edge);
        let ring = smooth(1.0 - inside / 0.03);
        let fluid = smooth((point[1] - level) / edge);
        cell.tissue += within * (wall * (ring + 0.6 * fluid) - gas * (1.0 - fluid) * (1.0 - ring));
        true
    });
    seen.into_iter().collect()
}
