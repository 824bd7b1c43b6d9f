//! Asking a run to stop, and signals that do so.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use burn::train::Interrupter;

/// A handle that asks a run to stop; clones share it.
///
/// A training loop finishes its step, writes a snapshot and returns. Where no loop runs there is
/// nothing to save, and a signal ends the process at once.
///
/// ```
/// use burn_dist::train::Stop;
/// let stop = Stop::new();
/// stop.request();
/// assert!(stop.is_requested());
/// ```
#[derive(Clone, Default)]
pub struct Stop {
    interrupter: Interrupter,
    /// Whether a loop runs that will see the request.
    heeded: Arc<AtomicBool>,
    signal: Arc<AtomicI32>,
    hint: Arc<Mutex<Option<String>>>,
}

impl Stop {
    /// Nobody has asked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the run to stop after its current step.
    pub fn request(&self) {
        self.interrupter.stop(None);
    }

    /// Whether somebody has asked.
    pub fn is_requested(&self) -> bool {
        self.interrupter.should_stop()
    }

    /// What a user can do after a stop, such as the command that resumes; printed when a signal
    /// ends the process.
    pub fn set_hint(&self, hint: String) {
        *self.hint.lock().unwrap_or_else(PoisonError::into_inner) = Some(hint);
    }

    /// The hint, if there is one.
    pub fn hint(&self) -> Option<String> {
        let hint = self.hint.lock().unwrap_or_else(PoisonError::into_inner);
        hint.clone()
    }

    /// The exit code of a process that a signal has stopped: 130 after Ctrl-C, 143 after SIGTERM, by
    /// which Kubernetes and batch systems know it. `None` if no signal came.
    pub fn exit_code(&self) -> Option<u8> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            signal => u8::try_from(128 + signal).ok(),
        }
    }

    /// burn-train's handle of the same request.
    pub(super) fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// A signal waits for the loop while the guard lives.
    pub(super) fn heed(&self) -> Heeded {
        self.heeded.store(true, Ordering::SeqCst);
        Heeded(self.heeded.clone())
    }

    /// Lets Ctrl-C (SIGINT) and SIGTERM ask for the stop. A second signal, or one that comes while
    /// no training loop runs, ends the process at once. Everything is left to the system's own
    /// handling where there are no such signals.
    ///
    /// # Errors
    ///
    /// If the system does not let them be handled.
    #[cfg(unix)]
    pub fn on_signals(&self) -> io::Result<()> {
        use signal_hook::consts::{SIGINT, SIGTERM};

        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
        let stop = self.clone();
        let wait = move || {
            for signal in signals.forever() {
                stop.receive(
                    signal,
                    if signal == SIGINT {
                        "Ctrl-C"
                    } else {
                        "SIGTERM"
                    },
                );
            }
        };
        std::thread::Builder::new()
            .name("signals".to_string())
            .spawn(wait)?;
        Ok(())
    }

    /// Leaves Ctrl-C to the system.
    ///
    /// # Errors
    ///
    /// None.
    #[cfg(not(unix))]
    pub fn on_signals(&self) -> io::Result<()> {
        Ok(())
    }

    #[cfg(unix)]
    fn receive(&self, signal: i32, name: &str) {
        use crate::progress::write_line;

        let first = self.signal.swap(signal, Ordering::SeqCst) == 0;
        if first && self.heeded.load(Ordering::SeqCst) {
            write_line(&format!(
                "{name}: finishing the step and saving; once more ends at once"
            ));
            self.request();
            return;
        }
        self.end(signal, name);
    }

    /// Ends the process, if a signal has come that no loop has heeded: behind its last look.
    pub(super) fn end_if_signalled(&self) {
        match self.signal.load(Ordering::SeqCst) {
            0 => {}
            signal => self.end(signal, "a signal"),
        }
    }

    fn end(&self, signal: i32, name: &str) {
        use crate::progress::write_line;

        write_line(&format!("stopped by {name}"));
        if let Some(hint) = self.hint() {
            write_line(&hint);
        }
        std::process::exit(128 + signal);
    }
}

/// While it lives, a training loop watches for the request.
pub(super) struct Heeded(Arc<AtomicBool>);

impl Drop for Heeded {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}
