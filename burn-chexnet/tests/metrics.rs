//! Metrics against scikit-learn, against plain pair counting, and on real CheXNet predictions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use burn_chexnet::metrics::{MetricError, RocPoint, auroc, delong, evaluate, roc_curve};
use flate2::read::GzDecoder;
use proptest::prelude::*;

/// The rows of a comma-separated table without quotes, the header first.
fn table(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split(',').collect()).collect()
}

fn number(field: &str) -> Option<f64> {
    (!field.is_empty()).then(|| field.parse().unwrap())
}

#[track_caller]
fn assert_close(name: &str, ours: Option<f64>, reference: Option<f64>, tolerance: f64) {
    match (ours, reference) {
        (Some(ours), Some(reference)) => assert!(
            (ours - reference).abs() <= tolerance,
            "{name}: {ours} instead of {reference}"
        ),
        _ => assert_eq!(ours, reference, "{name}"),
    }
}

mod synthetic {
    //! `reference/metrics_golden.py` made the data and the expected values.
    use super::*;

    const ROC_POINTS: f64 = 1e-12;

    fn read(name: &str) -> String {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        fs::read_to_string(data.join(name)).unwrap()
    }

    /// Label names, probabilities and targets, the last two as `[rows, labels]`.
    fn golden() -> (Vec<String>, Vec<f32>, Vec<Option<bool>>) {
        let text = read("metrics_golden.csv");
        let rows = table(&text);
        let labels = rows[0]
            .iter()
            .filter_map(|column| column.strip_suffix(" score").map(str::to_owned))
            .collect();
        let entries = rows[1..].iter().flat_map(|row| row.chunks(2));
        let (probabilities, targets) = entries
            .map(|entry| {
                let target = number(entry[1]).map(|target| target == 1.0);
                (entry[0].parse::<f32>().unwrap(), target)
            })
            .unzip();
        (labels, probabilities, targets)
    }

    #[test]
    fn evaluation_equals_scikit_learn_and_textbook_delong() {
        let (labels, probabilities, targets) = golden();
        let evaluation = evaluate(&labels, &probabilities, &targets).unwrap();

        let text = read("metrics_golden_expected.csv");
        let expected = &table(&text)[1..];
        assert_eq!(evaluation.labels.len(), expected.len());
        for (ours, reference) in evaluation.labels.iter().zip(expected) {
            let label = reference[0];
            assert_eq!(ours.label, label);
            let counts = [ours.positives, ours.negatives, ours.unknown];
            assert_eq!(counts.map(|count| count.to_string()), reference[1..4]);
            assert_close(label, ours.auroc, number(reference[4]), 1e-12);
            assert_close(label, ours.standard_error, number(reference[5]), 1e-12);
            assert_close(label, ours.ci_low, number(reference[6]), 1e-12);
            assert_close(label, ours.ci_high, number(reference[7]), 1e-12);
        }

        let areas: Vec<f64> = expected.iter().filter_map(|row| number(row[4])).collect();
        assert_eq!(areas.len(), 8);
        let mean = areas.iter().sum::<f64>() / 8.0;
        assert_close("mean", evaluation.mean_auroc, Some(mean), 1e-12);
        assert_eq!(evaluation.undefined, 2);
    }

    #[test]
    fn roc_curves_equal_scikit_learn() {
        let (labels, probabilities, targets) = golden();
        let text = read("metrics_golden_roc.csv");
        let rows = &table(&text)[1..];
        let curves: Vec<_> = rows.chunk_by(|a, b| a[0] == b[0]).collect();
        assert_eq!(curves.len(), 5);
        for reference in curves {
            let column = labels.iter().position(|label| label == reference[0][0]);
            let column = (column.unwrap()..targets.len()).step_by(labels.len());
            let (scores, positive): (Vec<f32>, Vec<bool>) = column
                .filter_map(|entry| Some((probabilities[entry], targets[entry]?)))
                .unzip();
            let ours = roc_curve(&scores, &positive).unwrap();
            assert_eq!(ours.len(), reference.len(), "{}", reference[0][0]);
            for (ours, reference) in ours.iter().zip(reference) {
                let (name, x, y) = (reference[0], number(reference[1]), number(reference[2]));
                assert_close(name, Some(ours.false_positive_rate), x, ROC_POINTS);
                assert_close(name, Some(ours.true_positive_rate), y, ROC_POINTS);
                assert_eq!(ours.threshold, reference[3].parse::<f32>().unwrap());
            }
        }
    }
}

mod real {
    //! Published predictions of a CheXNet on 22,433 X-rays, with the labels of NIH's v2020 table.
    use super::*;

    fn unpack(path: &Path) -> String {
        let mut text = String::new();
        let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        GzDecoder::new(file).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn evaluation_equals_the_published_values() {
        let Some(data) = std::env::var_os("CHEXNET_TEST_DATA").map(PathBuf::from) else {
            println!("skipped: CHEXNET_TEST_DATA is not set");
            return;
        };
        let label_table = unpack(&data.join("nih-labels/Data_Entry_2017_v2020.csv.gz"));
        let findings: HashMap<&str, &str> = table(&label_table)[1..]
            .iter()
            .map(|row| (row[0], row[1]))
            .collect();
        let prediction_table = unpack(&data.join("metrics/preds.csv.gz"));
        let predictions = table(&prediction_table);
        let labels: Vec<&str> = predictions[0][1..]
            .iter()
            .map(|column| column.strip_prefix("prob_").unwrap())
            .collect();
        let mut probabilities: Vec<f32> = Vec::new();
        let mut targets = Vec::new();
        for row in &predictions[1..] {
            probabilities.extend(row[1..].iter().map(|field| field.parse::<f32>().unwrap()));
            let of_image: Vec<&str> = findings[row[0]].split('|').collect();
            targets.extend(labels.iter().map(|label| Some(of_image.contains(label))));
        }

        let evaluation = evaluate(&labels, &probabilities, &targets).unwrap();

        let golden = fs::read_to_string(data.join("metrics/golden_metrics.csv")).unwrap();
        let golden = &table(&golden)[1..];
        assert_eq!(golden.len(), 14);
        for (ours, reference) in evaluation.labels.iter().zip(golden) {
            let label = reference[0];
            assert_eq!(ours.label, label);
            assert_eq!((ours.positives + ours.negatives).to_string(), reference[1]);
            assert_eq!(ours.positives.to_string(), reference[2]);
            assert_close(label, ours.auroc, number(reference[3]), 1e-9);
            assert_close(label, ours.standard_error, number(reference[5]), 1e-6);
            assert_close(label, ours.ci_low, number(reference[6]), 1e-6);
            assert_close(label, ours.ci_high, number(reference[7]), 1e-6);
        }
        assert_close("mean", evaluation.mean_auroc, Some(0.8382671332), 1e-9);
    }
}

mod properties {
    //! Random scores with many ties against the definition over all pairs, in O(n²).
    use super::*;

    /// Share of a pair that each (positive, negative) pair wins: 1, ½ in a tie, or 0.
    fn pairs(rows: &[(f32, bool)]) -> Vec<Vec<f64>> {
        let of = |class| {
            rows.iter()
                .filter(move |row| row.1 == class)
                .map(|row| row.0)
        };
        let won = |positive: f32, negative: f32| {
            f64::from(u8::from(positive > negative) + u8::from(positive >= negative)) / 2.0
        };
        of(true)
            .map(|positive| of(false).map(|negative| won(positive, negative)).collect())
            .collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    fn variance_of_mean(values: &[f64]) -> f64 {
        let mean = mean(values);
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        squares / (values.len() - 1) as f64 / values.len() as f64
    }

    fn area_under(curve: &[RocPoint]) -> f64 {
        curve
            .windows(2)
            .map(|pair| {
                let width = pair[1].false_positive_rate - pair[0].false_positive_rate;
                width * (pair[0].true_positive_rate + pair[1].true_positive_rate) / 2.0
            })
            .sum()
    }

    fn rows() -> impl Strategy<Value = Vec<(f32, bool)>> {
        let score = prop_oneof![(-3i8..4).prop_map(f32::from), -1.0f32..1.0];
        prop::collection::vec((score, any::<bool>()), 0..60)
    }

    proptest! {
        #[test]
        fn equal_to_counting_all_pairs(rows in rows()) {
            let (scores, positive): (Vec<f32>, Vec<bool>) = rows.iter().copied().unzip();
            let area = auroc(&scores, &positive).unwrap();
            let interval = delong(&scores, &positive).unwrap();
            let curve = roc_curve(&scores, &positive).unwrap();

            let pairs = pairs(&rows);
            if pairs.first().is_none_or(Vec::is_empty) {
                prop_assert_eq!((area, interval, curve.len()), (None, None, 0));
                return Ok(());
            }
            let of_positives: Vec<f64> = pairs.iter().map(|row| mean(row)).collect();
            let of_negatives: Vec<f64> = (0..pairs[0].len())
                .map(|column| mean(&pairs.iter().map(|row| row[column]).collect::<Vec<_>>()))
                .collect();
            assert_close("AUROC", area, Some(mean(&of_positives)), 1e-12);
            assert_close("area under the curve", Some(area_under(&curve)), area, 1e-12);

            let reference = (of_positives.len() > 1 && of_negatives.len() > 1)
                .then(|| variance_of_mean(&of_positives) + variance_of_mean(&of_negatives));
            let variance = interval.map(|interval| interval.standard_error.powi(2));
            assert_close("variance", variance, reference, 1e-12);
        }

        #[test]
        fn negated_scores_mirror_the_area(rows in rows()) {
            let (scores, positive): (Vec<f32>, Vec<bool>) = rows.iter().copied().unzip();
            let negated: Vec<f32> = scores.iter().map(|score| -score).collect();
            let area = auroc(&scores, &positive).unwrap();
            let mirrored = auroc(&negated, &positive).unwrap();
            assert_close("AUROC", mirrored, area.map(|area| 1.0 - area), 1e-12);
        }
    }
}

#[test]
fn wrong_input_is_an_error_and_infinity_is_a_score() {
    assert_eq!(
        auroc(&[0.1, f32::NAN], &[true, false]),
        Err(MetricError::NotANumber { row: 1 })
    );
    let lengths = MetricError::Lengths {
        scores: 2,
        labels: 1,
    };
    assert_eq!(auroc(&[0.1, 0.2], &[true]), Err(lengths.clone()));
    assert_eq!(delong(&[0.1, 0.2], &[true]), Err(lengths.clone()));
    assert_eq!(roc_curve(&[0.1, 0.2], &[true]), Err(lengths));

    let scores = [f32::NEG_INFINITY, f32::MIN, f32::MAX, f32::INFINITY];
    let area = auroc(&scores, &[false, false, true, true]).unwrap();
    assert_eq!(area, Some(1.0));
    let curve = roc_curve(&scores, &[false, false, true, true]).unwrap();
    let thresholds: Vec<f32> = curve[1..]
        .iter()
        .rev()
        .map(|point| point.threshold)
        .collect();
    assert_eq!(thresholds, scores);
}

#[test]
fn evaluate_names_what_is_wrong() {
    let error = evaluate::<&str>(&[], &[], &[]).unwrap_err();
    assert_eq!(error, MetricError::NoLabels);

    let labels = ["Mass", "Hernia"];
    let error = evaluate(&labels, &[0.1; 3], &[Some(true); 3]).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("3 probabilities and 3 targets for 2 labels"),
        "{message}"
    );
    assert!(evaluate(&labels, &[0.1; 4], &[Some(true); 2]).is_err());

    let error = evaluate(&labels, &[0.1, 0.2, 0.3, f32::NAN], &[None; 4]).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("`Hernia` in row 1"), "{message}");
}

#[test]
fn without_rows_everything_is_undefined() {
    let evaluation = evaluate(&["Mass", "Hernia"], &[], &[]).unwrap();
    assert_eq!((evaluation.mean_auroc, evaluation.undefined), (None, 2));
}

#[test]
fn the_table_shows_every_label_and_what_is_left_out() {
    let labels = ["Pleural_Thickening", "Hernia", "Mass"];
    let probabilities = [
        0.9, 0.2, 0.5, 0.4, 0.1, 0.4, 0.6, 0.3, 0.3, 0.7, 0.2, 0.2, 0.1, 0.6, 0.1,
    ];
    let targets = [
        [true, false, true],
        [false, false, false],
        [true, false, false],
        [false, false, false],
        [false, false, false],
    ];
    let targets: Vec<_> = targets.concat().into_iter().map(Some).collect();
    let evaluation = evaluate(&labels, &probabilities, &targets).unwrap();
    assert_eq!(
        evaluation.to_string(),
        "\
label                   AUROC     95 % interval  positives  negatives
Pleural_Thickening     0.8333  0.3714 to 1.0000          2          3
Hernia              undefined         undefined          0          5
Mass                   1.0000         undefined          1          4
mean                   0.9167  1 of 3 undefined, left out"
    );
}

#[test]
fn one_label_has_a_table_too() {
    let targets = [Some(false), Some(false), Some(true), Some(true)];
    let evaluation = evaluate(&["Pneumonia"], &[0.1, 0.2, 0.3, 0.4], &targets).unwrap();
    assert_eq!(
        evaluation.to_string(),
        "\
label          AUROC     95 % interval  positives  negatives
Pneumonia     1.0000  1.0000 to 1.0000          2          2
mean          1.0000"
    );
}

#[cfg(feature = "weights")]
#[test]
fn an_evaluation_survives_serialisation() {
    let targets = [Some(true), Some(false), Some(false), None];
    let evaluation = evaluate(&["Mass", "Hernia"], &[0.7, 0.2, 0.3, 0.1], &targets).unwrap();
    let json = serde_json::to_string(&evaluation).unwrap();
    assert!(json.contains(r#""auroc":null"#), "{json}");
    let back: burn_chexnet::metrics::Evaluation = serde_json::from_str(&json).unwrap();
    assert_eq!(back, evaluation);
}
