//! How many elements there are, from the registers: Ertl's improved estimator.

use super::hash::VALUE_MAX;

/// `0.5 / ln 2`
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// The estimate; each register is a byte.
pub(crate) fn estimate(registers: &[u8]) -> u64 {
    let mut counts = [0u32; 64];
    for register in registers {
        counts[usize::from(register & 63)] += 1;
    }
    let m = registers.len() as f64;
    let mut z = m * tau((m - f64::from(counts[VALUE_MAX])) / m);
    for count in counts[1..VALUE_MAX].iter().rev() {
        z = (z + f64::from(*count)) * 0.5;
    }
    z += m * sigma(f64::from(counts[0]) / m);
    (ALPHA * m * m / z).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if before == z {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if before == z {
            return z / 3.0;
        }
    }
}
