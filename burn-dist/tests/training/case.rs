//! A run with everything that holds a state, and ways to stop it.

use std::path::Path;

use burn::data::dataloader::DataLoader;
use burn::optim::ModuleOptimizer;
use burn_dist::optimizer::Adam;
use burn_dist::train::Snapshots;
use serde_json::{Value, json};

use super::*;
use net::Rows;

/// Asks to stop after a number of steps, as another process or a signal would.
pub struct StopAfter(pub usize, pub AtomicUsize);

impl Replica<Net> for StopAfter {
    fn agree(&self, stop: bool) -> Result<bool, DistributedError> {
        Ok(stop || self.1.load(Ordering::Relaxed) == self.0)
    }

    fn reduce(
        &self,
        _: &Net,
        contribution: Option<Contribution>,
        vote: Vote,
    ) -> Result<Reduced, DistributedError> {
        let steps = self.1.fetch_add(1, Ordering::Relaxed) + 1;
        let stop = vote.stop || steps == self.0;
        Ok(contribution.unwrap().alone(Vote { stop, ..vote }))
    }
}

/// Keeps what it has seen in snapshots.
#[derive(Clone, Default)]
pub struct Journal {
    pub epochs: Arc<Mutex<Vec<usize>>>,
    /// Snapshots taken.
    pub snapshots: Arc<AtomicUsize>,
    pub fail: bool,
}

impl Observer<Net> for Journal {
    fn validated(&mut self, _: &Output) -> Result<(), String> {
        Ok(())
    }

    fn epoch_ended(&mut self, summary: &EpochSummary, _: &Net) -> Result<(), String> {
        self.epochs.lock().unwrap().push(summary.epoch);
        Ok(())
    }

    fn state(&self) -> Value {
        self.snapshots.fetch_add(1, Ordering::Relaxed);
        json!(*self.epochs.lock().unwrap())
    }

    fn resume(&mut self, state: &Value, best: Option<f64>) -> Result<(), String> {
        let epochs: Vec<usize> = serde_json::from_value(state.clone()).unwrap();
        assert_eq!(best.is_some(), !epochs.is_empty());
        *self.epochs.lock().unwrap() = epochs;
        match self.fail {
            true => Err("best.safetensors is gone".to_string()),
            false => Ok(()),
        }
    }
}

pub struct Case<'a> {
    pub folder: &'a Path,
    pub model: Net,
    pub optimizer: ModuleOptimizer,
    pub training: Arc<dyn DataLoader<Rows>>,
    pub rate: f64,
}

impl<'a> Case<'a> {
    /// Everything that holds a state: dropout, a shuffling loader, momenta, running statistics,
    /// plateau, accumulation, and an epoch that ends with a short step.
    pub fn new(folder: &'a Path) -> Self {
        Self {
            folder,
            model: Net::with_dropout(0.3, &Device::flex()),
            optimizer: Adam::default().into(),
            training: net::loader_of(rows(50), 4, Some(5)),
            rate: 1e-2,
        }
    }

    pub fn snapshots(&self) -> Snapshots {
        Snapshots::new(self.folder).configuration(json!({"rows": 50}))
    }

    pub fn setup(&self) -> Training<Net> {
        let mut plateau = Plateau::new(0.5, 0);
        plateau.threshold = 0.9;
        let rate = LearningRate::new(self.rate).schedule(Schedule::Plateau(plateau));
        Training::new(self.folder, Device::flex())
            .epochs(4)
            .learning_rate(rate)
            .accumulation(2)
            .seed(3)
            .snapshots(self.snapshots())
    }

    pub fn launch(
        self,
        change: impl FnOnce(Training<Net>) -> Training<Net>,
        journal: &Journal,
    ) -> Result<Trained<Net>, TrainError> {
        let training = change(self.setup());
        training.launch(
            self.model,
            self.optimizer,
            self.training,
            loader(rows(20)),
            journal.clone(),
        )
    }

    /// Goes on from the newest snapshot.
    pub fn resume(self, journal: &Journal) -> Result<Trained<Net>, TrainError> {
        let snapshot = self.snapshots().newest()?;
        assert!(snapshot.is_some());
        self.launch(|training| training.resume(snapshot), journal)
    }
}

/// The figures of the epochs but for the time they took.
pub fn figures(trained: &Trained<Net>) -> Vec<EpochSummary> {
    let mut epochs = trained.epochs.clone();
    epochs.iter_mut().for_each(|epoch| epoch.seconds = 0.0);
    epochs
}

pub fn stopped_after(folder: &Path, steps: usize) -> Trained<Net> {
    let replica = Arc::new(StopAfter(steps, AtomicUsize::new(0)));
    let trained = Case::new(folder)
        .launch(|training| training.replica(replica), &Journal::default())
        .unwrap();
    assert_eq!((trained.steps, trained.ending), (steps, Ending::Stopped));
    trained
}

pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
