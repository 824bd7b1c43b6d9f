//! `Debug` as `Display`, for errors that a program's `main` returns: the line that says what to do, and not how it is kept.

/// Implements `Debug` of errors by their `Display`.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_as_display {
    ($($error:ty),+ $(,)?) => {$(
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    )+};
}

#[cfg(test)]
mod tests {
    use crate::{CollectiveError, WorldError};

    #[test]
    fn what_main_prints_is_what_the_error_says() {
        let error = CollectiveError::argument("three of them");
        assert_eq!(format!("{error:?}"), "three of them");
        let error: Box<dyn std::error::Error> = WorldError::NoMeetingPoint(3).into();
        assert!(format!("{error:?}").starts_with("3 ranks, but no meeting point: "));
    }
}
