//! The trees of the keyspaces: as the catalogue names them, as the writer lists them, as readers find them.

mod catalogue;
mod directory;
mod indexes;
mod lifetime;
mod private;
mod published;
mod tree;

pub(crate) use catalogue::{Catalogue, encode_counts};
pub(crate) use directory::{Directory, create_tree};
pub(crate) use indexes::Indexes;
pub(crate) use lifetime::{TreeLifetime, lifetimes, retained_trees};
pub(crate) use private::{PRIVATE_VERSION, PrivateTrees, private_stamp};
pub(crate) use published::{Current, Published};
pub(crate) use tree::Tree;
