//! By what a process and the others of its job recognise each other.

use super::token::Token;
#[cfg(feature = "tls")]
use crate::tls::Tls;

/// A token, the run of the job, and TLS if it is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    pub token: Token,
    /// What tells this run of the job from others, if its launcher says so.
    pub run: Option<String>,
    #[cfg(feature = "tls")]
    pub tls: Option<Tls>,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The program cannot.
    #[error(
        "BURN_DIST_TLS is 1, but this program was built without TLS: build it with the feature tls of burn-dist-core, or unset BURN_DIST_TLS"
    )]
    NotBuilt,
    /// Nothing would tell the other side from a stranger.
    #[error(
        "BURN_DIST_TLS is 1, but no token is set, and without one anybody may be at the other end: give all processes one BURN_DIST_TOKEN"
    )]
    NoToken,
    /// The certificate cannot be made.
    #[error("BURN_DIST_TLS is 1, but no certificate can be made: {0}")]
    Certificate(std::io::Error),
}

impl TlsError {
    /// Why connections of this program cannot be encrypted with `token`; `None` if they can, as far as that is known
    /// before there is a certificate.
    pub fn of(token: &Token) -> Option<Self> {
        if !cfg!(feature = "tls") {
            return Some(Self::NotBuilt);
        }
        (!token.is_set()).then_some(Self::NoToken)
    }
}

impl Credentials {
    /// Recognises by `token` and `run`; encrypts with a new certificate, if `tls` is wanted.
    pub fn new(token: &Token, run: Option<&str>, tls: bool) -> Result<Self, TlsError> {
        if let Some(error) = TlsError::of(token).filter(|_| tls) {
            return Err(error);
        }
        Ok(Self {
            token: token.clone(),
            run: run.map(ToOwned::to_owned),
            #[cfg(feature = "tls")]
            tls: tls
                .then(Tls::new)
                .transpose()
                .map_err(TlsError::Certificate)?,
        })
    }

    /// Whether connections have to be encrypted.
    pub fn encrypt(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn tls_needs_a_token_and_a_program_that_can() {
        let (token, none) = (Token::new("secret"), Token::default());
        assert!(!Credentials::new(&none, None, false).unwrap().encrypt());
        let (outcome, without) = (
            Credentials::new(&token, None, true),
            Credentials::new(&none, None, true),
        );
        if cfg!(feature = "tls") {
            assert!(outcome.unwrap().encrypt());
            let text = without.unwrap_err().to_string();
            assert!(text.contains("BURN_DIST_TOKEN"), "{text}");
        } else {
            for text in [
                outcome.unwrap_err().to_string(),
                without.unwrap_err().to_string(),
            ] {
                assert!(text.contains("feature tls of burn-dist-core"), "{text}");
            }
        }
    }
}
