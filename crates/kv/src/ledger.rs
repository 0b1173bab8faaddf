//! The ledger: what the writer knows, and what only the writer does with it.
//!
//! [`Ledger`] stands under the writer's lock. Its modules, from below:
//!
//! ```text
//! publication   a commit: dead before it, commit word, tallies, visible, followers
//! dead          what becomes void: aborts, rollbacks, savepoints
//! upkeep        the steps of the background, and all of them at once for a writer in need
//! features      what a program must know that opens or writes the store
//! window        moves the window of versions that stay readable
//! private       gives back the trees of transactions that have outgrown memory, and large ones that were cleared
//! space         gives back what no retained version sees
//! tree_objects  what a tree consists of
//! state         the struct itself; draws versions
//! ```

mod dead;
mod features;
mod private;
mod publication;
mod retire_list;
mod space;
mod state;
mod tree_objects;
mod unlisted;
mod upkeep;
mod window;

pub(crate) use dead::{abort, kill, kill_grouped, make_room};
pub(crate) use features::Features;
pub(crate) use private::{collect_private, free_private, give_back_now};
pub(crate) use publication::{Group, add_up, look_behind, publish, publish_empty, publish_single};
pub(crate) use space::{forget_after, reclaim, retire};
pub(crate) use state::{DRAWN_AT_ONCE, Ledger, allow_next, next_version, take_version};
pub(crate) use unlisted::Cleared;
pub(crate) use upkeep::{
    begin_foreign, begin_marking, collect_batch, collect_below, draw_owed, end_foreign, end_hint,
    end_marking, mark_all, mark_own, recover_now, scrub_batch, take_foreign, take_over,
};
pub(crate) use window::{release_tombstones, set_retention};
