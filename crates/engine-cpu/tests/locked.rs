//! Where AWS-LC keeps the key schedules that it allocates. In a program of its
//! own, since it can be told once, before it allocates anything.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use strongroom_engine_cpu::keep_library_keys_locked;
use strongroom_memory::standing;

#[test]
fn aws_lc_allocates_in_locked_memory() {
    let key = |byte| LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[byte; 32]).expect("32 bytes"));
    assert_eq!(standing().bytes, 0, "nothing is locked yet");
    assert!(keep_library_keys_locked());
    assert_eq!(standing().bytes, 0, "that alone allocates nothing");
    let keys: Vec<_> = (0..100).map(key).collect();
    assert!(standing().bytes >= 100 * 240, "an expanded AES-256 key has 240 bytes: {:?}", standing());
    let mut sealed = vec![7; 1000];
    let nonce = || Nonce::assume_unique_for_key([1; 12]);
    let tag = keys[99].seal_in_place_separate_tag(nonce(), Aad::empty(), &mut sealed).expect("short");
    drop(keys);
    let opened = key(99).open_in_place_separate_tag(nonce(), Aad::empty(), tag.as_ref(), &mut sealed);
    assert!(opened.is_ok() && sealed == [7; 1000]);
    assert!(!keep_library_keys_locked(), "once");
}
