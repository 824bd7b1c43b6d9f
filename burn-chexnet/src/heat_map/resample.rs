//! Bilinear resampling of a map to pixels, along one axis at a time. Knows numbers, no picture.

/// Where a pixel lies between two neighbouring cells of the map, along one axis.
#[derive(Debug)]
pub(super) struct Place {
    /// The pixel, counted from 0.
    pub(super) pixel: u32,
    before: usize,
    after: usize,
    /// Weight of the cell `after`, 0 to 1.
    weight: f64,
}

/// The places of those of `pixels` whose centres the map covers, along one axis: its `cells` reach
/// from `start` over `length`, in pixels.
pub(super) fn places(pixels: u32, start: f64, length: f64, cells: usize) -> Vec<Place> {
    let place = |pixel| {
        let part = (f64::from(pixel) + 0.5 - start) / length;
        let centre = (part * cells as f64 - 0.5).max(0.0);
        let before = centre as usize;
        (0.0..1.0).contains(&part).then_some(Place {
            pixel,
            before,
            after: (before + 1).min(cells - 1),
            weight: centre.fract(),
        })
    };
    (0..pixels).filter_map(place).collect()
}

/// The value of a map with `columns` columns at a place of its rows and one of its columns.
pub(super) fn sample(map: &[f32], columns: usize, row: &Place, column: &Place) -> f64 {
    let value = |row: usize, column: usize| f64::from(map[row * columns + column]);
    let along = |row| {
        mix(
            value(row, column.before),
            value(row, column.after),
            column.weight,
        )
    };
    mix(along(row.before), along(row.after), row.weight)
}

/// From `from` at weight 0 to `to` at weight 1.
pub(super) fn mix(from: f64, to: f64, weight: f64) -> f64 {
    (1.0 - weight) * from + weight * to
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map with steps up and down along both axes; float32 holds its values exactly.
    fn map(rows: usize, columns: usize) -> Vec<f32> {
        let value = |index| ((index * 5) % 12) as f32 * 0.5 - 2.0;
        (0..rows * columns).map(value).collect()
    }

    /// The map of (rows, columns) at the covered pixels of a picture of (height, width).
    fn resampled(
        (rows, columns): (usize, usize),
        (height, width): (u32, u32),
        (top, covered_height): (f64, f64),
        (left, covered_width): (f64, f64),
    ) -> Vec<(u32, u32, f64)> {
        let map = map(rows, columns);
        let across = places(width, left, covered_width, columns);
        places(height, top, covered_height, rows)
            .iter()
            .flat_map(|row| across.iter().map(move |column| (row, column)))
            .map(|(row, column)| (row.pixel, column.pixel, sample(&map, columns, row, column)))
            .collect()
    }

    fn whole(map: (usize, usize), size: (u32, u32)) -> Vec<(u32, u32, f64)> {
        resampled(map, size, (0.0, size.0.into()), (0.0, size.1.into()))
    }

    /// PyTorch's values, `interpolate(mode="bilinear", align_corners=False)` in float64, were
    /// printed with nine digits after the point, which is 5e-10; float64 itself adds 1e-15.
    fn assert_torch(ours: f64, torch: f64) {
        assert!((ours - torch).abs() < 1e-9, "{ours} is {torch} in PyTorch");
    }

    #[test]
    fn agrees_with_torch() {
        #[rustfmt::skip]
        let cases: [(_, _, &[f64]); 3] = [
            ((2, 3), (4, 5), &[
                -2.0, -1.0, 0.5, 2.0, 3.0,
                -1.625, -0.625, 0.875, 1.475, 1.875,
                -0.875, 0.125, 1.625, 0.425, -0.375,
                -0.5, 0.5, 2.0, -0.1, -1.5,
            ]),
            ((3, 2), (2, 3), &[
                -0.75, -0.25, 0.25,
                2.25, 0.5, -1.25,
            ]),
            ((1, 1), (2, 2), &[-2.0; 4]),
        ];
        for (map, size, torch) in cases {
            let ours = whole(map, size);
            assert_eq!(ours.len(), torch.len());
            for (&(_, _, ours), &torch) in ours.iter().zip(torch) {
                assert_torch(ours, torch);
            }
        }
    }

    #[test]
    fn agrees_with_torch_at_the_size_of_a_radiograph() {
        let ours = whole((5, 8), (2048, 2500));
        for (y, x, torch) in [
            (0, 0, -2.0),
            (2047, 2499, -0.5),
            (100, 411, 0.042),
            (1024, 1250, 1.743191016),
            (682, 2483, -0.167480469),
        ] {
            assert_torch(ours[y * 2500 + x].2, torch);
        }
    }

    #[test]
    fn covers_the_rectangle_alone() {
        // Rows 2 to 4 and columns 1 to 4 of a picture of 6 rows and 7 columns.
        let ours = resampled((2, 3), (6, 7), (2.0, 3.0), (1.0, 4.0));
        #[rustfmt::skip]
        let torch = [
            -2.0, -0.4375, 1.4375, 3.0,
            -1.25, 0.3125, 1.0625, 0.75,
            -0.5, 1.0625, 0.6875, -1.5,
        ];
        assert_eq!(ours.len(), torch.len());
        for (index, (&(y, x, ours), torch)) in ours.iter().zip(torch).enumerate() {
            assert_eq!((y as usize, x as usize), (2 + index / 4, 1 + index % 4));
            assert_torch(ours, torch);
        }
    }

    #[test]
    fn a_cut_pixel_is_covered_if_its_centre_is() {
        let pixels = |start, length| -> Vec<u32> {
            let places = places(6, start, length, 7);
            places.iter().map(|place| place.pixel).collect()
        };
        assert_eq!(pixels(1.4, 2.0), [1, 2]);
        assert_eq!(pixels(1.6, 2.0), [2, 3]);
        // A centre on the edge belongs to one side only.
        assert_eq!(pixels(1.5, 2.0), [1, 2]);
    }
}
