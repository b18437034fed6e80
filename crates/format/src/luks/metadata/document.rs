//! Between JSON and structs.

use data_encoding::BASE64;
use serde_json::{Map, Value, json};

use super::object::Object;
use super::{Area, Config, Digest, Keyslot, Segment};
use crate::FormatError;
use crate::error::{within, zero};
use crate::luks::kdf::{Argon2Kind, Hash, Kdf};
use crate::luks::{CipherSpec, UNIT, binary, limits};

/// The document of a JSON area, parsed within bounds of size and depth.
pub(super) fn parse(area: &[u8]) -> Result<Map<String, Value>, FormatError> {
    let end = area.iter().position(|&byte| byte == 0);
    let end = end.ok_or(FormatError::Inconsistent { what: "no zero byte ends the JSON area" })?;
    let (text, rest) = area.split_at(end);
    zero("JSON area behind its text", rest, end)?;
    if depth(text) > limits::JSON_DEPTH_MAX {
        return Err(FormatError::Inconsistent { what: "the JSON area is nested too deeply" });
    }
    serde_json::from_slice(text).map_err(|_| FormatError::Inconsistent { what: "the JSON area is not JSON" })
}

/// How deep objects and lists are nested, without parsing anything.
fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0usize, 0, false, false);
    for &byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Sizes, and what the header demands of programs that change or use it.
pub(super) fn config(config: Object<'_>, header_size: u64) -> Result<Config, FormatError> {
    if config.has("requirements") {
        let requirements = config.object("requirements")?;
        if requirements.has("mandatory")
            && let Some(name) = requirements.texts("mandatory")?.first()
        {
            return Err(FormatError::unsupported_name("requirement", name));
        }
    }
    let json_size = config.long("json_size")?;
    let expected = header_size - binary::header::LEN as u64;
    within("json_size", json_size, expected, expected)?;
    let keyslots_size = config.long("keyslots_size")?;
    within("keyslots_size", keyslots_size, 0, limits::KEYSLOTS_AREA_MAX)?;
    Ok(Config { json_size, keyslots_size })
}

/// A slot of type `luks2`.
pub(super) fn keyslot(keyslot: Object<'_>) -> Result<Keyslot, FormatError> {
    let af = keyslot.object("af")?;
    match af.text("type")? {
        "luks1" => {}
        other => return Err(FormatError::unsupported_name("anti-forensic splitter", other)),
    }
    af.bounded("stripes", limits::STRIPES.into(), limits::STRIPES.into())?;
    let area = keyslot.object("area")?;
    match area.text("type")? {
        "raw" => {}
        other => return Err(FormatError::unsupported_name("key slot area", other)),
    }
    let (offset, size) = area_range(area)?;
    let cost = keyslot.object("kdf")?;
    let (salt, kdf) = (cost.bytes("salt")?, self::kdf(cost)?);
    if let Kdf::Argon2 { .. } = kdf {
        within(
            "salt of Argon2",
            salt.len() as u64,
            limits::ARGON2_SALT_LEN_MIN as u64,
            limits::SALT_LEN_MAX as u64,
        )?;
    }
    let priority = match keyslot.has("priority") {
        true => keyslot.bounded("priority", 0, 2)? as u8,
        false => 1,
    };
    Ok(Keyslot {
        key_size: key_size(keyslot)?,
        af_hash: Hash::parse(af.text("hash")?)?,
        area: Area {
            offset,
            size,
            encryption: CipherSpec::parse(area.text("encryption")?)?,
            key_size: key_size(area)?,
        },
        salt,
        kdf,
        priority,
    })
}

fn key_size(of: Object<'_>) -> Result<u32, FormatError> {
    of.bounded("key_size", limits::KEY_LEN_MIN.into(), limits::KEY_LEN_MAX.into())
}

/// First byte and bytes of an area.
pub(super) fn area_range(area: Object<'_>) -> Result<(u64, u64), FormatError> {
    let (offset, size) = (area.long("offset")?, area.long("size")?);
    within("size", size, 1, limits::KEYSLOTS_AREA_MAX)?;
    if !offset.is_multiple_of(4096) {
        return Err(FormatError::Inconsistent { what: "a key slot area is not aligned" });
    }
    Ok((offset, size))
}

fn kdf(kdf: Object<'_>) -> Result<Kdf, FormatError> {
    let kind = match kdf.text("type")? {
        "pbkdf2" => {
            return Kdf::pbkdf2(Hash::parse(kdf.text("hash")?)?, kdf.number("iterations")?);
        }
        "argon2i" => Argon2Kind::I,
        "argon2id" => Argon2Kind::Id,
        other => return Err(FormatError::unsupported_name("key derivation", other)),
    };
    Kdf::argon2(kind, kdf.number("time")?, kdf.number("memory")?, kdf.number("cpus")?)
}

/// A segment; what is not plainly encrypted is refused by name.
pub(super) fn segment(segment: Object<'_>) -> Result<Segment, FormatError> {
    match segment.text("type")? {
        "crypt" => {}
        // Parts in clear, which a header has in the middle of a change.
        "linear" => {
            return Err(FormatError::unsupported_name("segment type", "linear (reencryption in progress)"));
        }
        other => return Err(FormatError::unsupported_name("segment type", other)),
    }
    if segment.has("integrity") {
        return Err(FormatError::unsupported_name("segment feature", "integrity (dm-integrity)"));
    }
    if segment.has("flags")
        && let Some(flag) = segment.texts("flags")?.first()
    {
        // Every flag that there is belongs to a change under way.
        return Err(FormatError::unsupported_name("segment flag", flag));
    }
    let size = match segment.text("size")? {
        "dynamic" => None,
        _ => Some(segment.long("size")?),
    };
    let sector_size = segment.bounded("sector_size", 512, 4096)?;
    let offset = segment.long("offset")?;
    let whole = u64::from(sector_size);
    if !sector_size.is_power_of_two()
        || !offset.is_multiple_of(UNIT)
        || !size.unwrap_or(0).is_multiple_of(whole)
        || size == Some(0)
        || offset.checked_add(size.unwrap_or(0)).is_none_or(|end| end > i64::MAX as u64)
    {
        return Err(FormatError::Inconsistent { what: "a segment is not made of whole sectors" });
    }
    Ok(Segment {
        offset,
        size,
        iv_tweak: segment.long("iv_tweak")?,
        encryption: CipherSpec::parse(segment.text("encryption")?)?,
        sector_size,
    })
}

/// A digest, or none for a type that this program does not know.
pub(super) fn digest(digest: Object<'_>) -> Result<Option<Digest>, FormatError> {
    let (keyslots, segments) = (digest.numbers("keyslots")?, digest.numbers("segments")?);
    if digest.text("type")? != "pbkdf2" {
        return Ok(None);
    }
    let (hash, iterations) = (Hash::parse(digest.text("hash")?)?, digest.number("iterations")?);
    Kdf::pbkdf2(hash, iterations)?;
    Ok(Some(Digest {
        keyslots,
        segments,
        hash,
        iterations: iterations as u32,
        salt: digest.bytes("salt")?,
        digest: digest.bytes("digest")?,
    }))
}

pub(super) fn numbers(ids: &[u32]) -> Value {
    ids.iter().map(|id| Value::from(id.to_string())).collect()
}

pub(super) fn of_config(config: Config) -> Value {
    json!({
        "json_size": config.json_size.to_string(),
        "keyslots_size": config.keyslots_size.to_string(),
    })
}

pub(super) fn of_segment(segment: &Segment) -> Value {
    json!({
        "type": "crypt",
        "offset": segment.offset.to_string(),
        "size": segment.size.map_or_else(|| "dynamic".to_owned(), |size| size.to_string()),
        "iv_tweak": segment.iv_tweak.to_string(),
        "encryption": segment.encryption.to_string(),
        "sector_size": segment.sector_size,
    })
}

pub(super) fn of_digest(digest: &Digest) -> Value {
    json!({
        "type": "pbkdf2",
        "keyslots": numbers(&digest.keyslots),
        "segments": numbers(&digest.segments),
        "hash": digest.hash.name(),
        "iterations": digest.iterations,
        "salt": BASE64.encode(&digest.salt),
        "digest": BASE64.encode(&digest.digest),
    })
}

pub(super) fn of_keyslot(keyslot: &Keyslot) -> Value {
    let mut kdf = match keyslot.kdf {
        Kdf::Pbkdf2 { hash, iterations } => {
            json!({"type": "pbkdf2", "hash": hash.name(), "iterations": iterations})
        }
        Kdf::Argon2 { kind, passes, memory_kib, lanes } => {
            json!({"type": kind.name(), "time": passes, "memory": memory_kib, "cpus": lanes})
        }
    };
    kdf["salt"] = Value::from(BASE64.encode(&keyslot.salt));
    let mut value = json!({
        "type": "luks2",
        "key_size": keyslot.key_size,
        "af": {"type": "luks1", "stripes": limits::STRIPES, "hash": keyslot.af_hash.name()},
        "area": {
            "type": "raw",
            "offset": keyslot.area.offset.to_string(),
            "size": keyslot.area.size.to_string(),
            "encryption": keyslot.area.encryption.to_string(),
            "key_size": keyslot.area.key_size,
        },
        "kdf": kdf,
    });
    if keyslot.priority != 1 {
        value["priority"] = Value::from(keyslot.priority);
    }
    value
}
