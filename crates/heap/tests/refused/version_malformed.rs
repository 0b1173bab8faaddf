//! Versions that are none.
#[derive(tembo_heap::Persist)]
#[persist(version = "2")]
struct Text(u64);

#[derive(tembo_heap::Persist)]
#[persist(version = -1)]
struct Negative(u64);

#[derive(tembo_heap::Persist)]
#[persist(version)]
struct Missing(u64);

#[derive(tembo_heap::Persist)]
#[persist(version(2))]
struct Called(u64);

#[derive(tembo_heap::Persist)]
#[persist(version = 4294967296)]
struct Large(u64);

#[derive(tembo_heap::Persist)]
#[persist(version = 1, version = 2)]
struct Twice(u64);

#[derive(tembo_heap::Persist)]
#[persist(vers = 1)]
struct Misspelt(u64);

#[derive(tembo_heap::Persist)]
#[persist(name = Node)]
struct Named(u64);

#[derive(tembo_heap::Persist)]
#[persist]
struct Alone(u64);

fn main() {}
