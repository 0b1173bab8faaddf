//! Nothing large comes into the repository.
//!
//! Rule: no file that git knows or would add is larger than 1 MiB.

use super::finding::Finding;
use super::tree::Tree;

const FILE_SIZE_MAX: u64 = 1 << 20;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let large = tree.files.iter().filter(|(_, size)| *size > FILE_SIZE_MAX);
    large
        .map(|(path, size)| Finding {
            path: path.clone(),
            line: 1,
            what: format!("{size} bytes, more than {FILE_SIZE_MAX}"),
            fix: "generate it, or keep it out of the repository",
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(size: u64) -> usize {
        check(&Tree { files: vec![("docs/figure.png".into(), size)], ..Tree::default() }).len()
    }

    #[test]
    fn good() {
        assert_eq!(check_one(1 << 20), 0);
    }

    #[test]
    fn bad() {
        assert_eq!(check_one((1 << 20) + 1), 1);
    }
}
