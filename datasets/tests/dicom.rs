//! DICOM objects: made here, and two real ones.
#![cfg(feature = "dicom")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod real_data;

use chest_datasets::{GrayImage, Pixels};

const EXPLICIT_LITTLE_ENDIAN: &str = "1.2.840.10008.1.2.1";

/// One element in explicit VR, little endian (DICOM PS3.5, 7.1.2).
fn element(group: u16, number: u16, vr: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = [group.to_le_bytes(), number.to_le_bytes()].concat();
    bytes.extend(vr.as_bytes());
    let padding: &[u8] = match (value.len() % 2, vr) {
        (0, _) => &[],
        (_, "UI" | "OB" | "OW") => &[0],
        _ => b" ",
    };
    let length = (value.len() + padding.len()) as u32;
    if matches!(vr, "OB" | "OW") {
        bytes.extend([0, 0]);
        bytes.extend(length.to_le_bytes());
    } else {
        bytes.extend((length as u16).to_le_bytes());
    }
    bytes.extend(value);
    bytes.extend(padding);
    bytes
}

/// A grey image of 3 by 2 pixels with 12 of 16 bits.
struct Object {
    transfer_syntax: &'static str,
    photometric: &'static str,
    samples: [i16; 6],
    signed: bool,
    bits_stored: u16,
    rows: u16,
    frames: &'static str,
    slope: &'static str,
    intercept: &'static str,
    /// Centers and widths, one for each window.
    window: Option<(&'static str, &'static str)>,
}

const OBJECT: Object = Object {
    transfer_syntax: EXPLICIT_LITTLE_ENDIAN,
    photometric: "MONOCHROME2",
    samples: [0, 1, 2, 3, 4, 4],
    signed: false,
    bits_stored: 12,
    rows: 2,
    frames: "1",
    slope: "1",
    intercept: "0",
    window: None,
};

impl Object {
    fn bytes(&self) -> Vec<u8> {
        let meta = [
            element(2, 0x01, "OB", &[0, 1]),
            element(2, 0x02, "UI", b"1.2.840.10008.5.1.4.1.1.7"),
            element(2, 0x03, "UI", b"1.2.3.4"),
            element(2, 0x10, "UI", self.transfer_syntax.as_bytes()),
            element(2, 0x12, "UI", b"1.2.3.5"),
        ]
        .concat();
        let short = |number, value: u16| element(0x28, number, "US", &value.to_le_bytes());
        let text = |number, vr, value: &str| element(0x28, number, vr, value.as_bytes());
        let mut object = [
            short(0x0002, 1),
            text(0x0004, "CS", self.photometric),
            text(0x0008, "IS", self.frames),
            short(0x0010, self.rows),
            short(0x0011, 3),
            short(0x0100, 16),
            short(0x0101, self.bits_stored),
            short(0x0102, self.bits_stored.saturating_sub(1)),
            short(0x0103, u16::from(self.signed)),
        ]
        .concat();
        if let Some((center, width)) = self.window {
            object.extend(text(0x1050, "DS", center));
            object.extend(text(0x1051, "DS", width));
        }
        object.extend(text(0x1052, "DS", self.intercept));
        object.extend(text(0x1053, "DS", self.slope));
        let samples: Vec<u8> = self.samples.iter().flat_map(|s| s.to_le_bytes()).collect();
        object.extend(element(0x7FE0, 0x0010, "OW", &samples));
        let length = element(2, 0, "UL", &(meta.len() as u32).to_le_bytes());
        [vec![0; 128], b"DICM".to_vec(), length, meta, object].concat()
    }

    fn pixels(&self) -> Vec<u16> {
        let image = GrayImage::from_bytes(&self.bytes(), "i.dcm").unwrap();
        assert_eq!((image.width(), image.height()), (3, 2));
        match image.pixels() {
            Pixels::U16(pixels) => pixels.clone(),
            Pixels::U8(_) => panic!("a DICOM object becomes 16 bit"),
        }
    }

    fn message(&self) -> String {
        let message = GrayImage::from_bytes(&self.bytes(), "i.dcm")
            .unwrap_err()
            .to_string();
        assert!(!message.contains('\n'), "{message}");
        message
    }
}

#[test]
fn without_a_window_the_range_of_values_is_spread() {
    assert_eq!(OBJECT.pixels(), [0, 16384, 32768, 49151, 65535, 65535]);
    let flat = Object {
        samples: [7; 6],
        ..OBJECT
    };
    assert_eq!(flat.pixels(), [0; 6]);
}

#[test]
fn monochrome1_is_inverted() {
    let inverse = Object {
        photometric: "MONOCHROME1",
        ..OBJECT
    };
    assert_eq!(inverse.pixels(), [65535, 49151, 32768, 16384, 0, 0]);
}

#[test]
fn the_first_window_is_applied_to_rescaled_values() {
    // Values -1000 to 1000 in steps of 500; LINEAR (PS3.3, C.11.2.1.2.1) with center 0.5 and width
    // 1001 maps c - 0.5 + (y - 0.5) (w - 1): -500 to 0, 0 to one half, 500 to 1.
    let windowed = Object {
        samples: [0, 500, 1000, 1500, 2000, 1250],
        intercept: "-1000",
        window: Some(("0.5\\7", "1001\\9")),
        ..OBJECT
    };
    assert_eq!(windowed.pixels(), [0, 0, 32768, 65535, 65535, 49151]);
    let halved = Object {
        samples: [0, 1000, 2000, 3000, 4000, 2500],
        slope: "0.5",
        ..windowed
    };
    assert_eq!(halved.pixels(), [0, 0, 32768, 65535, 65535, 49151]);
}

#[test]
fn signed_values_keep_their_order() {
    let signed = Object {
        samples: [-2, -1, 0, 1, 2, 2],
        signed: true,
        ..OBJECT
    };
    assert_eq!(signed.pixels(), [0, 16384, 32768, 49151, 65535, 65535]);
}

#[test]
fn other_transfer_syntaxes_are_refused_by_name() {
    let jpeg_2000 = Object {
        transfer_syntax: "1.2.840.10008.1.2.4.90",
        ..OBJECT
    };
    assert_eq!(
        jpeg_2000.message(),
        "i.dcm: DICOM transfer syntax 1.2.840.10008.1.2.4.90 (JPEG 2000 Image Compression \
         (Lossless Only)) is not read: convert the object to Explicit VR Little Endian \
         (1.2.840.10008.1.2.1)"
    );
    let unknown = Object {
        transfer_syntax: "1.2.3",
        ..OBJECT
    };
    assert!(
        unknown
            .message()
            .starts_with("i.dcm: DICOM transfer syntax 1.2.3 (unknown) is not read"),
        "{}",
        unknown.message()
    );
}

#[test]
fn objects_without_one_grey_image_are_refused() {
    let rgb = Object {
        photometric: "RGB",
        ..OBJECT
    };
    assert_eq!(
        rgb.message(),
        "i.dcm: this DICOM object has no single grey image: its pixels are RGB, not MONOCHROME1 \
         or MONOCHROME2"
    );
    let film = Object {
        frames: "2",
        rows: 1,
        ..OBJECT
    };
    assert_eq!(
        film.message(),
        "i.dcm: this DICOM object has no single grey image: it has 2 frames, not one"
    );
    for bits_stored in [0, 17] {
        let bits = Object {
            bits_stored,
            ..OBJECT
        };
        assert_eq!(
            bits.message(),
            format!(
                "i.dcm: this DICOM object has no single grey image: its samples have \
                 {bits_stored} of 16 bits, not up to 8 or 16"
            )
        );
    }
    let giant = Object {
        rows: 20_000,
        ..OBJECT
    };
    assert!(
        giant.message().contains("3x20000 pixels"),
        "{}",
        giant.message()
    );
}

#[test]
fn an_object_that_is_cut_short_is_refused() {
    let bytes = OBJECT.bytes();
    for length in 132..bytes.len() {
        let message = GrayImage::from_bytes(&bytes[..length], "i.dcm")
            .unwrap_err()
            .to_string();
        assert!(
            message.starts_with("i.dcm: the DICOM file is damaged or cut short: "),
            "{length}: {message}"
        );
        assert!(!message.contains('\n'), "{message}");
    }
    let wrong = Object { rows: 3, ..OBJECT };
    assert!(
        wrong
            .message()
            .starts_with("i.dcm: the DICOM file is damaged or cut short: ")
    );
}

#[test]
fn the_two_real_objects_are_each_others_inverse() {
    let Some(data) = real_data::folder() else {
        return;
    };
    let [first, second] = ["monochrome1-jpeg", "monochrome2-jpeg"].map(|name| {
        let image = GrayImage::open(data.join(format!("dicom/{name}.dcm"))).unwrap();
        println!("{name}: {}x{}", image.width(), image.height());
        image
    });
    let (Pixels::U16(first), Pixels::U16(second)) = (first.pixels(), second.pixels()) else {
        panic!("a DICOM object becomes 16 bit");
    };
    // One radiograph, stored alike and declared once as the one and once as the other.
    assert_eq!(first.len(), 1024 * 1024);
    assert!(first.iter().any(|value| *value > 60_000));
    let inverse: Vec<u16> = second.iter().map(|value| 65535 - value).collect();
    let differences = first.iter().zip(&inverse).map(|(a, b)| a.abs_diff(*b));
    assert!(differences.max().unwrap() <= 1);
}
