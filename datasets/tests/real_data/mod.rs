//! The folder of real data, which is not part of the repository.

use std::path::PathBuf;

/// The folder that `CHEXNET_TEST_DATA` names; without it the test says that it is skipped.
pub fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("CHEXNET_TEST_DATA");
    if folder.is_none() {
        println!("skipped: CHEXNET_TEST_DATA is not set");
    }
    folder.map(PathBuf::from)
}
