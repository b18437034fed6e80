//! `cpa` beside the headers of QATlib, where these and a C compiler are installed: sizes, offsets and constants,
//! and the types of the functions.
#![forbid(unsafe_code)]

use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use strongroom_engine_qat::cpa::{
    self, AuthSetup, CipherSetup, HashSetup, NestedSetup, OpData, SessionSetup, status,
};

/// What is asked of the headers, and what it is here.
#[derive(Default)]
struct Asked {
    questions: String,
    answers: Vec<(String, usize)>,
}

impl Asked {
    fn ask(&mut self, how: &str, arguments: &str, name: String, here: usize) {
        self.questions.push_str(&format!("{how}({arguments});\n"));
        self.answers.push((name, here));
    }
}

macro_rules! structure {
    ($asked:ident, $rust:ident, $c:literal, { $($field:ident: $member:literal),* $(,)? }) => {
        $asked.ask("SIZE", $c, $c.to_owned(), size_of::<$rust>());
        $($asked.ask(
            "OFFSET",
            concat!($c, ", ", $member),
            concat!($c, ".", $member).to_owned(),
            offset_of!($rust, $field),
        );)*
    };
}

fn structures(asked: &mut Asked) {
    structure!(asked, CipherSetup, "CpaCySymCipherSetupData", {
        algorithm: "cipherAlgorithm", key_len: "cipherKeyLenInBytes", key: "pCipherKey",
        direction: "cipherDirection",
    });
    structure!(asked, AuthSetup, "CpaCySymHashAuthModeSetupData", {
        key: "authKey", key_len: "authKeyLenInBytes", ad_len: "aadLenInBytes",
    });
    structure!(asked, NestedSetup, "CpaCySymHashNestedModeSetupData", {
        inner: "pInnerPrefixData", inner_len: "innerPrefixLenInBytes",
        outer_algorithm: "outerHashAlgorithm", outer: "pOuterPrefixData",
        outer_len: "outerPrefixLenInBytes",
    });
    structure!(asked, HashSetup, "CpaCySymHashSetupData", {
        algorithm: "hashAlgorithm", mode: "hashMode", digest_len: "digestResultLenInBytes",
        auth: "authModeSetupData", nested: "nestedModeSetupData",
    });
    structure!(asked, SessionSetup, "CpaCySymSessionSetupData", {
        priority: "sessionPriority", operation: "symOperation", cipher: "cipherSetupData",
        hash: "hashSetupData", chain_order: "algChainOrder", digest_is_appended: "digestIsAppended",
        verify_digest: "verifyDigest", partials_not_required: "partialsNotRequired",
    });
    structure!(asked, OpData, "CpaCySymDpOpData", {
        reserved0: "reserved0", crypto_start: "cryptoStartSrcOffsetInBytes",
        crypto_len: "messageLenToCipherInBytes", iv: "iv", reserved1: "reserved1",
        hash_start: "hashStartSrcOffsetInBytes", hash_len: "messageLenToHashInBytes",
        ad: "additionalAuthData", digest: "digestResult", instance: "instanceHandle",
        session: "sessionCtx", iv_len: "ivLenInBytes", source: "srcBuffer", source_len: "srcBufferLen",
        target: "dstBuffer", target_len: "dstBufferLen", this: "thisPhys", iv_here: "pIv",
        ad_here: "pAdditionalAuthData", tag: "pCallbackTag",
    });
}

fn constants(asked: &mut Asked) {
    for (name, here) in [
        ("CPA_STATUS_SUCCESS", status::SUCCESS),
        ("CPA_STATUS_FAIL", status::FAIL),
        ("CPA_STATUS_RETRY", status::RETRY),
        ("CPA_STATUS_RESOURCE", status::RESOURCE),
        ("CPA_STATUS_INVALID_PARAM", status::INVALID_PARAM),
        ("CPA_STATUS_FATAL", status::FATAL),
        ("CPA_STATUS_UNSUPPORTED", status::UNSUPPORTED),
        ("CPA_STATUS_RESTARTING", status::RESTARTING),
    ] {
        asked.ask("VALUE", name, name.to_owned(), here as isize as usize);
    }
    for (name, here) in [
        ("CPA_FALSE", cpa::FALSE),
        ("CPA_TRUE", cpa::TRUE),
        ("CPA_CY_PRIORITY_HIGH", cpa::PRIORITY_HIGH),
        ("CPA_CY_SYM_OP_CIPHER", cpa::operation::CIPHER),
        ("CPA_CY_SYM_OP_ALGORITHM_CHAINING", cpa::operation::ALGORITHM_CHAINING),
        ("CPA_CY_SYM_CIPHER_AES_CBC", cpa::cipher::AES_CBC),
        ("CPA_CY_SYM_CIPHER_AES_CTR", cpa::cipher::AES_CTR),
        ("CPA_CY_SYM_CIPHER_AES_GCM", cpa::cipher::AES_GCM),
        ("CPA_CY_SYM_CIPHER_AES_XTS", cpa::cipher::AES_XTS),
        ("CPA_CY_SYM_CIPHER_DIRECTION_ENCRYPT", cpa::direction::ENCRYPT),
        ("CPA_CY_SYM_CIPHER_DIRECTION_DECRYPT", cpa::direction::DECRYPT),
        ("CPA_CY_SYM_HASH_AES_GCM", cpa::HASH_AES_GCM),
        ("CPA_CY_SYM_HASH_MODE_AUTH", cpa::HASH_MODE_AUTH),
        ("CPA_CY_SYM_ALG_CHAIN_ORDER_CIPHER_THEN_HASH", cpa::CIPHER_THEN_HASH),
    ] {
        asked.ask("VALUE", name, name.to_owned(), here as usize);
    }
    for (name, here) in [
        ("sizeof(CpaBoolean)", size_of::<cpa::Boolean>()),
        ("sizeof(CpaStatus)", size_of::<cpa::Status>()),
        ("sizeof(CpaPhysicalAddr)", size_of::<cpa::Address>()),
    ] {
        asked.ask("VALUE", name, name.to_owned(), here);
    }
}

#[test]
fn what_crosses_the_interface_is_as_the_headers_say() {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let has_headers = Command::new(&compiler)
        .args(["-fsyntax-only", "-x", "c", "-include", "qat/cpa_cy_sym_dp.h", "-include", "qat/qae_mem.h"])
        .arg("/dev/null")
        .output();
    match has_headers {
        Err(error) => return println!("not run: no C compiler `{compiler}`: {error}"),
        Ok(tried) if !tried.status.success() => {
            return println!("not run: no headers of QATlib (Debian's libqat-dev and libusdm-dev have them)");
        }
        Ok(_) => {}
    }
    let mut asked = Asked::default();
    structures(&mut asked);
    constants(&mut asked);
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("asked.h"), &asked.questions).expect("written");
    let program = directory.path().join("interface");
    let built = Command::new(&compiler)
        .args(["-std=gnu11", "-Wall", "-Werror", "-I"])
        .arg(directory.path())
        .arg(here.join("interface.c"))
        .arg("-o")
        .arg(&program)
        .output()
        .expect("it was found before");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let told = Command::new(&program).output().expect("it runs");
    let expected: String =
        asked.answers.iter().map(|(name, here)| format!("{name} {}\n", *here as isize)).collect();
    assert_eq!(String::from_utf8_lossy(&told.stdout), expected);
    println!("compared: {} sizes, offsets and constants", asked.answers.len());
}
