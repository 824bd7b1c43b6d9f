//! Operations of several threads take turns, in the order in which they were called.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct Numbers {
    called: u64,
    done: u64,
}

/// Hands out numbers and lets their owners go on in order.
#[derive(Debug, Default)]
pub(super) struct Turns {
    numbers: Mutex<Numbers>,
    done: Condvar,
}

/// The right to operate; the next has it when this is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a Turns);

impl Turns {
    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        // Numbers are whole at any time.
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of an operation; `and_then` is done before anybody else gets one.
    pub fn take<R>(&self, and_then: impl FnOnce(u64) -> R) -> R {
        let mut numbers = self.numbers();
        let number = numbers.called;
        numbers.called += 1;
        and_then(number)
    }

    /// Waits until all operations before `number` are done.
    pub fn wait(&self, number: u64) -> Turn<'_> {
        let mut numbers = self.numbers();
        while numbers.done < number {
            numbers = self
                .done
                .wait(numbers)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Turn(self)
    }

    /// Operations that were called.
    pub fn called(&self) -> u64 {
        self.numbers().called
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.numbers().done += 1;
        self.0.done.notify_all();
    }
}
