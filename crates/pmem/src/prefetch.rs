//! A hint to the processor, which may be given of any memory.
#![allow(unsafe_code)]

/// Says that the line at an address will be read soon.
#[inline]
pub fn prefetch<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing architecturally: any address will do.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) }
    }
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    let _ = place;
}
