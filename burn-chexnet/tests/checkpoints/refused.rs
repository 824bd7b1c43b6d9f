//! What is no checkpoint, or not all of one network: one line that says what to do.

use std::path::Path;

use burn::tensor::Device;
use burn_chexnet::weights::{self, Checkpoint, Head, Metadata, Reference, WeightsError};

use super::{SEED, TINY_TENSORS, committed, seeded, tiny};

pub fn failure(path: &Path) -> (WeightsError, String) {
    let mut model = tiny().init(&Device::flex());
    let error = weights::load(&mut model, path).unwrap_err();
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    assert!(text.contains(path.to_str().unwrap()), "{text}");
    (error, text)
}

/// Whole modules, as TorchXRayVision publishes them: names of classes, and before 1.6 their source code.
pub const MODULES: [&str; 3] = ["module.pt", "module_legacy.pt", "xrv_module.pt"];

#[test]
fn a_pickled_module_is_refused_with_what_to_do() {
    for name in MODULES {
        let (_, text) = failure(&committed(name));
        assert!(
            text.contains("a whole pickled module")
                && text.contains("torch.save(model.state_dict(), \"weights.pth\")"),
            "{text}"
        );
    }
}

#[test]
fn files_of_other_programs_are_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.h5");
    for (content, part) in [
        (
            &b"\x89HDF\r\n\x1a\n0000"[..],
            "scripts/keras_to_safetensors.py",
        ),
        (b"PK\x03\x04 half a .docx", "copy or download it again"),
        (
            b"\x08\x07 an ONNX file",
            "neither that nor a safetensors file",
        ),
        (b"\x80\x02}q\x00.", "it holds no tensor"),
        (b"\x80\x02}q", "copy or download it again"),
    ] {
        std::fs::write(&path, content).unwrap();
        let (_, text) = failure(&path);
        assert!(text.contains(part), "{text}");
    }
    let whole = std::fs::read(committed("torchvision.pth")).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let (_, text) = failure(&path);
    assert!(text.contains("copy or download it again"), "{text}");
    let old = std::fs::read(committed("torchvision_old_keys.pth")).unwrap();
    std::fs::write(&path, &old[..old.len() - 100]).unwrap();
    let (_, text) = failure(&path);
    assert!(text.contains("copy or download it again"), "{text}");
    let zip = folder.path().join("letter.pth");
    let mut writer = zip::ZipWriter::new(std::fs::File::create(&zip).unwrap());
    let options = zip::write::SimpleFileOptions::default();
    writer.start_file("word/document.xml", options).unwrap();
    writer.finish().unwrap();
    let (_, text) = failure(&zip);
    assert!(text.contains("another kind of zip archive"), "{text}");
}

#[cfg(unix)]
#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    let (_, text) = failure(&path);
    assert!(text.contains("no regular file"), "{text}");
    let metadata = Metadata::read(&path).err().unwrap().to_string();
    let reference = Reference::open(&path).err().unwrap().to_string();
    for text in [metadata, reference] {
        assert!(text.contains("no regular file"), "{text}");
    }
}

/// Two classifiers: only a new one can be meant.
#[test]
fn of_two_classifiers_none_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.safetensors");
    let mut model = tiny().init(&Device::flex());
    let mut shapes = seeded::shapes(&model, folder.path());
    shapes.insert("fc.bias".to_string(), vec![14]);
    seeded::write(&path, &shapes, SEED);
    let (error, text) = failure(&path);
    let WeightsError::Mismatch { unexpected, .. } = error else {
        panic!("{text}");
    };
    assert_eq!(
        unexpected,
        ["classifier.bias", "classifier.weight", "fc.bias"]
    );
    let checkpoint = Checkpoint::open(&path).unwrap();
    let report = checkpoint.load_into(&mut model, &Head::New).unwrap();
    assert_eq!(report.loaded, TINY_TENSORS - 2);
    assert!(
        report.to_string().contains("several classifiers"),
        "{report}"
    );
    // What only looks like a part of a classifier is no part of the network.
    shapes.remove("fc.bias");
    shapes.insert("classifier.2.weight".to_string(), vec![14, 14]);
    seeded::write(&path, &shapes, SEED);
    let error = Checkpoint::open(&path)
        .unwrap()
        .load_into(&mut model, &Head::New);
    let text = error.unwrap_err().to_string();
    assert!(text.contains("first: classifier.2.weight"), "{text}");
}

#[test]
fn what_a_checkpoint_lacks_or_has_too_much_is_named_by_its_own_keys() {
    let mut deeper = tiny();
    deeper.blocks = vec![2, 3];
    let path = committed("arnoweng.pth.tar");
    let mut model = deeper.init(&Device::flex());
    let error = weights::load(&mut model, &path).unwrap_err();
    let WeightsError::Mismatch {
        missing,
        mismatched,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(missing.len(), 2 + 2 * 4);
    assert!(
        mismatched.contains(
            &"module.densenet121.classifier.0.weight: [14, 16] in the file, [14, 20] in the model"
                .to_string()
        ),
        "{mismatched:?}"
    );
    let mut shallower = tiny();
    shallower.blocks = vec![2, 1];
    let mut model = shallower.init(&Device::flex());
    let error = weights::load(&mut model, &path).unwrap_err();
    let WeightsError::Mismatch { unexpected, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(unexpected.len(), 2 + 2 * 4);
    assert!(unexpected[0].starts_with("module.densenet121.features.denseblock2.denselayer2."));
}

#[test]
fn two_networks_in_a_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.safetensors");
    let model = tiny().init(&Device::flex());
    let shapes = seeded::shapes(&model, folder.path());
    let two = shapes.iter().flat_map(|(name, shape)| {
        ["teacher", "student"].map(|who| (format!("{who}.{name}"), shape.clone()))
    });
    seeded::write(&path, &two.collect(), SEED);
    let (_, text) = failure(&path);
    assert!(text.contains("`student.` and `teacher.`"), "{text}");
}
