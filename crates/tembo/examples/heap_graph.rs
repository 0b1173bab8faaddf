//! A graph whose back edges are weak: a folder tree in which each folder knows its parent.
//!
//! `cargo run --example heap_graph -- tree.pool a/b/c a/d`

use std::path::Path;

use tembo::heap::{Error, Heap, PMap, Persist, Ptr, Transaction, Weak};

#[derive(Persist)]
struct Folder<'h> {
    parent: Option<Weak<'h, Folder<'h>>>,
    children: PMap<'h, Ptr<'h, Folder<'h>>>,
}

fn make<'h>(
    tx: &mut Transaction<'h>,
    root: &Ptr<'h, Folder<'h>>,
    path: &str,
) -> Result<Ptr<'h, Folder<'h>>, Error> {
    let mut at = root.clone();
    for name in path.split('/') {
        let children = at.field(Folder::CHILDREN);
        at = match children.get(tx, name)? {
            Some(child) => child,
            None => {
                let parent = Some(tx.downgrade(&at)?);
                let child = tx.alloc(Folder { parent, children: PMap::new() })?;
                children.insert(tx, name, child.clone())?;
                child
            }
        };
    }
    Ok(at)
}

fn depth<'h>(tx: &mut Transaction<'h>, folder: &Ptr<'h, Folder<'h>>) -> Result<u32, Error> {
    let Some(parent) = tx.get(folder, Folder::PARENT)? else { return Ok(0) };
    tx.upgrade(&parent)?.map_or(Ok(0), |parent| Ok(1 + depth(tx, &parent)?))
}

pub(crate) fn run(path: &Path, words: &[String]) -> Result<String, Error> {
    Heap::open(path, |heap| {
        let empty = || Folder { parent: None, children: PMap::new() };
        let root = heap.root_or::<_, Error>(|_| Ok(empty()))?;
        let said = words.iter().map(|path| {
            let depth = heap.atomic(|tx| make(tx, &root, path).and_then(|at| depth(tx, &at)))?;
            Ok(format!("{path}: {depth} below the root"))
        });
        Ok(said.collect::<Result<Vec<String>, Error>>()?.join("\n"))
    })
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (path, words) = words.split_first().ok_or(Error::NoRoot)?;
    println!("{}", run(Path::new(path), words)?);
    Ok(())
}
