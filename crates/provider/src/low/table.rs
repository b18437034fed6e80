//! Every cipher's table, and which of them are offered.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::OnceLock;

use super::abi::{
    Algorithm, CIPHER_CIPHER, CIPHER_DECRYPT_INIT, CIPHER_DUPCTX, CIPHER_ENCRYPT_INIT, CIPHER_FINAL,
    CIPHER_FREECTX, CIPHER_GET_CTX_PARAMS, CIPHER_GET_PARAMS, CIPHER_GETTABLE_CTX_PARAMS,
    CIPHER_GETTABLE_PARAMS, CIPHER_NEWCTX, CIPHER_SET_CTX_PARAMS, CIPHER_SETTABLE_CTX_PARAMS, CIPHER_UPDATE,
    Dispatch, Table,
};
use super::context;
use crate::cbc::Cbc;
use crate::chacha::ChaCha;
use crate::cipher::{Cipher, Shape};
use crate::ctr::Ctr;
use crate::gcm::Gcm;
use crate::xts::Xts;

/// What the default properties of a configuration ask for (docs/provider.md).
const PROPERTIES: &CStr = c"provider=strongroom";

/// Something with a table for each cipher.
struct Functions<C>(std::marker::PhantomData<C>);

impl<C: Cipher> Functions<C> {
    const TABLE: &'static Table<Dispatch, 15> = &Table([
        Dispatch::new(CIPHER_NEWCTX, context::newctx::<C> as *const c_void),
        Dispatch::new(CIPHER_ENCRYPT_INIT, context::encrypt_init::<C> as *const c_void),
        Dispatch::new(CIPHER_DECRYPT_INIT, context::decrypt_init::<C> as *const c_void),
        Dispatch::new(CIPHER_UPDATE, context::update::<C> as *const c_void),
        Dispatch::new(CIPHER_FINAL, context::finish::<C> as *const c_void),
        Dispatch::new(CIPHER_CIPHER, context::raw::<C> as *const c_void),
        Dispatch::new(CIPHER_FREECTX, context::freectx::<C> as *const c_void),
        Dispatch::new(CIPHER_DUPCTX, context::dupctx::<C> as *const c_void),
        Dispatch::new(CIPHER_GET_PARAMS, context::get_params::<C> as *const c_void),
        Dispatch::new(CIPHER_GET_CTX_PARAMS, context::get_ctx_params::<C> as *const c_void),
        Dispatch::new(CIPHER_SET_CTX_PARAMS, context::set_ctx_params::<C> as *const c_void),
        Dispatch::new(CIPHER_GETTABLE_PARAMS, context::gettable_params as *const c_void),
        Dispatch::new(CIPHER_GETTABLE_CTX_PARAMS, context::gettable_ctx_params::<C> as *const c_void),
        Dispatch::new(CIPHER_SETTABLE_CTX_PARAMS, context::settable_ctx_params::<C> as *const c_void),
        Dispatch::END,
    ]);

    fn offered() -> (Shape, *const Dispatch) {
        (C::SHAPE, Functions::<C>::TABLE.0.as_ptr())
    }
}

/// The algorithms, ending as C has it.
struct Algorithms(Vec<Algorithm>);

// SAFETY: nothing in it changes, and what it points at is static.
unsafe impl Send for Algorithms {}
// SAFETY: as above.
unsafe impl Sync for Algorithms {}

/// Those whose known answers come out on this machine; the others fall to
/// OpenSSL's next provider.
pub(super) fn algorithms() -> *const Algorithm {
    static ALGORITHMS: OnceLock<Algorithms> = OnceLock::new();
    let algorithms = ALGORITHMS.get_or_init(|| {
        let all = [
            Functions::<Gcm<16>>::offered(),
            Functions::<Gcm<24>>::offered(),
            Functions::<Gcm<32>>::offered(),
            Functions::<ChaCha>::offered(),
            Functions::<Ctr<16>>::offered(),
            Functions::<Ctr<24>>::offered(),
            Functions::<Ctr<32>>::offered(),
            Functions::<Xts<32>>::offered(),
            Functions::<Xts<64>>::offered(),
            Functions::<Cbc<16>>::offered(),
            Functions::<Cbc<24>>::offered(),
            Functions::<Cbc<32>>::offered(),
        ];
        let passing = all.into_iter().filter(|(shape, _)| shape.kind.passes());
        let text = |text: &'static CStr| -> *const c_char { text.as_ptr() };
        let end = (ptr::null(), ptr::null(), ptr::null(), ptr::null());
        let rows = passing
            .map(|(shape, table)| (text(shape.names), text(PROPERTIES), table, text(shape.description)))
            .chain([end]);
        Algorithms(
            rows.map(|(names, properties, implementation, description)| Algorithm {
                names,
                properties,
                implementation,
                description,
            })
            .collect(),
        )
    });
    algorithms.0.as_ptr()
}
