//! Large sets of which random members are removed.

use std::collections::BTreeSet;

use tembo_kv::{Options, Store};
use tembo_server::{Local, check_collections};

use crate::client::Random;

fn call(local: &mut Local, words: &[&str]) -> Vec<String> {
    let request = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let reply = String::from_utf8(local.turn(1, &[request]).unwrap()).unwrap();
    reply.lines().filter(|line| !line.starts_with(['*', '$'])).map(str::to_owned).collect()
}

/// Others are added and removed meanwhile, also such as were drawn to be popped next.
#[test]
fn members_that_are_popped_were_there_and_come_once() {
    let store = Store::volatile(&Options::default()).unwrap();
    let mut local = Local::open(store, 1).unwrap();
    let (mut random, mut model) = (Random(5), BTreeSet::new());
    for number in 0..5000 {
        let member = format!("member {number}");
        call(&mut local, &["SADD", "s", &member]);
        model.insert(member);
    }
    let mut popped = 0;
    while !model.is_empty() {
        let count = [1, 1, 1, 7, 300][random.below(5)];
        let many = count.to_string();
        let words = ["SPOP", "s", &many];
        for member in call(&mut local, if count == 1 { &words[..2] } else { &words }) {
            assert!(model.remove(&member), "{member}");
            popped += 1;
        }
        let member = format!("member {}", random.below(5000));
        let was_there = model.remove(&member);
        assert_eq!(
            call(&mut local, &["SREM", "s", &member]),
            [format!(":{}", u8::from(was_there))]
        );
        if popped < 2000 {
            assert_eq!(call(&mut local, &["SADD", "s", &member]), [":1"]);
            model.insert(member);
        }
        assert_eq!(call(&mut local, &["SCARD", "s"]), [format!(":{}", model.len())]);
    }
    assert!(call(&mut local, &["SPOP", "s"]).is_empty() && popped >= 2000);
    let snapshot = local.store().snapshot().unwrap();
    check_collections(&snapshot, 0, &mut |what| panic!("{what}")).unwrap();
}
