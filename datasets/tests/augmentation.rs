//! Augmentation: what a draw does to pixels, against exact moves and against Pillow.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;

use chest_datasets::{Augmentation, Draw, epoch_order};

/// The middle of every range: nothing is moved, and a flip of probability 0 is not done.
const MIDDLE: Draw = Draw {
    flip: 0.5,
    rotation: 0.0,
    translation: [0.0; 2],
    scale: 0.0,
    brightness: 0.0,
};

/// Pixels without any pattern, `[size, size]`: the worst case of an interpolation.
fn noise(size: usize) -> Vec<u8> {
    let mut state = 1_u64;
    (0..size * size)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect()
}

fn applied(augmentation: Augmentation, pixels: &[u8], size: usize, draw: Draw) -> Vec<u8> {
    let mut pixels = pixels.to_vec();
    augmentation.apply(&mut pixels, size, draw);
    pixels
}

fn all() -> Augmentation {
    "flip=0.5,rotation=10,translation=0.1,scale=0.2,brightness=0.3"
        .parse()
        .unwrap()
}

#[test]
fn nothing_wanted_or_nothing_drawn_leaves_every_byte() {
    for size in [1, 2, 7, 64] {
        let pixels = noise(size);
        for image in 0..20 {
            let draw = Draw::new(42, 0, &image.to_string());
            assert_eq!(applied(Augmentation::none(), &pixels, size, draw), pixels);
        }
        // A rotation of 0, a scale of 1, a shift of 0 and a factor of 1.
        let unflipped = Augmentation { flip: 0.0, ..all() };
        assert_eq!(applied(unflipped, &pixels, size, MIDDLE), pixels);
    }
}

#[test]
fn a_flip_mirrors_every_row_and_twice_is_identity() {
    let always = Augmentation {
        flip: 1.0,
        ..Augmentation::none()
    };
    let pixels = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    let flipped = applied(always, &pixels, 3, MIDDLE);
    assert_eq!(flipped, [3, 2, 1, 6, 5, 4, 9, 8, 7]);
    for size in [1, 2, 7, 64] {
        let pixels = noise(size);
        let flipped = applied(always, &pixels, size, MIDDLE);
        assert_eq!(applied(always, &flipped, size, MIDDLE), pixels);
    }
}

#[test]
fn a_flip_within_a_motion_is_the_flip_and_then_the_motion() {
    let pixels = noise(33);
    let always = Augmentation {
        flip: 1.0,
        ..Augmentation::none()
    };
    let mut motion = all();
    for image in 0..20 {
        let draw = Draw::new(42, 0, &image.to_string());
        motion.flip = 1.0;
        let folded = applied(motion, &pixels, 33, draw);
        motion.flip = 0.0;
        let flipped = applied(always, &pixels, 33, draw);
        let one_after_the_other = applied(motion, &flipped, 33, draw);
        // Of equal value but for the last bits of a coordinate: a tie may be rounded otherwise.
        let worst = folded
            .iter()
            .zip(&one_after_the_other)
            .map(|(a, b)| a.abs_diff(*b));
        assert!(worst.max().unwrap() <= 1);
    }
}

#[test]
fn a_shift_by_whole_pixels_moves_pixels_and_leaves_black() {
    let shift = Augmentation {
        translation: 0.5,
        ..Augmentation::none()
    };
    let pixels: Vec<u8> = (1..=16).collect();
    let moved = |translation| {
        let draw = Draw {
            translation,
            ..MIDDLE
        };
        applied(shift, &pixels, 4, draw)
    };
    #[rustfmt::skip]
    assert_eq!(moved([0.5, 0.0]), [
        0, 1, 2, 3,
        0, 5, 6, 7,
        0, 9, 10, 11,
        0, 13, 14, 15,
    ]);
    #[rustfmt::skip]
    assert_eq!(moved([-0.5, 1.0]), [
        0, 0, 0, 0,
        0, 0, 0, 0,
        2, 3, 4, 0,
        6, 7, 8, 0,
    ]);
    // Half a pixel is the mean of two, rounded half up. At the left border there is only one, and
    // at the right border begins the outside.
    assert_eq!(moved([0.25, 0.0])[..4], [1, 2, 3, 4]);
    assert_eq!(moved([-0.25, 0.0])[..4], [2, 3, 4, 0]);
}

#[test]
fn a_positive_rotation_is_counter_clockwise_and_a_positive_scale_enlarges() {
    let range = Augmentation {
        rotation: 45.0,
        scale: 0.5,
        ..Augmentation::none()
    };
    // One bright pixel, right of the centre of 9 by 9.
    let mut pixels = vec![0; 81];
    pixels[4 * 9 + 7] = 255;
    let brightest = |draw| {
        let moved = applied(range, &pixels, 9, draw);
        let position = (0..81).max_by_key(|&position| moved[position]).unwrap();
        (position / 9, position % 9)
    };
    assert_eq!(brightest(MIDDLE), (4, 7));
    let rotated = Draw {
        rotation: 1.0,
        ..MIDDLE
    };
    assert_eq!(brightest(rotated), (2, 6));
    let reduced = Draw {
        scale: -2.0 / 3.0,
        ..MIDDLE
    };
    assert_eq!(brightest(reduced), (4, 6));
    let mut pixels = vec![0; 81];
    pixels[4 * 9 + 6] = 255;
    let enlarged = Draw {
        scale: 1.0,
        ..MIDDLE
    };
    assert_eq!(applied(range, &pixels, 9, enlarged)[4 * 9 + 7], 255);
}

#[test]
fn brightness_multiplies_rounds_half_up_and_ends_at_white() {
    let brightness = Augmentation {
        brightness: 0.5,
        ..Augmentation::none()
    };
    let pixels = [0, 1, 3, 101, 170, 171, 200, 254, 255];
    let with = |brightness_draw| {
        let draw = Draw {
            brightness: brightness_draw,
            ..MIDDLE
        };
        applied(brightness, &pixels, 3, draw)
    };
    assert_eq!(with(1.0), [0, 2, 5, 152, 255, 255, 255, 255, 255]);
    assert_eq!(with(-1.0), [0, 1, 2, 51, 85, 86, 100, 127, 128]);
    let whole = Augmentation {
        brightness: 1.0,
        ..brightness
    };
    let black = Draw {
        brightness: -1.0,
        ..MIDDLE
    };
    assert_eq!(applied(whole, &pixels, 3, black), [0; 9]);
}

#[test]
fn half_of_the_images_are_flipped_by_the_paper() {
    const IMAGES: usize = 10_000;
    let flips = |epoch| -> Vec<bool> {
        (0..IMAGES)
            .map(|image| {
                let draw = Draw::new(42, epoch, &format!("{image:08}_000.png"));
                applied(Augmentation::paper(), &[0, 1, 2, 3], 2, draw) == [1, 0, 3, 2]
            })
            .collect()
    };
    // Of a binomial count of 10,000 halves the standard deviation is 50; here are five of them.
    let bound = |count: usize| assert!(count.abs_diff(IMAGES / 2) <= 250, "{count}");
    let (first, second) = (flips(0), flips(1));
    bound(first.iter().filter(|flip| **flip).count());
    bound(second.iter().filter(|flip| **flip).count());
    // And one epoch says nothing of the next.
    bound(first.iter().zip(&second).filter(|(a, b)| a == b).count());
}

#[test]
fn an_image_is_changed_alike_in_every_order_and_selection_and_otherwise_in_another_epoch() {
    let names: Vec<String> = (0..50).map(|image| format!("{image}.png")).collect();
    let pixels = noise(16);
    let change = |epoch, name: &str| applied(all(), &pixels, 16, Draw::new(7, epoch, name));
    let in_turn: Vec<_> = names.iter().map(|name| change(0, name)).collect();
    let order = epoch_order(&(0..50).collect::<Vec<_>>(), 7, 0);
    for &index in order.iter().take(30) {
        assert_eq!(change(0, &names[index]), in_turn[index]);
        assert_ne!(change(1, &names[index]), in_turn[index]);
    }
}

#[test]
fn what_is_drawn_for_one_kind_does_not_depend_on_another() {
    let pixels = noise(16);
    let flip_only = Augmentation::paper();
    let with_brightness = Augmentation {
        brightness: 0.5,
        ..flip_only
    };
    let brightness_only = Augmentation {
        flip: 0.0,
        ..with_brightness
    };
    for image in 0..50 {
        let draw = Draw::new(7, 0, &image.to_string());
        let both = applied(with_brightness, &pixels, 16, draw);
        let flipped = applied(flip_only, &pixels, 16, draw);
        assert_eq!(both, applied(brightness_only, &flipped, 16, draw));
    }
}

#[test]
#[should_panic(expected = "6 pixels are not 2 by 2")]
fn pixels_that_are_no_square_are_a_bug_of_the_caller() {
    Augmentation::paper().apply(&mut [0; 6], 2, MIDDLE);
}

/// A motion as it is drawn: whether flipped, and the parts of the ranges below.
type Drawn = (bool, f32, [f32; 2], f32);

const ROTATION: f32 = 32.0;
const TRANSLATION: f32 = 0.25;
const SCALE: f32 = 0.5;

#[test]
fn every_pixel_of_a_moved_image_is_pillows() {
    let found = Command::new("python3")
        .args(["-c", "import PIL, numpy"])
        .output();
    if !found.is_ok_and(|output| output.status.success()) {
        println!("skipped: python3 with Pillow and NumPy is not installed");
        return;
    }
    let cases: [Drawn; 8] = [
        (false, 0.25, [0.0; 2], 0.0),
        (false, -1.0, [0.0; 2], 0.0),
        (true, 0.1, [0.0; 2], 0.0),
        (false, 0.0, [0.13, -0.71], 0.0),
        (false, 0.0, [0.0; 2], 0.37),
        (false, 0.0, [0.0; 2], -0.83),
        (false, 0.31, [0.11, 0.52], -0.29),
        (true, -0.77, [-0.93, 0.07], 0.61),
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("noise.png");
    for size in [65, 224] {
        let pixels = noise(size);
        image::save_buffer(
            &file,
            &pixels,
            size as u32,
            size as u32,
            image::ColorType::L8,
        )
        .unwrap();
        let output = Command::new("python3")
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/reference/affine_pil.py"
            ))
            .arg(&file)
            .args(cases.map(|(flip, rotation, [right, down], scale)| {
                let pixels = |part: f32| f64::from(TRANSLATION * part) * size as f64;
                format!(
                    "{},{},{},{},{}",
                    u8::from(flip),
                    f64::from(ROTATION * rotation),
                    pixels(right),
                    pixels(down),
                    1.0 + f64::from(SCALE * scale)
                )
            }))
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(output.stdout.len(), cases.len() * size * size);
        for (case, reference) in cases.iter().zip(output.stdout.chunks(size * size)) {
            let (flip, rotation, translation, scale) = *case;
            let augmentation = Augmentation {
                flip: f32::from(u8::from(flip)),
                rotation: ROTATION,
                translation: TRANSLATION,
                scale: SCALE,
                brightness: 0.0,
            };
            let draw = Draw {
                rotation,
                translation,
                scale,
                ..MIDDLE
            };
            let own = applied(augmentation, &pixels, size, draw);
            let differences: Vec<u8> = own
                .iter()
                .zip(reference)
                .map(|(a, b)| a.abs_diff(*b))
                .filter(|difference| *difference != 0)
                .collect();
            // The same arithmetic, but Pillow stores the values in 32 bit: about 1 in 65536 lies
            // within that error of a tie and is rounded to the next grey level.
            println!("{size}, {case:?}: {} pixels differ", differences.len());
            assert!(differences.iter().all(|difference| *difference == 1));
            assert!(differences.len() * 1000 <= size * size);
        }
    }
}
