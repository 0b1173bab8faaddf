//! What must be true of every image.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};

use tembo_sim::{Crash, Oracle, Random, Reader};

use crate::recording::{ABSENT, Recording, digest, region};
use crate::subject::Subject;

/// Operations that a recovered structure must go on with.
const STEPS: u64 = 50;

/// Gets what was judged right: see [`Oracle::judged`].
pub(crate) type Judged<'j> = dyn Fn(u64, Option<&[u8]>, u64) -> bool + Sync + 'j;

/// The oracle of a recording.
pub(crate) struct Judge<'j, S: Subject> {
    pub(crate) subject: &'j S,
    pub(crate) recording: &'j Recording<S>,
    /// One image in so many, chosen by what it reads, is judged completely.
    pub(crate) sample: u64,
    pub(crate) judged: &'j Judged<'j>,
}

impl<S: Subject> Oracle for Judge<'_, S> {
    fn judge(&self, image: &[u8], reader: &Arc<Reader>) -> Result<u64, String> {
        quietly(|| look(self.subject, image, reader, self.sample))
    }

    fn accept(&self, crash: &Crash, shown: u64) -> Result<(), String> {
        let operation = &self.recording.operations[crash.operation];
        let (before, after) = operation.digests;
        if shown == after || (shown == before && !crash.after) {
            return Ok(());
        }
        let expected = if crash.after { None } else { Some(&operation.before) };
        Err(format!("it should show {:?}\nor {expected:?}", operation.after))
    }

    fn judged(&self, read: u64, image: Option<&[u8]>, shown: u64) -> bool {
        (self.judged)(read, image, shown)
    }
}

/// Opens an image, looks at all of it, lets it recover, and goes on with some.
fn look<S: Subject>(
    subject: &S,
    image: &[u8],
    reader: &Arc<Reader>,
    sample: u64,
) -> Result<u64, String> {
    let open = |image: &[u8]| subject.open(region(subject, image, Some(reader.clone()))?);
    let Some(mut live) = open(image)? else { return Ok(ABSENT) };
    let shown = subject.show(&mut live)?;
    let all = reader.hash().is_multiple_of(sample);
    let again = |live: S::Live, state: &S::State| {
        drop(live);
        let mut live = open(&reader.newest(image))?.ok_or("opened again, there is nothing")?;
        let shown = subject.show(&mut live)?;
        match shown == *state {
            true => Ok(live),
            false => Err(format!("opened again, it shows {shown:?}\nand not {state:?}")),
        }
    };
    if all {
        live = again(live, &shown)?;
    }
    subject.settle(&mut live)?;
    expect(subject.show(&mut live)? == shown, "recovery has changed what is there")?;
    subject.check(&mut live, &shown)?;
    let digest = digest(Some(&shown));
    if all {
        let mut random = Random::new(digest);
        let mut state = shown;
        let mut ops = Vec::new();
        for step in 0..STEPS {
            let op = subject.random_op(&mut random);
            ops.push(op.clone());
            let went = subject.run(&mut live, &state, &op, 1000 + step * 8);
            state = went.map_err(|what| format!("going on, step {step}, {op:?}: {what}"))?;
            if step % 8 == 7 {
                let shown = subject.show(&mut live)?;
                if shown != state {
                    return Err(format!(
                        "going on, step {step}, {op:?}: shows {shown:?}\nthe model {state:?}"
                    ));
                }
            }
        }
        live = again(live, &state)?;
        subject.settle(&mut live)?;
        let checked = subject.check(&mut live, &state);
        checked.map_err(|what| format!("having gone on with {ops:?}: {what}"))?;
    }
    Ok(digest)
}

pub(crate) fn expect(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

pub(crate) fn text(error: impl std::fmt::Debug) -> String {
    format!("{error:?}")
}

thread_local! {
    static JUDGING: Cell<bool> = const { Cell::new(false) };
}

/// Panics of what is judged are violations like others: reported by the judge, not by the hook. (Where
/// a panic aborts, the hook must report it.)
pub(crate) fn quietly<T>(look: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !JUDGING.get() || cfg!(panic = "abort") {
                hook(info);
            }
        }));
    });
    let outer = JUDGING.replace(true);
    let looked = catch_unwind(AssertUnwindSafe(look));
    JUDGING.set(outer);
    looked.unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text.or(cause.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", text.unwrap_or("?")))
    })
}
