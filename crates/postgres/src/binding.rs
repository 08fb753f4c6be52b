//! What a login is bound to.

use sha2::{Digest as _, Sha256, Sha384, Sha512};

/// `tls-server-end-point` (RFC 5929, section 4.1): the hash of the server's certificate, by the function that its
/// signature uses, and by SHA-256 instead of MD5 and SHA-1. `None` if the signature does not say which it uses.
pub(crate) fn server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    // Certificate ::= SEQUENCE { tbsCertificate, signatureAlgorithm SEQUENCE { algorithm OBJECT IDENTIFIER, … }, … }
    let (fields, _) = element(certificate)?;
    let (_, fields) = element(fields)?;
    let (algorithm, _) = element(fields)?;
    let (identifier, _) = element(algorithm)?;
    Some(match identifier {
        // RSA (RFC 8017) with MD5, SHA-1 or SHA-256; ECDSA (RFC 5758) with SHA-1 or SHA-256.
        b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x04"
        | b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05"
        | b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b"
        | b"\x2a\x86\x48\xce\x3d\x04\x01"
        | b"\x2a\x86\x48\xce\x3d\x04\x03\x02" => Sha256::digest(certificate).to_vec(),
        // With SHA-384.
        b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0c" | b"\x2a\x86\x48\xce\x3d\x04\x03\x03" => {
            Sha384::digest(certificate).to_vec()
        }
        // With SHA-512.
        b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d" | b"\x2a\x86\x48\xce\x3d\x04\x03\x04" => {
            Sha512::digest(certificate).to_vec()
        }
        _ => return None,
    })
}

/// The content of the first element, and what follows it, in DER.
fn element(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&[_, length], rest) = der.split_first_chunk()?;
    // Above 127 it is the length of the length.
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            let add = |sum, byte: &u8| sum << 8 | usize::from(*byte);
            (length.iter().fold(0, add), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use rcgen::{
        CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519,
        SignatureAlgorithm,
    };

    use super::*;

    fn certificate(algorithm: &'static SignatureAlgorithm) -> Vec<u8> {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificate_is_hashed_by_the_function_of_its_signature() {
        let of_256 = certificate(&PKCS_ECDSA_P256_SHA256);
        let hash = Sha256::digest(&of_256).to_vec();
        assert_eq!(server_end_point(&of_256), Some(hash));
        let of_384 = certificate(&PKCS_ECDSA_P384_SHA384);
        let hash = Sha384::digest(&of_384).to_vec();
        assert_eq!(server_end_point(&of_384), Some(hash));
        assert_eq!(server_end_point(&certificate(&PKCS_ED25519)), None);
    }

    #[test]
    fn what_is_no_certificate_binds_nothing() {
        let whole = certificate(&PKCS_ECDSA_P256_SHA256);
        for length in [0, 1, 2, 4, 10, whole.len() / 2] {
            assert_eq!(server_end_point(&whole[..length]), None, "{length}");
        }
    }
}
