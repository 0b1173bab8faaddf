//! Powers of *x* modulo the polynomial of CRC-32C.

/// The polynomial, its highest power in the lowest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// *x* times a polynomial below the 32nd degree, whose highest power is in the lowest bit.
pub(super) const fn next_power(power: u32) -> u32 {
    (power >> 1) ^ (POLYNOMIAL * (power & 1))
}

/// *x* to the exponent.
pub(super) const fn power(exponent: u32) -> u32 {
    let (mut power, mut done) = (1 << 31, 0);
    while done < exponent {
        power = next_power(power);
        done += 1;
    }
    power
}
