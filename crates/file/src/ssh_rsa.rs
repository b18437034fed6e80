//! `ssh-rsa` keys that read. RSA-OAEP is AWS-LC's, whose time does not depend on
//! secrets. The `age` crate has it done by `rsa`, whose time does
//! (RUSTSEC-2023-0071); here that crate only brings a key's numbers into PKCS#8.
//!
//! Source: C2SP age, "ssh-rsa"; RFC 8017 section 7.1.2; RFC 4253 section 6.6.

use std::sync::OnceLock;

use age::{Callbacks, DecryptError};
use age_core::format::{FileKey, Stanza};
use age_core::secrecy::ExposeSecret;
use aws_lc_rs::rsa::{OAEP_SHA256_MGF1SHA256, OaepPrivateDecryptingKey, PrivateDecryptingKey};
use rsa::pkcs1::DecodeRsaPrivateKey;
use rsa::pkcs8::EncodePrivateKey;
use rsa::traits::PublicKeyParts;
use rsa::{BigUint, RsaPrivateKey};
use ssh_key::private::{KeypairData, RsaKeypair};
use ssh_key::public::{KeyData, RsaPublicKey};
use ssh_key::{Algorithm, Mpint, PrivateKey, PublicKey};
use strongroom_format::age::decode_base64;
use zeroize::Zeroizing;

use crate::passphrase;
use crate::ssh_tag::{is_tag, tag_of};

const KIND: &str = "ssh-rsa";
const LABEL: &[u8] = b"age-encryption.org/v1/ssh-rsa";
const PEM_BEGIN: &str = "-----BEGIN RSA PRIVATE KEY-----";
const PEM_END: &str = "-----END RSA PRIVATE KEY-----";

/// A key that opens `ssh-rsa` stanzas.
pub(crate) struct RsaIdentity<C> {
    tag: String,
    key: Key,
    name: String,
    callbacks: C,
}

enum Key {
    Open(Box<OaepPrivateDecryptingKey>),
    /// Its passphrase is asked for when a stanza names it, once.
    Encrypted(Box<PrivateKey>, OnceLock<OaepPrivateDecryptingKey>),
}

/// A key that AWS-LC does not take: not 2048 to 8192 bits long, or with numbers
/// that do not belong together.
pub(crate) struct Refused;

impl<C: Callbacks> RsaIdentity<C> {
    /// Of a file's text, as OpenSSH writes it today or as it once did; none when
    /// it holds another kind of key.
    pub(crate) fn of(text: &str, name: &str, callbacks: C) -> Result<Option<RsaIdentity<C>>, Refused> {
        let text = text.trim();
        let Some((public, key)) = of_pem(text)?.map_or_else(|| of_openssh(text), |found| Ok(Some(found)))?
        else {
            return Ok(None);
        };
        Ok(Some(RsaIdentity { tag: tag_of(&public), key, name: name.to_owned(), callbacks }))
    }

    fn opened(&self, sealed: &[u8]) -> Result<FileKey, DecryptError> {
        match &self.key {
            Key::Open(key) => file_key(key, sealed),
            Key::Encrypted(key, opened) => {
                if let Some(key) = opened.get() {
                    return file_key(key, sealed);
                }
                let known = opened;
                let typed = passphrase::asked(&self.callbacks, &passphrase::question(&self.name))?;
                let opened = key.decrypt(typed.expose_secret());
                let opened = opened.map_err(|_| DecryptError::KeyDecryptionFailed)?;
                let KeypairData::Rsa(pair) = opened.key_data() else {
                    return Err(DecryptError::KeyDecryptionFailed);
                };
                let key = of_pair(pair).map_err(|Refused| DecryptError::KeyDecryptionFailed)?;
                file_key(known.get_or_init(|| key), sealed)
            }
        }
    }
}

impl<C: Callbacks> age::Identity for RsaIdentity<C> {
    fn unwrap_stanza(&self, stanza: &Stanza) -> Option<Result<FileKey, DecryptError>> {
        if stanza.tag != KIND {
            return None;
        }
        match &stanza.args[..] {
            [tag] if *tag == self.tag => Some(self.opened(&stanza.body)),
            [tag] if is_tag(tag) => None,
            _ => Some(Err(DecryptError::InvalidHeader)),
        }
    }
}

type Found = (Vec<u8>, Key);

/// PKCS#1 in PEM, not encrypted.
fn of_pem(text: &str) -> Result<Option<Found>, Refused> {
    let body = text.strip_prefix(PEM_BEGIN).and_then(|rest| rest.strip_suffix(PEM_END));
    let Some(body) = body.filter(|body| !body.contains(':')) else { return Ok(None) };
    let joined = Zeroizing::new(body.split_ascii_whitespace().collect::<String>());
    let bytes = decode_base64(joined.trim_end_matches('=').as_bytes()).map_err(|_| Refused)?;
    let key = RsaPrivateKey::from_pkcs1_der(&Zeroizing::new(bytes)).map_err(|_| Refused)?;
    let number = |number: &BigUint| Mpint::from_positive_bytes(&number.to_bytes_be()).map_err(|_| Refused);
    let public = RsaPublicKey { e: number(key.e())?, n: number(key.n())? };
    let public = PublicKey::from(KeyData::Rsa(public)).to_bytes().map_err(|_| Refused)?;
    Ok(Some((public, Key::Open(Box::new(decrypting(&key)?)))))
}

fn of_openssh(text: &str) -> Result<Option<Found>, Refused> {
    // What is no such file is for others to refuse.
    let Ok(key) = PrivateKey::from_openssh(text) else { return Ok(None) };
    if !matches!(key.algorithm(), Algorithm::Rsa { .. }) {
        return Ok(None);
    }
    let public = key.public_key().to_bytes().map_err(|_| Refused)?;
    let key = match key.key_data() {
        KeypairData::Rsa(pair) => Key::Open(Box::new(of_pair(pair)?)),
        _ => Key::Encrypted(Box::new(key), OnceLock::new()),
    };
    Ok(Some((public, key)))
}

fn of_pair(pair: &RsaKeypair) -> Result<OaepPrivateDecryptingKey, Refused> {
    let number = |number: &Mpint| number.as_positive_bytes().map(BigUint::from_bytes_be).ok_or(Refused);
    let (public, private) = (&pair.public, &pair.private);
    let primes = vec![number(&private.p)?, number(&private.q)?];
    let key =
        RsaPrivateKey::from_components(number(&public.n)?, number(&public.e)?, number(&private.d)?, primes);
    decrypting(&key.map_err(|_| Refused)?)
}

fn decrypting(key: &RsaPrivateKey) -> Result<OaepPrivateDecryptingKey, Refused> {
    let document = key.to_pkcs8_der().map_err(|_| Refused)?;
    let key = PrivateDecryptingKey::from_pkcs8(document.as_bytes()).map_err(|_| Refused)?;
    OaepPrivateDecryptingKey::new(key).map_err(|_| Refused)
}

fn file_key(key: &OaepPrivateDecryptingKey, sealed: &[u8]) -> Result<FileKey, DecryptError> {
    let mut opened = Zeroizing::new(vec![0; key.min_output_size()]);
    let plain = key.decrypt(&OAEP_SHA256_MGF1SHA256, sealed, &mut opened, Some(LABEL));
    let plain = plain.map_err(|_| DecryptError::DecryptionFailed)?;
    let bytes: &[u8; 16] = (&*plain).try_into().map_err(|_| DecryptError::DecryptionFailed)?;
    Ok(FileKey::init_with_mut(|key| key.copy_from_slice(bytes)))
}
