//! What the macro says of fields that newcomers write, and that cannot live in a heap.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, Error, Field, GenericArgument, Lifetime, PathArguments, Type};

/// The trait of `tembo_heap::advice` for a type of that name.
fn advice(name: String) -> Option<&'static str> {
    Some(match name.as_str() {
        "Vec" => "ForVec",
        "String" | "OsString" | "PathBuf" | "CString" => "ForText",
        "Box" => "ForBox",
        "Rc" | "Arc" => "ForShared",
        "HashMap" | "HashSet" => "ForHashMap",
        "BTreeMap" | "BTreeSet" => "ForMap",
        "VecDeque" => "ForDeque",
        "LinkedList" => "ForList",
        "Cell" | "RefCell" | "UnsafeCell" | "OnceCell" | "Mutex" | "RwLock" | "OnceLock"
        | "AtomicBool" | "AtomicU8" | "AtomicU16" | "AtomicU32" | "AtomicU64" | "AtomicUsize"
        | "AtomicI8" | "AtomicI16" | "AtomicI32" | "AtomicI64" | "AtomicIsize" => "ForShell",
        "usize" | "isize" => "ForSize",
        "u128" | "i128" => "ForWide",
        "Instant" | "SystemTime" | "Duration" => "ForTime",
        _ => return None,
    })
}

/// Types of the library that hold values, or refer to objects, of the types in them.
const HOLDERS: &[&str] = &[
    "Option",
    "Ptr",
    "Weak",
    "Slice",
    "PBox",
    "PVec",
    "PDeque",
    "PList",
    "PMap",
    "PHashMap",
    "Persistent",
];

/// What no field can be, or have.
///
/// # Errors
/// Fields that are addresses, or have settings.
pub(crate) fn check(data: &Data) -> Result<(), Error> {
    let fields: Vec<&Field> = match data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|one| &one.fields).collect(),
        Data::Union(_) => Vec::new(),
    };
    let wrong = fields.into_iter().filter_map(|field| check_field(field).err());
    let all = wrong.reduce(|mut all, error| {
        all.combine(error);
        all
    });
    all.map_or(Ok(()), Err)
}

fn check_field(field: &Field) -> Result<(), Error> {
    if let Some(settings) = field.attrs.iter().find(|one| one.path().is_ident("persist")) {
        let what = "`persist` is an attribute of the whole type: every field is persistent; keep elsewhere what is not";
        return Err(Error::new_spanned(settings, what));
    }
    each_part(&field.ty, &mut |part| match refused(part) {
        Some(what) => Err(Error::new_spanned(part, what)),
        None => Ok(()),
    })
}

/// A type as the trait that says what it is: `Persist`, or one that gives advice if it is not that.
pub(crate) fn via(of: &Type, brand: &Lifetime) -> TokenStream {
    let searched = each_part(of, &mut |part| match name(part).and_then(advice) {
        Some(advice) => Err(advice),
        None => Ok(()),
    });
    match searched.map_err(|advice| format_ident!("{advice}")) {
        Err(advice) => quote!(#of as __heap::advice::#advice<#brand>),
        Ok(()) => quote!(#of as __heap::Persist<#brand>),
    }
}

/// The last part of a type's path.
fn name(of: &Type) -> Option<String> {
    let Type::Path(path) = of else { return None };
    path.path.segments.last().map(|last| last.ident.to_string())
}

/// Calls `each` with a type, and with those in it whose values it holds, or to whose objects it refers, as far as that is known.
fn each_part<E>(of: &Type, each: &mut dyn FnMut(&Type) -> Result<(), E>) -> Result<(), E> {
    each(of)?;
    match of {
        Type::Tuple(tuple) => tuple.elems.iter().try_for_each(|of| each_part(of, each)),
        Type::Array(array) => each_part(&array.elem, each),
        Type::Paren(inner) => each_part(&inner.elem, each),
        Type::Group(inner) => each_part(&inner.elem, each),
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return Ok(()) };
            let is_holder = HOLDERS.iter().any(|name| last.ident == name);
            let PathArguments::AngleBracketed(arguments) = &last.arguments else { return Ok(()) };
            arguments.args.iter().try_for_each(|argument| match argument {
                GenericArgument::Type(of) if is_holder => each_part(of, each),
                GenericArgument::Type(of @ Type::TraitObject(_)) => each(of),
                _ => Ok(()),
            })
        }
        _ => Ok(()),
    }
}

/// What is said of a type that is an address, or has no size.
fn refused(of: &Type) -> Option<&'static str> {
    Some(match of {
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => {
                "a reference cannot live in a heap: it is an address, which means nothing after the program has ended; use `PString<'h>`"
            }
            Type::Slice(_) => {
                "a reference cannot live in a heap: it is an address, which means nothing after the program has ended; use `PVec<'h, T>`"
            }
            _ => {
                "a reference cannot live in a heap: it is an address, which means nothing after the program has ended; use `Ptr<'h, T>`, to an object of the same heap"
            }
        },
        Type::Ptr(_) => {
            "a raw pointer cannot live in a heap: it is an address, which means nothing after the program has ended; use `Ptr<'h, T>`, to an object of the same heap"
        }
        Type::BareFn(_) => {
            "a function cannot live in a heap: it is an address, which means nothing after the program has ended; use an enum whose variants stand for the functions"
        }
        Type::TraitObject(_) | Type::ImplTrait(_) => {
            "a trait object cannot live in a heap, which has to know the layout: use an enum whose variants are the types"
        }
        Type::Slice(_) => {
            "a slice has no fixed layout: use `PVec<'h, T>`, or an array if the number of values is known"
        }
        _ => return None,
    })
}
