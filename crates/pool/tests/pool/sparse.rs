//! Images as text: a line with the size, then each 64 bytes that are not zero, behind their offset, without the zeroes at their
//! end. All in hexadecimal.

use std::fmt::Write as _;

const LINE: usize = 64;

pub(crate) fn to_text(image: &[u8]) -> String {
    let mut text = format!("{:x}\n", image.len());
    for (number, line) in image.chunks(LINE).enumerate() {
        let Some(last) = line.iter().rposition(|byte| *byte != 0) else { continue };
        write!(text, "{:x} ", number * LINE).unwrap();
        line[..=last].iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
        text.push('\n');
    }
    text
}

pub(crate) fn from_text(text: &str) -> Vec<u8> {
    let number = |digits: &str| usize::from_str_radix(digits, 16).unwrap();
    let mut lines = text.lines();
    let mut image = vec![0; number(lines.next().unwrap())];
    for line in lines {
        let (offset, bytes) = line.split_once(' ').unwrap();
        let line = &mut image[number(offset)..][..bytes.len() / 2];
        for (index, byte) in line.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&bytes[2 * index..][..2], 16).unwrap();
        }
    }
    image
}
