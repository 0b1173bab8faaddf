//! `#[derive(Persist)]`: see `tembo_heap::Persist`.

mod advice;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::meta::ParseNestedMeta;
use syn::parse::Parse;
use syn::{Data, DeriveInput, Error, Fields, GenericParam, Lifetime, LitInt, LitStr, Type};

/// Makes a struct or an enum one that may live in a heap. A lifetime parameter is the heap's brand. Each field of a struct gets a
/// constant of its name in upper case (of a tuple struct `F0`, `F1`, …).
///
/// - `#[persist(name = "…")]`: the name by which heaps know the type; else its path. Give one before a type is moved.
/// - `#[persist(version = 2)]`: the version of its layout; else 0.
/// - `#[persist(version = 2, from = OldNode<'h>)]`: the type as it was in an earlier version: of the same name, with pointers to the types
///   as they are now. An object of it becomes one of this version, by [`From`], in the first transaction that uses it.
///   Values inside of slices and collections (`PVec<Node>`) have no versions: hold what gets versions by pointer (`PVec<Ptr<Node>>`).
#[proc_macro_derive(Persist, attributes(persist))]
pub fn persist(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// The crate of the heap as the program names it: by itself, or as a part of `tembo`.
fn heap_path() -> TokenStream {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").map(std::path::PathBuf::from);
    let manifest =
        folder.and_then(|folder| std::fs::read_to_string(folder.join("Cargo.toml")).ok());
    let is_part = manifest.is_some_and(|text| !text.contains("tembo-heap"));
    if is_part { quote!(::tembo::heap) } else { quote!(::tembo_heap) }
}

/// What the attribute says.
struct Settings {
    name: Option<String>,
    version: u32,
    from: Option<Type>,
}

fn settings(input: &DeriveInput) -> Result<Settings, Error> {
    let mut settings = Settings { name: None, version: 0, from: None };
    let mut known: Vec<String> = Vec::new();
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("persist")) {
        attribute.parse_nested_meta(|meta| {
            let name = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
            if known.contains(&name) {
                return Err(meta.error(format!("`{name}` is there twice: leave one out")));
            }
            match name.as_str() {
                "name" => {
                    let says = "a name is a text: `name = \"…\"`";
                    settings.name = Some(value::<LitStr>(&meta, says)?.value());
                }
                "version" => {
                    let says = "a version is a number from 0 to 4294967295: `version = 2`";
                    let number = value::<LitInt>(&meta, says)?;
                    let version = number.base10_parse();
                    settings.version = version.map_err(|_| Error::new_spanned(&number, says))?;
                }
                "from" => {
                    let says = "`from` names the type as it was in an earlier version: `from = OldNode<'h>`";
                    settings.from = Some(value(&meta, says)?);
                }
                _ => {
                    let says = "only these are known: `name = \"…\"`, `version = 2`, `from = OldNode<'h>`";
                    return Err(meta.error(says));
                }
            }
            known.push(name);
            Ok(())
        })?;
    }
    if let Some(from) = settings.from.as_ref().filter(|_| settings.version == 0) {
        let what = "a type that follows from an earlier version has a higher one: add `version = 1`, or what is above that of the type here";
        return Err(Error::new_spanned(from, what));
    }
    Ok(settings)
}

/// The value that an attribute gives a name; `says` what it has to be.
fn value<T: Parse>(meta: &ParseNestedMeta<'_>, says: &str) -> Result<T, Error> {
    let value = meta.value().map_err(|_| meta.error(says))?;
    let span = value.span();
    value.parse().map_err(|_| Error::new(span, says))
}

fn derive(input: &DeriveInput) -> Result<TokenStream, Error> {
    let settings = settings(input)?;
    let (ident, brand) = (&input.ident, brand(input)?);
    let mut generics = input.generics.clone();
    if input.generics.lifetimes().next().is_none() {
        generics.params.insert(0, syn::parse_quote!(#brand));
    }
    for parameter in &mut generics.params {
        if let GenericParam::Type(parameter) = parameter {
            parameter.bounds.push(syn::parse_quote!(__heap::Persist<#brand>));
        }
    }
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let (_, type_generics, _) = input.generics.split_for_impl();
    let body = body(input, &brand)?;
    let (name, hash) = names_of(input, &settings, &brand);
    let version = settings.version;
    let Body { words, layout, shape, write, read, pointers, fields } = body;
    let older = settings.from.as_ref().map(|from| of_older(from, &brand));
    let heap = heap_path();
    Ok(quote! { const _: () = {
        use #heap as __heap;
        #[automatically_derived]
        impl #impl_generics __heap::Persist<#brand> for #ident #type_generics #where_clause {
            const WORDS: u64 = #words;
            const NAME: u64 = #hash;
            const LAYOUT: u64 = #layout;
            const VERSION: u32 = #version;

            fn name() -> ::std::string::String {
                #name
            }

            fn shape() -> __heap::Shape {
                #shape
            }

            fn write(&self, to: &mut __heap::Writer<'_, #brand>) {
                #write
            }

            fn read(
                from: &mut __heap::Reader<'_, #brand>,
            ) -> ::core::result::Result<Self, __heap::Error> {
                #read
            }

            fn pointers(words: &[u64], each: &mut dyn ::core::ops::FnMut(u64)) {
                #pointers
            }

            #older
        }

        #[automatically_derived]
        impl #impl_generics #ident #type_generics #where_clause {
            #fields
        }
    }; })
}

/// What follows from the fields.
fn body(input: &DeriveInput, brand: &Lifetime) -> Result<Body, Error> {
    advice::check(&input.data)?;
    match &input.data {
        Data::Struct(data) => Ok(of_struct(&data.fields, brand)),
        Data::Enum(data) if data.variants.is_empty() => {
            let what = "an enum without variants has no value, and cannot live in a heap";
            Err(Error::new_spanned(&input.ident, what))
        }
        Data::Enum(data) => Ok(of_enum(data, brand)),
        Data::Union(_) => {
            let what =
                "a union cannot live in a heap, which has to know where pointers are: use an enum";
            Err(Error::new_spanned(&input.ident, what))
        }
    }
}

/// How values of an older version become those of this one.
fn of_older(from: &Type, brand: &Lifetime) -> TokenStream {
    let (old, new) =
        (quote!(#from as __heap::Persist<#brand>), quote!(Self as __heap::Persist<#brand>));
    quote! {
        fn layout_of(version: u32) -> ::core::option::Option<u64> {
            const {
                ::core::assert!(
                    <#old>::NAME == <#new>::NAME && <#old>::VERSION < <#new>::VERSION,
                    "the type that `from` names is the same in an earlier version: give both one name, and this one a higher version",
                );
            }
            if version == <#new>::VERSION {
                ::core::option::Option::Some(<#new>::LAYOUT)
            } else {
                <#old>::layout_of(version)
            }
        }

        fn read_version(
            version: u32,
            from: &mut __heap::Reader<'_, #brand>,
        ) -> ::core::result::Result<Self, __heap::Error> {
            if version == <#new>::VERSION {
                <#new>::read(from)
            } else {
                <#old>::read_version(version, from).map(|old| <#from as __heap::advice::Older<Self>>::newer(old))
            }
        }
    }
}

/// The name of a type, and its hash.
fn names_of(
    input: &DeriveInput,
    settings: &Settings,
    brand: &Lifetime,
) -> (TokenStream, TokenStream) {
    let ident = &input.ident;
    let (mut parameters, mut hashes) = (Vec::new(), Vec::new());
    for parameter in &input.generics.params {
        match parameter {
            GenericParam::Type(parameter) => {
                let parameter = &parameter.ident;
                parameters.push(quote!(<#parameter as __heap::Persist<#brand>>::name()));
                hashes.push(quote!(<#parameter as __heap::Persist<#brand>>::NAME));
            }
            GenericParam::Const(parameter) => {
                let parameter = &parameter.ident;
                parameters.push(quote!(::std::string::ToString::to_string(&#parameter)));
                // It may be of any integer type, a `bool` or a `char`.
                hashes.push(
                    quote!(__heap::mix(#parameter as u64, (#parameter as u128 >> 64) as u64)),
                );
            }
            GenericParam::Lifetime(_) => {}
        }
    }
    let path = match &settings.name {
        Some(name) => quote!(#name),
        None => quote!(::core::concat!(::core::module_path!(), "::", ::core::stringify!(#ident))),
    };
    let name = if parameters.is_empty() {
        quote!(::std::string::String::from(#path))
    } else {
        quote!({
            let names = [#(#parameters),*];
            ::std::format!("{}<{}>", #path, names.join(", "))
        })
    };
    let hash = quote!({
        let hash = __heap::hash(0, #path);
        #(let hash = __heap::mix(hash, #hashes);)*
        hash
    });
    (name, hash)
}

/// The lifetime that is the heap's brand.
fn brand(input: &DeriveInput) -> Result<Lifetime, Error> {
    let mut lifetimes = input.generics.lifetimes();
    let first = lifetimes.next().map(|parameter| parameter.lifetime.clone());
    if let Some(second) = lifetimes.next() {
        let what =
            "a type in a heap has one lifetime, the brand of its heap: it can hold no reference";
        return Err(Error::new_spanned(second, what));
    }
    Ok(first.unwrap_or_else(|| Lifetime::new("'__heap", Span::call_site())))
}

/// The parts of an implementation.
struct Body {
    words: TokenStream,
    layout: TokenStream,
    shape: TokenStream,
    write: TokenStream,
    read: TokenStream,
    pointers: TokenStream,
    fields: TokenStream,
}

/// The types of fields, each as the trait that says what it is.
fn types(fields: &Fields, brand: &Lifetime) -> Vec<TokenStream> {
    fields.iter().map(|field| advice::via(&field.ty, brand)).collect()
}

/// The names of fields, for a person.
fn names(fields: &Fields) -> Vec<String> {
    let name = |(at, field): (usize, &syn::Field)| match &field.ident {
        Some(ident) => ident.to_string().trim_start_matches("r#").to_owned(),
        None => at.to_string(),
    };
    fields.iter().enumerate().map(name).collect()
}

fn sum(types: &[TokenStream]) -> TokenStream {
    quote!(0 #(+ <#types>::WORDS)*)
}

fn layout(seed: &str, fields: &Fields, brand: &Lifetime) -> TokenStream {
    let (types, names) = (types(fields, brand), names(fields));
    quote!({
        let hash = __heap::hash(0, #seed);
        #(
            let hash = __heap::mix(__heap::mix(hash, __heap::hash(0, #names)), <#types>::LAYOUT);
        )*
        hash
    })
}

fn shape(fields: &Fields, brand: &Lifetime) -> TokenStream {
    let (types, names) = (types(fields, brand), names(fields));
    quote!(__heap::Shape::Fields(::std::vec![#(
        (::std::string::String::from(#names), <#types>::shape())
    ),*]))
}

/// The pointers of fields, one behind another in `words`.
fn pointers(fields: &Fields, brand: &Lifetime) -> TokenStream {
    let types = types(fields, brand);
    quote! {
        let rest = words;
        #(
            let (first, rest) = rest.split_at(<#types>::WORDS as usize);
            <#types>::pointers(first, each);
        )*
        let _ = (rest, each);
    }
}

fn of_struct(fields: &Fields, brand: &Lifetime) -> Body {
    let all = types(fields, brand);
    let members: Vec<syn::Member> = fields.members().collect();
    let constants = fields.iter().enumerate().map(|(at, field)| {
        let name = match &field.ident {
            Some(ident) => {
                let upper = ident.to_string().trim_start_matches("r#").to_uppercase();
                Ident::new(&upper, ident.span())
            }
            None => format_ident!("F{at}"),
        };
        let (before, of, vis) = (sum(&all[..at]), &field.ty, &field.vis);
        let doc = format!("The field `{name}`.");
        quote! {
            #[doc = #doc]
            #[allow(dead_code)]
            #vis const #name: __heap::Field<Self, #of> = __heap::Field::at(#before);
        }
    });
    Body {
        words: sum(&all),
        layout: layout("struct", fields, brand),
        shape: shape(fields, brand),
        write: quote! {
            #(<#all>::write(&self.#members, to);)*
            let _ = to;
        },
        read: quote!(::core::result::Result::Ok(Self {
            #(#members: <#all>::read(from)?),*
        })),
        pointers: pointers(fields, brand),
        fields: quote!(#(#constants)*),
    }
}

/// As many words as the largest variant needs.
fn most(variants: &[&syn::Variant], brand: &Lifetime) -> TokenStream {
    let sums = variants.iter().map(|variant| sum(&types(&variant.fields, brand)));
    quote!({
        let mut most: u64 = 0;
        #(
            let words: u64 = #sums;
            if words > most {
                most = words;
            }
        )*
        most + 1
    })
}

fn of_enum(data: &syn::DataEnum, brand: &Lifetime) -> Body {
    let variants: Vec<&syn::Variant> = data.variants.iter().collect();
    let names: Vec<String> = variants.iter().map(|variant| variant.ident.to_string()).collect();
    let layouts = variants.iter().map(|v| layout(&v.ident.to_string(), &v.fields, brand));
    let shapes = variants.iter().map(|variant| shape(&variant.fields, brand));
    let write = variants.iter().enumerate().map(|(number, variant)| {
        let (ident, number) = (&variant.ident, number as u64);
        let members: Vec<syn::Member> = variant.fields.members().collect();
        let types = types(&variant.fields, brand);
        let bound: Vec<Ident> = (0..members.len()).map(|at| format_ident!("field_{at}")).collect();
        quote!(Self::#ident { #(#members: #bound),* } => {
            to.word(#number);
            #(<#types>::write(#bound, to);)*
        })
    });
    let read = variants.iter().enumerate().map(|(number, variant)| {
        let (ident, number) = (&variant.ident, number as u64);
        let (members, types) = (variant.fields.members(), types(&variant.fields, brand));
        quote!(#number => Self::#ident {
            #(#members: <#types>::read(from)?),*
        })
    });
    let pointers = variants.iter().enumerate().map(|(number, variant)| {
        let (number, of) = (number as u64, pointers(&variant.fields, brand));
        quote!(::core::option::Option::Some((#number, words)) => { #of })
    });
    Body {
        words: most(&variants, brand),
        layout: quote!({
            let hash = __heap::hash(0, "enum");
            #(let hash = __heap::mix(hash, #layouts);)*
            hash
        }),
        shape: quote!(__heap::Shape::Variants(::std::vec![#(
            (::std::string::String::from(#names), #shapes)
        ),*])),
        write: quote! {
            let start = to.at();
            match self { #(#write)* }
            to.fill(start, <Self as __heap::Persist<#brand>>::WORDS);
        },
        read: quote! {
            let start = from.at();
            let value = match from.word()? {
                #(#read,)*
                _ => return ::core::result::Result::Err(from.no_variant()),
            };
            from.go_to(start, <Self as __heap::Persist<#brand>>::WORDS);
            ::core::result::Result::Ok(value)
        },
        pointers: quote! {
            match words.split_first().map(|(first, rest)| (*first, rest)) {
                #(#pointers)*
                _ => {}
            }
        },
        fields: quote!(),
    }
}
