//! `cargo xtask redis-suite`: Redis's own tests, run against the server as an external one.
//!
//! The tests come from a checkout that the caller names; of them only names of units and of tests enter the
//! project. Each unit gets a server of its own on an empty pool, so that what one unit leaves behind or stops does not
//! change the next. What a run found lies in `target/redis-suite`, by server and unit; the page is made from that.

mod outcome;
mod page;
mod reasons;
mod subject;
mod unit;

use std::path::{Path, PathBuf};

use anyhow::bail;

use subject::Subject;

use crate::suites::{each_option, write_page};

/// What the command line asks for.
#[derive(Default)]
struct Wanted {
    checkout: Option<PathBuf>,
    units: Vec<String>,
    redis: Option<PathBuf>,
    /// The server, if it is not to be built.
    server: Option<PathBuf>,
    page: bool,
    /// Only the page, or only the Redis: nothing is run against the server.
    spare_tembo: bool,
}

/// Runs units of the suite, and writes the page if that is asked for.
pub(crate) fn run(root: &Path, words: &[&str]) -> anyhow::Result<()> {
    let wanted = parse(words)?;
    let results = root.join("target/redis-suite");
    if let Some(checkout) = &wanted.checkout {
        let units =
            if wanted.units.is_empty() { unit::all(checkout)? } else { wanted.units.clone() };
        if let Some(program) = &wanted.redis {
            unit::run_all(checkout, &units, &Subject::Redis(program.clone()), &results)?;
        }
        if !wanted.spare_tembo {
            let program = match &wanted.server {
                Some(program) => program.clone(),
                None => crate::ci::build_tembo(root)?,
            };
            let subject = Subject::Tembo(std::path::absolute(program)?);
            unit::run_all(checkout, &units, &subject, &results)?;
        }
    } else if !wanted.page {
        bail!("--path names a checkout of Redis's sources");
    }
    if wanted.page {
        write_page(root, "redis-compatibility.md", &page::write(&results)?)?;
    }
    Ok(())
}

fn parse(words: &[&str]) -> anyhow::Result<Wanted> {
    let mut wanted = Wanted::default();
    each_option("redis-suite", words, |word, value| {
        match word {
            "--path" => wanted.checkout = Some(std::path::absolute(value()?)?),
            "--unit" => wanted.units.push(value()?.to_owned()),
            "--redis" => wanted.redis = Some(PathBuf::from(value()?)),
            "--server" => wanted.server = Some(PathBuf::from(value()?)),
            "--page" => wanted.page = true,
            "--only-redis" => wanted.spare_tembo = true,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(wanted)
}
