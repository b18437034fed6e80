//! Names and other texts: whatever is parsed has that one spelling.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strongroom_format::vault::names::{
    self, DirectoryRecord, NameEncoding, StoredName, side_name,
};
use strongroom_keys::RecoveryKey;

fuzz_target!(|data: &[u8]| {
    for encoding in [NameEncoding::Base64Url, NameEncoding::Base32Hex] {
        match encoding.parse(data) {
            Ok(StoredName::Short(sealed)) => {
                let stored = encoding.short_name(&sealed).expect("it was a short name");
                assert_eq!(stored.as_bytes(), data);
            }
            Ok(StoredName::Side(long)) => {
                assert_eq!(side_name(&long).as_bytes(), data);
                assert_eq!(encoding.parse(long.as_bytes()), Ok(StoredName::Long));
            }
            _ => {}
        }
        if let Ok(record) = DirectoryRecord::parse(data, encoding) {
            assert_eq!(record.to_name(encoding).as_bytes(), data);
        }
    }
    if let Ok(id) = names::parse_link_name(data) {
        assert_eq!(names::link_name(id).as_bytes(), data);
    }
    if let Ok(Some(sealed)) = names::parse_xattr_name(data) {
        assert_eq!(names::xattr_name(&sealed).as_deref().map(str::as_bytes), Some(data));
    }
    if let Ok(key) = RecoveryKey::parse(data) {
        assert!(RecoveryKey::parse(key.to_text().expose()).is_ok());
    }
});
