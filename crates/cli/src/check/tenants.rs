//! The check of a pool without a store `main`: each of its tenants, and every byte.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tembo_kv::pool::Error as PoolError;
use tembo_kv::{Error, Pool, PoolCheck};

use super::account::Account;
use crate::output::{Lines, print};
use crate::store::held;

/// So often a pool is asked again in which a tenant is busy, or has not swept what it has given up.
const ATTEMPTS: usize = 100;
const PAUSE: Duration = Duration::from_millis(10);

#[derive(Serialize)]
struct Checked {
    pool: String,
    /// Name, kind and number of objects of each tenant.
    holds: Vec<(String, String, u64)>,
    faults: Vec<String>,
    bytes: Account,
}

/// Checks the pool at `path` and reports it; how many faults it has.
pub(super) fn check(path: &Path, pool: Pool, is_json: bool) -> anyhow::Result<usize> {
    let PoolCheck { account, tenants } = found(&pool)?;
    let kinds = held(&pool)?;
    pool.close()?;
    let with_objects = |(name, kind): (String, String)| {
        let found = tenants.iter().find(|(other, _)| *other == name);
        (name, kind, found.map_or(0, |(_, found)| found.objects))
    };
    let holds = kinds.into_iter().map(with_objects).collect();
    let bytes = Account::from(account);
    let faults = bytes.faults();
    let checked = Checked { pool: path.display().to_string(), holds, faults, bytes };
    print(is_json, &checked, &lines(&checked))?;
    Ok(checked.faults.len())
}

fn lines(checked: &Checked) -> Lines {
    let mut lines = Lines::default();
    lines.add("pool", &checked.pool);
    for (name, kind, objects) in &checked.holds {
        lines.add("holds", format_args!("{name}, a {kind}: {objects} objects"));
    }
    checked.bytes.add_to(&mut lines, &checked.faults);
    lines
}

fn found(pool: &Pool) -> Result<PoolCheck, Error> {
    for _ in 0..ATTEMPTS {
        match pool.check() {
            Err(Error::Pool(PoolError::TenantBusy { .. })) => {}
            // What it has given up, and not swept yet, is not leaked.
            Ok(found) if found.account.leaked > 0 && owes_sweep(&found).is_some() => {}
            found => return found,
        }
        std::thread::sleep(PAUSE);
    }
    let found = pool.check()?;
    match owes_sweep(&found) {
        Some(name) if found.account.leaked > 0 => {
            Err(PoolError::TenantBusy { name: name.to_owned() }.into())
        }
        _ => Ok(found),
    }
}

/// A tenant that has not swept what it has given up.
fn owes_sweep(found: &PoolCheck) -> Option<&str> {
    found.tenants.iter().find(|(_, tenant)| tenant.owes_sweep).map(|(name, _)| &**name)
}
