//! Signs between lung and chest wall: effusion, pneumothorax, pleural thickening.

use super::Sign;
use crate::phantom::anatomy::Hemithorax;
use crate::phantom::canvas::{PixelBox, smooth};

/// Fluid that blunts the costophrenic angle, its upper edge a meniscus that rises to the wall.
pub(super) fn effusion(sign: &mut Sign<'_>) -> Vec<PixelBox> {
    let (anatomy, side) = (sign.anatomy, sign.side);
    let wall = side.sign() * 0.9 * anatomy.thorax;
    let top = anatomy.diaphragm(wall) - sign.graded(0.22, 0.62) - sign.draws.between(0.0, 0.08);
    let curve = sign.draws.between(0.25, 0.45);
    let soft = sign.draws.between(0.04, 0.10);
    let seen = sign.canvas.paint_all(|cell, point| {
        if Hemithorax::of(point) != side || cell.air == 0.0 {
            return false;
        }
        let inwards = 1.0 - (point[0].abs() / anatomy.thorax).min(1.0);
        let level = top + curve * inwards.sqrt();
        let fluid = smooth((point[1] - level) / soft);
        cell.air *= 1.0 - fluid;
        cell.tissue += 0.05 * fluid;
        fluid > 0.5
    });
    seen.into_iter().collect()
}

/// Air around the lung: the line of the visceral pleura, and no vessels beyond it.
pub(super) fn pneumothorax(sign: &mut Sign<'_>) -> Vec<PixelBox> {
    let (anatomy, side) = (sign.anatomy, sign.side);
    let apex = sign.graded(0.15, 0.36) + sign.draws.between(0.0, 0.05);
    let base = apex * sign.draws.between(0.1, 0.5);
    let line = (0.9 * sign.canvas.pixel()).max(0.009);
    let seen = sign.canvas.paint_all(|cell, point| {
        if Hemithorax::of(point) != side || cell.air == 0.0 {
            return false;
        }
        let width = base + (apex - base) * smooth((0.35 - point[1]) / 0.9);
        let beyond = width - anatomy.costal_depth(point);
        let outside = smooth(0.5 + beyond / line);
        cell.markings *= 1.0 - outside;
        cell.air *= 0.93 + 0.34 * outside;
        cell.tissue += 0.20 * smooth(1.0 - beyond.abs() / line);
        beyond > 0.0
    });
    seen.into_iter().collect()
}

/// A band along the inner wall of the chest, at the side or over the apex.
pub(super) fn thickening(sign: &mut Sign<'_>) -> Vec<PixelBox> {
    let (anatomy, side) = (sign.anatomy, sign.side);
    let width = sign.draws.between(0.065, 0.085) + sign.graded(0.0, 0.055);
    let apical = sign.draws.chance(0.35);
    let [from, to] = match apical {
        true => [-0.9, sign.draws.between(-0.50, -0.35)],
        false => {
            let from = sign.draws.between(-0.45, -0.1);
            [from, from + sign.draws.between(0.35, 0.6)]
        }
    };
    let density = sign.graded(0.30, 0.64);
    let field = sign.field;
    let seen = sign.canvas.paint_all(|cell, point| {
        if Hemithorax::of(point) != side || cell.air == 0.0 {
            return false;
        }
        let ends = smooth((point[1] - from) / 0.08) * smooth((to - point[1]) / 0.08);
        let uneven = width * (1.0 + 0.35 * field.at(point, 7.0)) * ends;
        let band = smooth((uneven - anatomy.costal_depth(point)) / 0.015);
        cell.tissue += density * band;
        cell.markings *= 1.0 - band;
        band > 0.5
    });
    seen.into_iter().collect()
}
