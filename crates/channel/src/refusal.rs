//! Why somebody is not let in, in words that can be counted.

use std::io;

use rustls::CertificateError;
use snafu::Snafu;

/// Why a channel was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Snafu, strum::IntoStaticStr, strum::EnumIter)]
#[strum(serialize_all = "camelCase")]
pub enum Refusal {
    /// No certificate was shown.
    #[snafu(display("no certificate was shown"))]
    NoCertificate,
    /// Something else than a certificate was.
    #[snafu(display("the certificate cannot be read"))]
    NotReadable,
    /// It says not, or not clearly, who it is for.
    #[snafu(display("the certificate does not say who it is for"))]
    NobodyKnown,
    /// It is for somebody of a cluster that is not known here.
    #[snafu(display("the certificate is of a cluster that is not known"))]
    UnknownCluster,
    /// It is for somebody who has no business here.
    #[snafu(display("the certificate is of somebody who is not let in"))]
    NotAdmitted,
    /// The authority of the cluster that it names did not sign it, or not for this use.
    #[snafu(display("the certificate is not signed by the authority of its cluster for this use"))]
    NotBelieved,
    /// It is over, or has not begun.
    #[snafu(display("the certificate is not valid now"))]
    NotValidNow,
    /// It is somebody else than was called.
    #[snafu(display("somebody else answered"))]
    SomebodyElse,
    /// The other end does not speak TLS, or not as it should.
    #[snafu(display("the other end does not speak TLS as it should"))]
    NotTls,
    /// It took too long.
    #[snafu(display("the other end was silent for too long"))]
    Silent,
    /// The other end said that it refuses.
    #[snafu(display("the other end refused"))]
    Refused,
    /// The connection broke.
    #[snafu(display("the connection was closed"))]
    Closed,
}

impl Refusal {
    /// What went wrong in a handshake. Whoever calls is done first, and learns only from the first thing it reads that it was
    /// not believed.
    pub fn of(error: &io::Error) -> Self {
        let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
            return Self::Closed;
        };
        match error {
            rustls::Error::NoCertificatesPresented => Self::NoCertificate,
            rustls::Error::InvalidCertificate(why) => Self::of_certificate(why),
            rustls::Error::AlertReceived(_) => Self::Refused,
            // There is nothing to show for the name that was asked for.
            rustls::Error::General(_) => Self::UnknownCluster,
            _ => Self::NotTls,
        }
    }

    /// What is wrong with a certificate.
    pub(crate) fn of_certificate(why: &CertificateError) -> Self {
        match why {
            CertificateError::Other(other) => {
                other.0.downcast_ref::<Self>().copied().unwrap_or(Self::NotBelieved)
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Self::NotValidNow,
            CertificateError::BadEncoding => Self::NotReadable,
            _ => Self::NotBelieved,
        }
    }
}
