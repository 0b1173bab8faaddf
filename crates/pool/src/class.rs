//! Size classes: one fixed table from a class code to a size, the same in every pool.
//!
//! Codes 1–3 are 16, 32 and 48 bytes; 4–11 the multiples of 64 up to 512; from there on each
//! doubling has four classes, up to 1 GiB. Every size of 64 bytes and more is a multiple of 64,
//! every size of 64 KiB and more a multiple of 4096. Code 0 is no class.

/// The greatest class code.
pub(crate) const CLASS_LAST: u8 = 95;

/// Codes up to this one rise by 64 bytes each. Above it there are four to a doubling.
const LINEAR_LAST: u8 = 11;

/// The size of the largest object, in bytes.
pub const OBJECT_SIZE_MAX: u64 = 1 << 30;

/// The size in bytes of a class; 0 for a code that is no class.
#[inline]
pub(crate) const fn size_of_class(class: u8) -> u64 {
    SIZES[class as usize]
}

/// The smallest class that holds `size` bytes; `None` above [`OBJECT_SIZE_MAX`].
#[inline]
pub(crate) const fn class_for(size: u64) -> Option<u8> {
    match size {
        0 => Some(1),
        1..=48 => Some(size.div_ceil(16) as u8),
        49..=512 => Some(3 + size.div_ceil(64) as u8),
        513..=OBJECT_SIZE_MAX => {
            let last = size - 1;
            let doubling = last.ilog2();
            let quarter = (last >> (doubling - 2)) & 3;
            Some(LINEAR_LAST + 1 + ((doubling - 9) * 4) as u8 + quarter as u8)
        }
        _ => None,
    }
}

const SIZES: [u64; 256] = {
    let mut sizes = [0; 256];
    let mut class = 1;
    while class <= CLASS_LAST {
        sizes[class as usize] = computed(class);
        class += 1;
    }
    sizes
};

const fn computed(class: u8) -> u64 {
    match class {
        0..=3 => class as u64 * 16,
        4..=LINEAR_LAST => (class as u64 - 3) * 64,
        _ => {
            let step = (class - LINEAR_LAST - 1) as u64;
            let base = 512 << (step / 4);
            base + base / 4 * (step % 4 + 1)
        }
    }
}

const _: () = assert!(size_of_class(CLASS_LAST) == OBJECT_SIZE_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_found_from_its_own_size() {
        for class in 1..=CLASS_LAST {
            let size = size_of_class(class);
            assert_eq!(class_for(size), Some(class));
            assert_eq!(class_for(size - 1), Some(class));
            let next = if class == CLASS_LAST { None } else { Some(class + 1) };
            assert_eq!(class_for(size + 1), next);
        }
        assert_eq!(class_for(u64::MAX), None);
        assert_eq!(class_for(0), Some(1));
    }

    #[test]
    fn sizes_rise_and_are_aligned() {
        for class in 1..=CLASS_LAST {
            let (size, smaller) = (size_of_class(class), size_of_class(class - 1));
            assert!(size > smaller);
            assert_eq!(size % 16, 0);
            assert!(size < 64 || size % 64 == 0);
            assert!(size < 65536 || size % 4096 == 0);
            assert!(size <= 512 || size * 4 <= smaller * 5, "waste above a quarter at {size}");
        }
    }

    #[test]
    fn every_size_up_to_a_mebibyte_gets_the_smallest_class() {
        let mut class = 1;
        for size in 1..=1 << 20 {
            if size > size_of_class(class) {
                class += 1;
            }
            assert_eq!(class_for(size), Some(class));
        }
    }

    #[test]
    fn codes_beyond_the_table_have_no_size() {
        assert_eq!(size_of_class(0), 0);
        for class in CLASS_LAST + 1..=255 {
            assert_eq!(size_of_class(class), 0);
        }
    }

    #[test]
    fn node_sizes_are_exact() {
        for size in [64, 192, 256, 512, 1024, 2048, 4096] {
            assert_eq!(class_for(size).map(size_of_class), Some(size));
        }
    }
}
