//! Images of every kind, made here, and files that are none.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::Cursor;

use chest_datasets::{GrayImage, Pixels};
use image::{DynamicImage, ExtendedColorType, ImageFormat};

/// 4 by 3 pixels as a file.
fn encode(pixels: &[u8], color: ExtendedColorType, format: ImageFormat) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    image::write_buffer_with_format(&mut file, pixels, 4, 3, color, format).unwrap();
    file.into_inner()
}

fn png(pixels: &[u8], color: ExtendedColorType) -> Vec<u8> {
    encode(pixels, color, ImageFormat::Png)
}

/// 16-bit samples as the encoder wants them.
fn native(samples: &[u16]) -> Vec<u8> {
    samples
        .iter()
        .flat_map(|sample| sample.to_ne_bytes())
        .collect()
}

fn decode(bytes: &[u8]) -> GrayImage {
    GrayImage::from_bytes(bytes, "i.png").unwrap()
}

fn message(bytes: &[u8]) -> String {
    GrayImage::from_bytes(bytes, "i.png")
        .unwrap_err()
        .to_string()
}

#[test]
fn eight_bit_pngs_become_grey_as_pillow_makes_them() {
    let grey: Vec<u8> = (0..12).map(|value| value * 20).collect();
    let image = decode(&png(&grey, ExtendedColorType::L8));
    assert_eq!((image.width(), image.height()), (4, 3));
    assert_eq!(image.pixels(), &Pixels::U8(grey.clone()));

    // Alpha is dropped, not blended.
    let with_alpha: Vec<u8> = grey.iter().flat_map(|&value| [value, value / 2]).collect();
    let image = decode(&png(&with_alpha, ExtendedColorType::La8));
    assert_eq!(image.pixels(), &Pixels::U8(grey.clone()));
    let rgba: Vec<u8> = grey
        .iter()
        .flat_map(|&value| [value, value, value, 7])
        .collect();
    let image = decode(&png(&rgba, ExtendedColorType::Rgba8));
    assert_eq!(image.pixels(), &Pixels::U8(grey));

    // Image.fromarray(...).convert("L") of these colours.
    let colors = [
        [255, 0, 0],
        [0, 255, 0],
        [0, 0, 255],
        [255, 255, 255],
        [1, 2, 3],
        [200, 100, 50],
    ];
    let rgb = [colors, colors].concat().concat();
    let luma = [76, 150, 29, 255, 2, 124];
    let image = decode(&png(&rgb, ExtendedColorType::Rgb8));
    assert_eq!(image.pixels(), &Pixels::U8([luma, luma].concat()));
}

#[test]
fn sixteen_bit_pngs_keep_their_depth() {
    let grey: Vec<u16> = (0..12).map(|value| value * 5957).collect();
    let image = decode(&png(&native(&grey), ExtendedColorType::L16));
    assert_eq!(image.pixels(), &Pixels::U16(grey.clone()));
    let with_alpha: Vec<u16> = grey.iter().flat_map(|&value| [value, 9]).collect();
    let image = decode(&png(&native(&with_alpha), ExtendedColorType::La16));
    assert_eq!(image.pixels(), &Pixels::U16(grey.clone()));

    for (color, alpha) in [
        (ExtendedColorType::Rgb16, None),
        (ExtendedColorType::Rgba16, Some(9)),
    ] {
        let samples: Vec<u16> = grey
            .iter()
            .flat_map(|&value| [value, value, value].into_iter().chain(alpha))
            .collect();
        let image = decode(&png(&native(&samples), color));
        assert_eq!(image.pixels(), &Pixels::U16(grey.clone()), "{color:?}");
    }
    let pure = [
        [65535, 0, 0],
        [0, 65535, 0],
        [0, 0, 65535],
        [65535, 65535, 65535],
    ];
    let rgb = native(&[pure, pure, pure].concat().concat());
    let image = decode(&png(&rgb, ExtendedColorType::Rgb16));
    // 65535 times 0.299, 0.587 and 0.114.
    assert_eq!(
        image.pixels(),
        &Pixels::U16([19595, 38469, 7471, 65535].repeat(3))
    );
}

/// A PNG as RFC 2083 has it, for kinds that the encoder does not make. `rows` have their filter
/// bytes.
fn raw_png(bit_depth: u8, color_type: u8, palette: &[u8], rows: &[u8]) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8], data: &[u8]| {
        file.extend((data.len() as u32).to_be_bytes());
        let body = [kind, data].concat();
        let mut crc = flate2::Crc::new();
        crc.update(&body);
        file.extend(&body);
        file.extend(crc.sum().to_be_bytes());
    };
    chunk(
        b"IHDR",
        &[0, 0, 0, 4, 0, 0, 0, 1, bit_depth, color_type, 0, 0, 0],
    );
    if !palette.is_empty() {
        chunk(b"PLTE", palette);
    }
    let mut compressed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut compressed, rows).unwrap();
    chunk(b"IDAT", &compressed.finish().unwrap());
    chunk(b"IEND", &[]);
    file
}

#[test]
fn pngs_of_few_bits_span_the_whole_range() {
    let image = decode(&raw_png(1, 0, &[], &[0, 0b0101_0000]));
    assert_eq!(image.pixels(), &Pixels::U8(vec![0, 255, 0, 255]));
    let image = decode(&raw_png(2, 0, &[], &[0, 0b00_01_10_11]));
    assert_eq!(image.pixels(), &Pixels::U8(vec![0, 85, 170, 255]));
    let image = decode(&raw_png(4, 0, &[], &[0, 0x0f, 0x18]));
    assert_eq!(image.pixels(), &Pixels::U8(vec![0, 255, 17, 136]));
}

#[test]
fn the_colours_of_a_palette_become_grey() {
    let palette = [255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 10, 10];
    let image = decode(&raw_png(8, 3, &palette, &[0, 3, 2, 1, 0]));
    assert_eq!(image.pixels(), &Pixels::U8(vec![10, 29, 150, 76]));
    let image = decode(&raw_png(2, 3, &palette, &[0, 0b11_10_01_00]));
    assert_eq!(image.pixels(), &Pixels::U8(vec![10, 29, 150, 76]));
}

#[test]
fn the_first_bytes_say_what_a_file_is_not_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("really-a-jpeg.png");
    for color in [ExtendedColorType::L8, ExtendedColorType::Rgb8] {
        let pixels = vec![90; 12 * usize::from(color.channel_count())];
        fs::write(&path, encode(&pixels, color, ImageFormat::Jpeg)).unwrap();
        let image = GrayImage::open(&path).unwrap();
        let Pixels::U8(grey) = image.pixels() else {
            panic!("a JPEG has 8 bit");
        };
        assert!(grey.iter().all(|value| value.abs_diff(90) <= 1), "{grey:?}");
    }
}

#[test]
fn a_file_that_is_cut_short_is_refused() {
    let grey: Vec<u8> = (0..12).collect();
    for (format, kind) in [(ImageFormat::Png, "PNG"), (ImageFormat::Jpeg, "JPEG")] {
        let file = encode(&grey, ExtendedColorType::L8, format);
        assert!(GrayImage::from_bytes(&file, "i.png").is_ok());
        for length in 8..file.len() {
            // A PNG without its last, empty chunk has all its pixels.
            if format == ImageFormat::Png && length >= file.len() - 12 {
                continue;
            }
            let message = message(&file[..length]);
            let expected = format!("i.png: the {kind} file is damaged or cut short: ");
            assert!(message.starts_with(&expected), "{length}: {message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }
}

#[test]
fn a_damaged_png_is_refused() {
    let mut file = png(&[7; 12], ExtendedColorType::L8);
    let middle = file.windows(4).position(|four| four == b"IDAT").unwrap() + 8;
    file[middle] ^= 0xff;
    assert!(message(&file).starts_with("i.png: the PNG file is damaged or cut short: "));
}

#[test]
fn files_that_are_no_images_are_refused_with_what_they_are() {
    assert_eq!(
        message(b""),
        "i.png: the file is empty (0 bytes): download it again"
    );
    let supported = if cfg!(feature = "dicom") {
        "PNG, JPEG and DICOM"
    } else {
        "PNG and JPEG"
    };
    assert_eq!(
        message(b"GIF89a\x01\x00\x01\x00"),
        format!("i.png: this is a Gif image, and only {supported} are read: convert the file")
    );
    assert_eq!(
        message(b"version https://git-lfs.github.com/spec/v1\noid"),
        format!(
            "i.png: this is no known image (it begins \"version https://\"), and only {supported} \
             are read: convert the file"
        )
    );
    assert_eq!(
        message(b"\n\xff"),
        format!(
            "i.png: this is no known image (it begins \"\\n\\xff\"), and only {supported} are \
             read: convert the file"
        )
    );
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("absent.png");
    assert_eq!(
        GrayImage::open(&absent).unwrap_err().to_string(),
        format!(
            "{}: the image cannot be read: No such file or directory (os error 2)",
            absent.display()
        )
    );
}

#[test]
fn an_image_beyond_any_radiograph_is_refused_before_it_is_decoded() {
    // Both are a few kilobytes: one value, compressed.
    for (image, size) in [
        (
            DynamicImage::new_luma8(20_000, 16),
            "20000x16 pixels in 320000 bytes",
        ),
        (
            DynamicImage::new_rgba16(16_384, 4_097),
            "16384x4097 pixels in 537001984 bytes",
        ),
    ] {
        let mut file = Cursor::new(Vec::new());
        image.write_to(&mut file, ImageFormat::Png).unwrap();
        assert_eq!(
            message(file.get_ref()),
            format!(
                "i.png: the image is {size} of memory, and at most 16384 pixels a side and \
                 536870912 bytes are read: make it smaller"
            )
        );
    }
}

#[cfg(not(feature = "dicom"))]
#[test]
fn a_dicom_object_needs_the_feature() {
    let object = [&[0; 128], &b"DICM"[..]].concat();
    assert_eq!(
        message(&object),
        "i.png: this is a DICOM object, and this program was built without the feature `dicom`: \
         build it with `--features dicom`"
    );
}

#[test]
fn pixels_have_to_fit_the_size() {
    let message = |width, height, pixels| {
        let image = GrayImage::new(width, height, Pixels::U8(vec![0; pixels]));
        image.unwrap_err().to_string()
    };
    assert_eq!(
        message(2, 3, 5),
        "5 pixels do not make an image of 2x3: give width times height of them, at least one"
    );
    assert_eq!(
        message(0, 3, 0),
        "0 pixels do not make an image of 0x3: give width times height of them, at least one"
    );
}
