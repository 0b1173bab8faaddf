//! Libraries of functions: their code is in the store, their functions in a state of Lua.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::args::Args;
use crate::failure::Failure;
use crate::lua::{BAD_NAME, Engine, Refused, Registered, is_name, shebang};

/// A library.
#[derive(Clone)]
pub(crate) struct Library {
    /// Its code, as it was given.
    pub(crate) code: Vec<u8>,
    /// Its functions.
    pub(crate) functions: Vec<Registered>,
}

/// All libraries, by name.
pub(crate) type ByName = BTreeMap<Vec<u8>, Library>;

/// The libraries.
#[derive(Default)]
pub(crate) struct Libraries {
    /// They were changed in this turn.
    pub(crate) has_changed: bool,
    /// The server is or was a replica since they were loaded, and its primary may have changed them.
    pub(crate) are_of_replica: bool,
    loaded: Option<(Rc<Engine>, ByName)>,
}

/// What the line before a library's code says of it.
struct Metadata {
    name: Vec<u8>,
    /// Bytes of the line.
    size: usize,
}

impl Libraries {
    /// Whether the libraries of the store are loaded.
    pub(crate) fn are_loaded(&self) -> bool {
        self.loaded.is_some()
    }

    /// The state of Lua, and the libraries in it; a new one has none.
    pub(crate) fn loaded(
        &mut self,
        is_command: fn(Args<'_>) -> bool,
    ) -> Result<&mut (Rc<Engine>, ByName), Failure> {
        if let Some(ref mut loaded) = self.loaded {
            return Ok(loaded);
        }
        let engine = Engine::new(is_command).map_err(|error| format!("ERR {error}"))?;
        Ok(self.loaded.insert((Rc::new(engine), ByName::new())))
    }

    /// The turn that changed them was committed, or not: then those of the store are loaded again.
    pub(crate) fn end_turn(&mut self, is_committed: bool) {
        if std::mem::take(&mut self.has_changed) && !is_committed {
            self.loaded = None;
        }
    }

    /// The codes of all libraries.
    pub(crate) fn codes(&self) -> Vec<&Vec<u8>> {
        let libraries = self.loaded.iter().flat_map(|(_, libraries)| libraries.values());
        libraries.map(|library| &library.code).collect()
    }

    /// Those of the store are loaded again.
    pub(crate) fn forget(&mut self) {
        self.loaded = None;
    }

    /// Bytes of the state of Lua.
    pub(crate) fn memory(&self) -> usize {
        self.loaded.as_ref().map_or(0, |(engine, _)| engine.memory())
    }

    /// How many libraries and functions there are.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let libraries = self.loaded.as_ref().map(|(_, libraries)| libraries);
        libraries.map_or((0, 0), |libraries| {
            let functions = libraries.values().map(|library| library.functions.len());
            (libraries.len(), functions.sum())
        })
    }

    /// The function of that name, in any case.
    pub(crate) fn find(&self, name: &[u8]) -> Option<(Rc<Engine>, Registered)> {
        let (engine, libraries) = self.loaded.as_ref()?;
        let mut functions = libraries.values().flat_map(|library| &library.functions);
        let function = functions.find(|function| function.is_named(name))?;
        Some((engine.clone(), function.clone()))
    }
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn metadata(code: &[u8]) -> Result<Metadata, String> {
    if !code.starts_with(b"#!") {
        return Err("Missing library metadata".to_owned());
    }
    let Some((words, size)) = shebang(code) else {
        return Err("Invalid library metadata".to_owned());
    };
    let mut name = None;
    for word in &words[1..] {
        match word.split_at_checked(5) {
            Some((key, value)) if key.eq_ignore_ascii_case(b"name=") => {
                if name.replace(value.to_vec()).is_some() {
                    let text = "Invalid metadata value, name argument was given multiple times";
                    return Err(text.to_owned());
                }
            }
            _ => return Err(format!("Invalid metadata value given: {}", shown(word))),
        }
    }
    let Some(name) = name else { return Err("Library name was not given".to_owned()) };
    if !is_name(&name) {
        return Err(BAD_NAME.to_owned());
    }
    let engine = &words[0][2..];
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(format!("Engine '{}' not found", shown(engine)));
    }
    Ok(Metadata { name, size })
}

/// Adds a library to others and returns its name.
///
/// # Errors
/// It cannot be loaded, or another one has its name (unless it `replaces` it) or a function of the same name.
pub(crate) fn add(
    engine: &Engine,
    libraries: &mut ByName,
    code: &[u8],
    replaces: bool,
) -> Result<Vec<u8>, Failure> {
    let refused = |text: String| Failure::from(format!("ERR {text}"));
    let Metadata { name, size } = metadata(code).map_err(refused)?;
    if !replaces && libraries.contains_key(&name) {
        return Err(refused(format!("Library '{}' already exists", shown(&name))));
    }
    let functions = engine
        .load(&code[size..])
        .map_err(|Refused(text)| Failure::Reply([b"ERR ".as_slice(), &text].concat().into()))?;
    if functions.is_empty() {
        return Err(refused("No functions registered".to_owned()));
    }
    let library = Library { code: code.to_vec(), functions };
    if let Some(function) = collision(libraries, &name, &library) {
        return Err(refused(format!("Function {function} already exists")));
    }
    libraries.insert(name.clone(), library);
    Ok(name)
}

/// A function of the library that another one than that of its name has too.
pub(crate) fn collision(libraries: &ByName, name: &[u8], library: &Library) -> Option<String> {
    let others = libraries.iter().filter(|(other, _)| *other != name);
    let taken: Vec<&Registered> = others.flat_map(|(_, library)| &library.functions).collect();
    let is_taken = |name: &[u8]| taken.iter().any(|function| function.is_named(name));
    let mut functions = library.functions.iter().map(|function| function.name.as_slice());
    functions.find(|name| is_taken(name)).map(shown)
}
