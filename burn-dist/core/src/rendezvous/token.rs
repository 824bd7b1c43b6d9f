//! What the processes of a job know, and strangers do not.

use std::fmt::{Debug, Formatter};
use std::path::PathBuf;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::environment::Environment;

/// The token of a job: `BURN_DIST_TOKEN`, or the content of the file `BURN_DIST_TOKEN_FILE`.
///
/// It is never sent: each side of a connection proves that it knows it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Token(Vec<u8>);

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("the token file {} of BURN_DIST_TOKEN_FILE cannot be read: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file has nothing in it.
    #[error("the token file {} of BURN_DIST_TOKEN_FILE is empty", .0.display())]
    Empty(PathBuf),
    /// Both are set.
    #[error("BURN_DIST_TOKEN and BURN_DIST_TOKEN_FILE are both set: unset one")]
    Both,
}

impl Token {
    /// The token of this process; an unset one where the environment has none.
    ///
    /// # Errors
    ///
    /// If the file that it names cannot be read or is empty, or there are two.
    pub fn of(environment: &Environment) -> Result<Self, TokenError> {
        let (text, file) = (
            environment.text("BURN_DIST_TOKEN"),
            environment.text("BURN_DIST_TOKEN_FILE"),
        );
        match (text, file) {
            (Some(_), Some(_)) => Err(TokenError::Both),
            (Some(text), None) => Ok(Self::new(text)),
            (None, None) => Ok(Self::default()),
            (None, Some(path)) => {
                let path = PathBuf::from(path);
                match std::fs::read_to_string(&path) {
                    Ok(text) if text.trim().is_empty() => Err(TokenError::Empty(path)),
                    Ok(text) => Ok(Self::new(text.trim())),
                    Err(error) => Err(TokenError::File { path, error }),
                }
            }
        }
    }

    /// A token of this text.
    pub fn new(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }

    /// Whether there is one.
    pub fn is_set(&self) -> bool {
        !self.0.is_empty()
    }

    /// What only who knows the token can make of `parts`: HMAC-SHA256 (RFC 2104), each part with its length before it.
    pub(super) fn proof(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.mac(parts).finalize().into_bytes().into()
    }

    /// Whether `proof` is that of `parts`, in a time that tells nothing.
    pub(super) fn verifies(&self, parts: &[&[u8]], proof: &[u8; 32]) -> bool {
        self.mac(parts).verify_slice(proof).is_ok()
    }

    #[allow(clippy::expect_used)]
    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes any key");
        for part in parts {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }
}

impl Debug for Token {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_set() {
            "Token(set)"
        } else {
            "Token(unset)"
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Token, TokenError> {
        Token::of(&variables.iter().copied().collect())
    }

    #[test]
    fn proofs_are_of_a_token_and_of_what_is_said() {
        let (one, other) = (Token::new("one"), Token::new("other"));
        let proof = one.proof(&[b"client", b"nonce"]);
        assert!(one.verifies(&[b"client", b"nonce"], &proof));
        assert!(!other.verifies(&[b"client", b"nonce"], &proof));
        assert!(!one.verifies(&[b"clientn", b"once"], &proof));
    }

    #[test]
    fn a_token_comes_from_a_variable_or_a_file_and_is_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let name = path.to_str().unwrap();
        assert!(!of(&[]).unwrap().is_set());
        let missing = of(&[("BURN_DIST_TOKEN_FILE", name)])
            .unwrap_err()
            .to_string();
        assert!(missing.contains(name), "{missing}");
        std::fs::write(&path, "\n").unwrap();
        assert!(matches!(
            of(&[("BURN_DIST_TOKEN_FILE", name)]),
            Err(TokenError::Empty(_))
        ));
        std::fs::write(&path, "secret\n").unwrap();
        let token = of(&[("BURN_DIST_TOKEN_FILE", name)]).unwrap();
        assert_eq!(token, of(&[("BURN_DIST_TOKEN", "secret")]).unwrap());
        assert!(!format!("{token:?}").contains("secret"));
        let both = of(&[("BURN_DIST_TOKEN", "a"), ("BURN_DIST_TOKEN_FILE", name)]);
        assert!(matches!(both, Err(TokenError::Both)));
    }
}
