//! Access control lists against a model of POSIX `1003.1e draft 17`: what is made inherits, permissions and lists say the same.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::collections::BTreeMap;

use tembo_fs::{
    ACCESS_LIST, AnyTreeMut, Condition, DEFAULT_LIST, Error, FileKind, Format, Fs, New, ROOT, Set,
    Time,
};
use tembo_kv::{Durability, Options, Store};
use tembo_sim::Random;

const NOW: Time = Time { seconds: 1_700_000_000, nanoseconds: 0 };

/// Tags of entries, as programs know them, in the order of a list.
const OWNER: u16 = 1;
const USER: u16 = 2;
const OWNING_GROUP: u16 = 4;
const GROUP: u16 = 8;
const MASK: u16 = 16;
const OTHERS: u16 = 32;
const NONE: u32 = u32::MAX;

/// A list: permissions by tag and number.
type List = BTreeMap<(u16, u32), u16>;

fn bytes(list: &List) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for ((tag, id), permissions) in list {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// The entry that the permissions of the group class are those of (23.1.2: the mask, if there is one).
fn group_class(list: &List) -> (u16, u32) {
    if list.contains_key(&(MASK, NONE)) { (MASK, NONE) } else { (OWNING_GROUP, NONE) }
}

/// What a list makes of the permission bits.
fn bits(list: &List) -> u16 {
    list[&(OWNER, NONE)] << 6 | list[&group_class(list)] << 3 | list[&(OTHERS, NONE)]
}

/// The entries that correspond to permission bits become what `with` makes of them and of the bits.
fn put_bits(list: &mut List, permissions: u16, with: impl Fn(u16, u16) -> u16) {
    let of_group = group_class(list);
    for (entry, shift) in [((OWNER, NONE), 6), (of_group, 3), ((OTHERS, NONE), 0)] {
        let old = list[&entry];
        list.insert(entry, with(old, permissions >> shift & 7));
    }
}

/// A file in the model.
#[derive(Clone, Debug, PartialEq, Eq)]
struct File {
    kind: FileKind,
    permissions: u16,
    /// With more than the three entries that permissions are.
    access: Option<List>,
    default: Option<List>,
}

impl File {
    /// What is made in a directory (23.1.5.1 of it).
    fn made(directory: &File, kind: FileKind, permissions: u16, umask: u16) -> File {
        let mut file = File { kind, permissions, access: None, default: None };
        // A directory hands on that its group is to be that of what is made in it.
        let handed_on = directory.permissions & 0o2000;
        match &directory.default {
            _ if kind == FileKind::Symlink => {}
            None => file.permissions &= !umask,
            Some(default) => {
                let mut access = default.clone();
                put_bits(&mut access, permissions, |old, asked| old & asked);
                file.permissions = bits(&access);
                file.access = (access.len() > 3).then_some(access);
                file.default = (kind == FileKind::Directory).then(|| default.clone());
            }
        }
        if kind == FileKind::Directory {
            file.permissions |= handed_on;
        }
        file
    }

    fn set_permissions(&mut self, permissions: u16) {
        self.permissions = permissions;
        if let Some(access) = &mut self.access {
            put_bits(access, permissions, |_, asked| asked);
        }
    }

    fn set_access(&mut self, list: List) {
        self.permissions = bits(&list);
        self.access = (list.len() > 3).then_some(list);
    }
}

fn any_list(random: &mut Random) -> List {
    let mut list = List::new();
    let any = |random: &mut Random| random.below(8) as u16;
    for tag in [OWNER, OWNING_GROUP, OTHERS] {
        list.insert((tag, NONE), any(random));
    }
    for tag in [USER, GROUP] {
        for _ in 0..random.below(3) {
            list.insert((tag, random.below(5) as u32), any(random));
        }
    }
    if list.len() > 3 || random.below(4) == 0 {
        list.insert((MASK, NONE), any(random));
    }
    list
}

/// What the file system says of a file.
fn shown(fs: &Fs, number: u64) -> (u16, BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut tree = fs.snapshot().unwrap();
    let permissions = tree.inode(number).unwrap().permissions;
    let names = tree.attributes(number).unwrap();
    let value = |name: Vec<u8>| (name.clone(), tree.attribute(number, &name).unwrap());
    (permissions, names.into_iter().map(value).collect())
}

fn expected(file: &File) -> (u16, BTreeMap<Vec<u8>, Vec<u8>>) {
    let lists = [(ACCESS_LIST, &file.access), (DEFAULT_LIST, &file.default)];
    let lists = lists.into_iter().filter_map(|(name, list)| Some((name.to_vec(), list.as_ref()?)));
    (file.permissions, lists.map(|(name, list)| (name, bytes(list))).collect())
}

fn change<T>(
    fs: &Fs,
    work: impl FnOnce(&mut AnyTreeMut<'_, '_>) -> Result<T, Error>,
) -> Result<T, Error> {
    fs.write(NOW, Durability::Buffered, work)
}

fn make(fs: &Fs, parent: u64, serial: usize, file: &File, umask: u16) -> u64 {
    let (kind, permissions) = (file.kind, file.permissions);
    let new = New { kind, permissions, user: 1, group: 2, device: 0, umask: Some(umask) };
    let name = format!("{serial}");
    let made = change(fs, |tree| match kind {
        FileKind::Symlink => tree.symlink(parent, name.as_bytes(), b"target", &new),
        _ if serial.is_multiple_of(7) && kind == FileKind::Regular => {
            let made = tree.create_unnamed(parent, &new)?;
            tree.link(made.number, parent, name.as_bytes())
        }
        _ => tree.create(parent, name.as_bytes(), &new),
    });
    made.unwrap().number
}

fn formatted() -> Fs {
    let store = Store::volatile(&Options::new()).unwrap();
    Fs::format(&store, &Format::default(), NOW).unwrap()
}

#[test]
fn lists_and_permissions_are_those_of_the_model() {
    let seed = std::env::var("TEMBO_SEED").map_or(19, |seed| seed.parse().unwrap());
    println!("TEMBO_SEED={seed}");
    let mut random = Random::new(seed);
    let fs = formatted();
    let (kind, permissions) = (FileKind::Directory, 0o755);
    let mut files =
        BTreeMap::from([(ROOT, File { kind, permissions, access: None, default: None })]);
    let kinds = [FileKind::Regular, FileKind::Directory, FileKind::Directory, FileKind::Fifo];
    for serial in 0..3000 {
        let numbers: Vec<u64> = files.keys().copied().collect();
        let number = numbers[random.below(numbers.len())];
        let mut file = files[&number].clone();
        let list = any_list(&mut random);
        let set = |name: &[u8], list: &List| {
            change(&fs, |tree| tree.set_attribute(number, name, &bytes(list), Condition::Any))
        };
        match random.below(8) {
            0..=2 if file.kind == FileKind::Directory => {
                let kind = match random.below(8) {
                    0 => FileKind::Symlink,
                    other => kinds[other % 4],
                };
                let asked = [0o666, 0o777, 0o640, 0o700, 0o1777][random.below(5)];
                let umask = [0o022, 0, 0o077, 0o777][random.below(4)];
                let asked = File { kind, permissions: asked, access: None, default: None };
                let made = File::made(&file, kind, asked.permissions & 0o777, umask);
                let made =
                    File { permissions: made.permissions | asked.permissions & 0o7000, ..made };
                files.insert(make(&fs, number, serial, &asked, umask), made);
            }
            3 | 4 if file.kind != FileKind::Symlink => {
                set(ACCESS_LIST, &list).unwrap();
                let upper = file.permissions & 0o7000;
                file.set_access(list);
                file.permissions |= upper;
            }
            5 if file.kind == FileKind::Directory => {
                set(DEFAULT_LIST, &list).unwrap();
                file.default = Some(list);
            }
            6 => {
                let permissions = random.below(0o10000) as u16;
                let set = Set { permissions: Some(permissions), ..Set::default() };
                change(&fs, |tree| tree.set(number, &set)).unwrap();
                file.set_permissions(permissions);
            }
            7 => {
                let name = [ACCESS_LIST, DEFAULT_LIST][random.below(2)];
                let of_model =
                    if name == ACCESS_LIST { &mut file.access } else { &mut file.default };
                let removed = change(&fs, |tree| tree.remove_attribute(number, name));
                assert_eq!(removed.is_ok(), of_model.take().is_some(), "{removed:?}");
            }
            _ => {}
        }
        files.insert(number, file);
        for (&number, file) in &files {
            let is_near = number + 3 > numbers.len() as u64 || serial % 500 == 0;
            if is_near || number == numbers[random.below(numbers.len())] {
                assert_eq!(shown(&fs, number), expected(file), "{number}, {serial}: {file:?}");
            }
        }
    }
    for (&number, file) in &files {
        assert_eq!(shown(&fs, number), expected(file), "{number}: {file:?}");
    }
    let found = fs.snapshot().unwrap().check().unwrap();
    assert_eq!(found.findings, []);
}

#[test]
fn what_is_no_list_is_refused_and_changes_nothing() {
    let fs = formatted();
    let asked = |kind| File { kind, permissions: 0o640, access: None, default: None };
    let file = make(&fs, ROOT, 1, &asked(FileKind::Regular), 0);
    let link = make(&fs, ROOT, 2, &asked(FileKind::Symlink), 0);
    let list = List::from([((OWNER, NONE), 7), ((OWNING_GROUP, NONE), 7), ((OTHERS, NONE), 7)]);
    let mut unmasked = list.clone();
    unmasked.insert((USER, 4), 7);
    let refused = |number, name: &[u8], value: Vec<u8>| {
        let set = change(&fs, |tree| tree.set_attribute(number, name, &value, Condition::Any));
        assert!(matches!(set, Err(Error::Invalid { .. })), "{set:?}");
    };
    refused(file, ACCESS_LIST, bytes(&unmasked));
    refused(file, ACCESS_LIST, vec![]);
    refused(file, ACCESS_LIST, bytes(&list)[..10].to_vec());
    refused(file, DEFAULT_LIST, bytes(&list));
    refused(link, ACCESS_LIST, bytes(&list));
    assert_eq!(shown(&fs, file), (0o640, BTreeMap::new()));
    // Longer than the kernel takes.
    let mut long = list.clone();
    long.extend((0..600).map(|id| ((USER, id), 7)));
    long.insert((MASK, NONE), 7);
    let set = |list: &List, condition| {
        change(&fs, |tree| tree.set_attribute(file, ACCESS_LIST, &bytes(list), condition))
    };
    assert!(matches!(set(&long, Condition::Any), Err(Error::AttributeTooLong { .. })));
    // One that is not kept is not there to be replaced.
    set(&list, Condition::Create).unwrap();
    assert!(matches!(set(&list, Condition::Replace), Err(Error::NoSuchAttribute { .. })));
    assert_eq!(shown(&fs, file), (0o777, BTreeMap::new()));
}
