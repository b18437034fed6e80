//! Tests of [`super`].

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

const ENCODINGS: [NameEncoding; 2] = [NameEncoding::Base64Url, NameEncoding::Base32Hex];

#[test]
fn the_longest_short_name_fits_and_one_byte_more_does_not() {
    for (encoding, longest) in [(NameEncoding::Base64Url, 175), (NameEncoding::Base32Hex, 143)] {
        assert_eq!(encoding.short_name_max(), longest);
        let stored = encoding.short_name(&vec![7; longest + SIV_LEN]).expect("fits");
        assert!(stored.len() <= STORED_NAME_MAX);
        assert_eq!(encoding.short_name(&vec![7; longest + SIV_LEN + 1]), None);
        let over = encoding.encoding().encode(&vec![7; longest + SIV_LEN + 1]);
        assert!(over.len() > STORED_NAME_MAX);
        assert!(encoding.parse(over.as_bytes()).is_err());
    }
}

#[test]
fn long_names_and_their_side_files_are_told_from_short_ones() {
    for encoding in ENCODINGS {
        let long = encoding.long_name(&[0xa5; 32]);
        assert_eq!(long.len(), 33);
        assert_eq!(encoding.parse(long.as_bytes()), Ok(StoredName::Long));
        assert_eq!(encoding.parse(side_name(&long).as_bytes()), Ok(StoredName::Side(long.clone())));
        assert_eq!(long_name_of(side_name(&long).as_bytes()), Some(long.as_bytes()));
        assert_eq!(long_name_of(b".nfs00000000000a1b2c000000d4"), None);
        assert_ne!(encoding.parse(&long.as_bytes()[..32]), Ok(StoredName::Long));
        assert_ne!(encoding.parse(format!("{long}0").as_bytes()), Ok(StoredName::Long));
        assert!(encoding.parse(side_name(&long[..32]).as_bytes()).is_err());
        assert!(encoding.parse(format!("..n{long}").as_bytes()).is_err());
    }
}

#[test]
fn what_a_store_keeps_of_removed_files_is_nobodys() {
    for encoding in ENCODINGS {
        for name in [".fuse_hidden0000001f0000a2c4", ".nfs00000000000a1b2c000000d4"] {
            assert_eq!(encoding.parse(name.as_bytes()), Ok(StoredName::Remains));
            let others =
                [format!("{name}0"), name.to_uppercase(), name.replacen('.', "", 1), name[..15].into()];
            for other in others {
                assert_ne!(encoding.parse(other.as_bytes()), Ok(StoredName::Remains), "{other}");
            }
        }
    }
}

/// `tar -T`, `rm *` and their kind would take one for an option.
#[test]
fn no_name_begins_like_an_option() {
    // 62 << 2: the first six bits stand for `-`.
    for (len, letters) in [(17, 23), (24, 32), (26, 35), (48, 64)] {
        let mut sealed = vec![0; len];
        sealed[0] = 62 << 2;
        let stored = NameEncoding::Base64Url.short_name(&sealed).expect("fits");
        assert!(stored.starts_with("~A") && stored.len() == letters, "{stored}");
        assert_eq!(NameEncoding::Base64Url.parse(stored.as_bytes()), Ok(StoredName::Short(sealed)));
        let other = stored.replacen('~', "-", 1);
        assert!(NameEncoding::Base64Url.parse(other.as_bytes()).is_err());
        assert!(NameEncoding::Base32Hex.parse(stored.as_bytes()).is_err());
    }
    let record = DirectoryRecord { id: DirectoryId([62 << 2; 16]), home: [2; 16], mac: [3; 16] };
    let name = record.to_name(NameEncoding::Base64Url);
    assert!(name.starts_with('~'), "{name}");
    assert_eq!(DirectoryRecord::parse(name.as_bytes(), NameEncoding::Base64Url), Ok(record));
    let other = name.replacen('~', "-", 1);
    assert!(DirectoryRecord::parse(other.as_bytes(), NameEncoding::Base64Url).is_err());
}

#[test]
fn names_of_the_vault_itself_and_of_nobody() {
    for encoding in ENCODINGS {
        assert_eq!(encoding.parse(b".strongroom"), Ok(StoredName::VaultDirectory));
        assert_eq!(encoding.parse(b".id"), Ok(StoredName::DirectoryRecord));
        let other: [&[u8]; 7] = [b"", b".", b"..", b"~", b".n", b"README.md", b"\xff\xfe"];
        for name in other {
            assert!(encoding.parse(name).is_err(), "{}", name.escape_ascii());
        }
        // Sixteen bytes are a tag without a name.
        let empty = encoding.encoding().encode(&[0; SIV_LEN]);
        assert!(encoding.parse(empty.as_bytes()).is_err());
    }
}

#[test]
fn every_name_has_one_spelling() {
    let stored = NameEncoding::Base32Hex.short_name(&[0xff; 20]).expect("fits");
    assert!(NameEncoding::Base32Hex.parse(stored.to_uppercase().as_bytes()).is_err());
    // The last character of 17 bytes carries unused bits, which must be zero.
    let mut stored = NameEncoding::Base64Url.short_name(&[0; 17]).expect("fits");
    assert_eq!(stored.pop(), Some('A'));
    stored.push('B');
    assert!(NameEncoding::Base64Url.parse(stored.as_bytes()).is_err());
    assert!(NameEncoding::Base64Url.parse(format!("{}=", "A".repeat(23)).as_bytes()).is_err());
}

#[test]
fn directory_records_come_back() {
    let record = DirectoryRecord { id: DirectoryId([1; 16]), home: [2; 16], mac: [3; 16] };
    for (encoding, len) in [(NameEncoding::Base64Url, 64), (NameEncoding::Base32Hex, 77)] {
        let name = record.to_name(encoding);
        assert_eq!(name.len(), len);
        assert_eq!(DirectoryRecord::parse(name.as_bytes(), encoding), Ok(record));
        assert!(DirectoryRecord::parse(&name.as_bytes()[1..], encoding).is_err());
        let copy = format!("{name} (conflicted copy)");
        assert!(DirectoryRecord::parse(copy.as_bytes(), encoding).is_err());
        assert!(DirectoryRecord::parse(b"", encoding).is_err());
    }
}

#[test]
fn attribute_names_come_back_and_others_are_not_ours() {
    let longest = vec![1; XATTR_NAME_MAX + SIV_LEN];
    let stored = xattr_name(&longest).expect("fits");
    assert_eq!(parse_xattr_name(stored.as_bytes()), Ok(Some(longest)));
    assert_eq!(xattr_name(&[1; XATTR_NAME_MAX + SIV_LEN + 1]), None);
    assert_eq!(parse_xattr_name(b"user.other"), Ok(None));
    assert!(parse_xattr_name(b"user.strongroom.!").is_err());
    assert!(parse_xattr_name(b"user.strongroom.").is_err());
}

#[test]
fn journal_and_link_names_come_back() {
    let session = WriteSession([0xab; 12]);
    let name = journal_name(session, 1);
    assert_eq!(name, "journal.abababababababababababab.1");
    assert_eq!(parse_journal_name(name.as_bytes()), Some((session, 1)));
    for other in
        ["journal.abababababababababababab.2", "journal.ABababababababababababab.0", "journal.ab.0", "x"]
    {
        assert_eq!(parse_journal_name(other.as_bytes()), None);
    }
    assert_eq!(parse_link_name(link_name(FileId([9; 16])).as_bytes()), Ok(FileId([9; 16])));
    assert!(parse_link_name(b"abc").is_err());
}

proptest! {
    #[test]
    fn short_names_come_back(sealed in vec(any::<u8>(), SIV_LEN + 1..200)) {
        for encoding in ENCODINGS {
            if let Some(stored) = encoding.short_name(&sealed) {
                prop_assert!(stored.len() <= STORED_NAME_MAX && !stored.starts_with(['.', '-']));
                prop_assert!(!is_long_name(stored.as_bytes()));
                prop_assert_eq!(encoding.parse(stored.as_bytes()), Ok(StoredName::Short(sealed.clone())));
            }
        }
    }

    #[test]
    fn whatever_is_parsed_has_that_spelling(text in "[.~]{0,2}n?~?-?[0-9a-zA-V_-]{0,64}") {
        for encoding in ENCODINGS {
            if let Ok(StoredName::Short(sealed)) = encoding.parse(text.as_bytes()) {
                prop_assert_eq!(encoding.short_name(&sealed), Some(text.clone()));
            }
            if let Ok(record) = DirectoryRecord::parse(text.as_bytes(), encoding) {
                prop_assert_eq!(record.to_name(encoding), text.clone());
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        for encoding in ENCODINGS {
            let _ = encoding.parse(&bytes);
            let _ = DirectoryRecord::parse(&bytes, encoding);
        }
        let _ = parse_link_name(&bytes);
        let _ = parse_xattr_name(&bytes);
        let _ = parse_xattr_name(&[XATTR_PREFIX.as_bytes(), &bytes].concat());
        let _ = parse_journal_name(&bytes);
        let _ = parse_journal_name(&[JOURNAL_PREFIX.as_bytes(), &bytes].concat());
    }
}
