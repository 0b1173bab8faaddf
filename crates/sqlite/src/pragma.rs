//! Pragmas that are answered here.

use tembo_kv::is_own_name;

use crate::code::Code;
use crate::main_file::MainFile;
use crate::refused::Refused;

/// Whether a name, in lower case, is one of these.
pub(crate) fn is_known(name: &str) -> bool {
    name.starts_with("tembo_")
}

/// The answer to a pragma; an error with [`Code::NOTFOUND`]: it is SQLite's.
///
/// | pragma | answer |
/// |---|---|
/// | `tembo_version` | the version of the pool that the connection reads |
/// | `tembo_snapshot = NAME` | names the visible version durably, and answers with it |
/// | `tembo_drop_snapshot = NAME` | 1, or 0: there was none of that name |
/// | `tembo_snapshots` | the names and their versions |
///
/// Names that are Tembo's [own](is_own_name) are not shown, and neither given nor dropped: [`Code::PERM`].
pub(crate) fn answer(file: &MainFile, name: &str, value: Option<&str>) -> Result<String, Refused> {
    let database = file.database().clone();
    let store = database.store()?;
    match (name.to_ascii_lowercase().as_str(), value) {
        ("tembo_snapshot" | "tembo_drop_snapshot", Some(name)) if is_own_name(name) => {
            let advice = "use another name; to have it dropped, remove or detach the clones";
            let why = format!("{name:?} is a name by which Tembo keeps what clones read: {advice}");
            Err(Refused { code: Code::PERM, why })
        }
        ("tembo_version", None) => Ok(file.version()?.to_string()),
        ("tembo_snapshot", Some(name)) => Ok(store.save_snapshot(name)?.to_string()),
        ("tembo_drop_snapshot", Some(name)) => Ok(u8::from(store.drop_snapshot(name)?).to_string()),
        ("tembo_snapshots", None) => {
            let all = store.snapshots().into_iter().filter(|(name, _)| !is_own_name(name));
            let lines: Vec<_> = all.map(|(name, version)| format!("{name}|{version}")).collect();
            Ok(lines.join("\n"))
        }
        _ => Err(Code::NOTFOUND.into()),
    }
}
