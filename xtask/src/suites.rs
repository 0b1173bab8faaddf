//! What the suites have in common: how they read their options, and how they write their pages.

use std::path::Path;

use anyhow::{Context, bail};

/// Calls `take` with each option; it asks for the option's value if it has one, and says whether it knows the option.
pub(crate) fn each_option<'w>(
    suite: &str,
    words: &[&'w str],
    mut take: impl FnMut(&str, &mut dyn FnMut() -> anyhow::Result<&'w str>) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        let mut value = || words.next().copied().with_context(|| format!("{word} needs a value"));
        if !take(word, &mut value)? {
            bail!("`{word}` is no option of {suite}");
        }
    }
    Ok(())
}

/// Writes a page of the documentation, and says where it is.
pub(crate) fn write_page(root: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let file = root.join("docs").join(name);
    std::fs::write(&file, text).with_context(|| file.display().to_string())?;
    println!("{}", file.display());
    Ok(())
}
