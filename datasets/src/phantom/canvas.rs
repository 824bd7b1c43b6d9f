//! What the rays of each pixel cross, and how shapes are painted into it. It may not know what a
//! shape stands for.

use super::draws::Draws;

/// A point or a vector, in chest coordinates: x to the image's right, y downwards, the origin in the
/// middle of the chest; 1 is half the width of an image, about 20 cm.
pub(super) type Point = [f32; 2];

/// How the patient stands before the detector: chest to image coordinates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pose {
    /// Angle in radians.
    pub(super) tilt: f32,
    /// Enlargement.
    pub(super) scale: f32,
    /// Where the origin of the chest lies, in image coordinates: -1 to 1.
    pub(super) shift: Point,
}

impl Pose {
    /// The image coordinates of a chest point.
    fn to_image(self, [x, y]: Point) -> Point {
        let (sin, cos) = self.tilt.sin_cos();
        [
            self.scale * (cos * x - sin * y) + self.shift[0],
            self.scale * (sin * x + cos * y) + self.shift[1],
        ]
    }

    /// The chest coordinates of an image point.
    fn to_chest(self, [x, y]: Point) -> Point {
        let (sin, cos) = self.tilt.sin_cos();
        let [x, y] = [
            (x - self.shift[0]) / self.scale,
            (y - self.shift[1]) / self.scale,
        ];
        [cos * x + sin * y, cos * y - sin * x]
    }
}

/// What the rays of one pixel cross.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cell {
    /// Soft tissue of the body, 0 outside of it to 1.
    pub(super) body: f32,
    /// Lung air, 0 to about 1: it takes tissue away.
    pub(super) air: f32,
    /// Vessels and other markings of the lung.
    pub(super) markings: f32,
    /// Whatever else is dense: bones, heart, opacities.
    pub(super) tissue: f32,
}

/// A box of pixels: the first and, not included, the last column and row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PixelBox {
    pub(super) left: usize,
    pub(super) top: usize,
    pub(super) right: usize,
    pub(super) bottom: usize,
}

impl PixelBox {
    /// The box around both.
    pub(super) fn union(self, other: Self) -> Self {
        Self {
            left: self.left.min(other.left),
            top: self.top.min(other.top),
            right: self.right.max(other.right),
            bottom: self.bottom.max(other.bottom),
        }
    }
}

/// The cells of an image, `[size, size]`, row by row.
pub(super) struct Canvas {
    pub(super) size: usize,
    pub(super) cells: Vec<Cell>,
    pose: Pose,
    /// Chest coordinates of the first pixel's centre, and the steps to its right and lower neighbour.
    origin: Point,
    right: Point,
    down: Point,
}

impl Canvas {
    pub(super) fn new(size: usize, pose: Pose) -> Self {
        let step = 2.0 / size as f32;
        let first = step / 2.0 - 1.0;
        let origin = pose.to_chest([first, first]);
        let towards = |point: Point| {
            let [x, y] = pose.to_chest(point);
            [x - origin[0], y - origin[1]]
        };
        Self {
            size,
            cells: vec![Cell::default(); size * size],
            pose,
            origin,
            right: towards([first + step, first]),
            down: towards([first, first + step]),
        }
    }

    /// Side of a pixel, in chest coordinates.
    pub(super) fn pixel(&self) -> f32 {
        2.0 / (self.size as f32 * self.pose.scale)
    }

    /// Calls `paint` for every pixel of the whole image.
    pub(super) fn paint_all(
        &mut self,
        paint: impl FnMut(&mut Cell, Point) -> bool,
    ) -> Option<PixelBox> {
        let whole = PixelBox {
            left: 0,
            top: 0,
            right: self.size,
            bottom: self.size,
        };
        self.paint_box(whole, paint)
    }

    /// Calls `paint` with cell and chest point for every pixel within `reach` of `center`, and for
    /// some beyond; returns the box around those for which it said that they are seen.
    pub(super) fn paint(
        &mut self,
        center: Point,
        reach: f32,
        paint: impl FnMut(&mut Cell, Point) -> bool,
    ) -> Option<PixelBox> {
        let [x, y] = self.pose.to_image(center);
        let reach = reach * self.pose.scale;
        let pixel = |coordinate: f32| {
            let position = (coordinate + 1.0) / 2.0 * self.size as f32;
            position.clamp(0.0, self.size as f32)
        };
        let area = PixelBox {
            left: pixel(x - reach).floor() as usize,
            top: pixel(y - reach).floor() as usize,
            right: pixel(x + reach).ceil() as usize,
            bottom: pixel(y + reach).ceil() as usize,
        };
        self.paint_box(area, paint)
    }

    fn paint_box(
        &mut self,
        area: PixelBox,
        mut paint: impl FnMut(&mut Cell, Point) -> bool,
    ) -> Option<PixelBox> {
        let mut seen: Option<PixelBox> = None;
        for row in area.top..area.bottom {
            let cells = &mut self.cells[row * self.size..][area.left..area.right];
            for (cell, column) in cells.iter_mut().zip(area.left..) {
                let (across, along) = (column as f32, row as f32);
                let point = [0, 1].map(|axis| {
                    self.origin[axis] + across * self.right[axis] + along * self.down[axis]
                });
                if paint(cell, point) {
                    let pixel = PixelBox {
                        left: column,
                        top: row,
                        right: column + 1,
                        bottom: row + 1,
                    };
                    seen = Some(seen.map_or(pixel, |seen| seen.union(pixel)));
                }
            }
        }
        seen
    }

    /// Paints a line from `from` to `to` of the half-width `radius`, densest in its middle. `paint`
    /// gets its density at a pixel, from 0 to 1, and says whether it is seen there, as that of
    /// [`paint`](Self::paint) does. A line thinner than a pixel becomes fainter instead.
    pub(super) fn paint_line(
        &mut self,
        [from, to]: [Point; 2],
        radius: f32,
        mut paint: impl FnMut(&mut Cell, Point, f32) -> bool,
    ) -> Option<PixelBox> {
        let drawn = radius.max(0.7 * self.pixel());
        let middle = [(from[0] + to[0]) / 2.0, (from[1] + to[1]) / 2.0];
        let reach = distance(from, to) / 2.0 + drawn;
        self.paint(middle, reach, |cell, point| {
            let off = distance_to_line(point, from, to) / drawn;
            off < 1.0 && paint(cell, point, (1.0 - off * off) * radius / drawn)
        })
    }
}

pub(super) fn distance([ax, ay]: Point, [bx, by]: Point) -> f32 {
    (ax - bx).hypot(ay - by)
}

fn distance_to_line([x, y]: Point, from: Point, to: Point) -> f32 {
    let [dx, dy] = [to[0] - from[0], to[1] - from[1]];
    let length = dx * dx + dy * dy;
    let along = match length > 0.0 {
        true => (((x - from[0]) * dx + (y - from[1]) * dy) / length).clamp(0.0, 1.0),
        false => 0.0,
    };
    distance([x, y], [from[0] + along * dx, from[1] + along * dy])
}

/// From 0 at `value` ≤ 0 to 1 at `value` ≥ 1, without a kink.
pub(super) fn smooth(value: f32) -> f32 {
    let value = value.clamp(0.0, 1.0);
    value * value * (3.0 - 2.0 * value)
}

/// A random field without edges: values at the points of a lattice, smoothly joined.
pub(super) struct Field(Vec<f32>);

/// Points of the lattice a side; it repeats after them.
const LATTICE: usize = 32;

impl Field {
    pub(super) fn new(draws: &mut Draws) -> Self {
        Self(
            (0..LATTICE * LATTICE)
                .map(|_| draws.between(-1.0, 1.0))
                .collect(),
        )
    }

    /// The value at `point`, -1 to 1, with `frequency` lattice points to a unit of length.
    pub(super) fn at(&self, [x, y]: Point, frequency: f32) -> f32 {
        let split = |coordinate: f32| {
            let coordinate = coordinate * frequency;
            let floor = coordinate.floor();
            let index = (floor as i64).rem_euclid(LATTICE as i64) as usize;
            (index, smooth(coordinate - floor))
        };
        let ((column, across), (row, along)) = (split(x), split(y));
        let value = |column: usize, row: usize| self.0[row % LATTICE * LATTICE + column % LATTICE];
        let mix = |a: f32, b: f32, part: f32| a + (b - a) * part;
        mix(
            mix(value(column, row), value(column + 1, row), across),
            mix(value(column, row + 1), value(column + 1, row + 1), across),
            along,
        )
    }
}
