//! Places: GEOADD, GEOPOS, GEODIST, GEOHASH. They are members of sorted sets.

use crate::args::Args;
use crate::collection::SortedSet;
use crate::command::{Command, Context, DENY_OOM, READ, SORTED_SET, WRITE};
use crate::commands::sorted_set::{AddOptions, add_members};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::float::parse_double;
use crate::geo::Place;
use crate::reply::Reply;

const READS: u32 = SORTED_SET | READ;
const GROWS: u32 = SORTED_SET | WRITE | DENY_OOM;
const ONE: (i32, i32, i32) = (1, 1, 1);

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::keyed("geoadd", -5, GROWS, ONE, geoadd),
    Command::keyed("geopos", -2, READS, ONE, geopos),
    Command::keyed("geodist", -4, READS, ONE, geodist),
    Command::keyed("geohash", -2, READS, ONE, geohash),
];

/// The place that two arguments name.
pub(super) fn place(args: Args<'_>, at: usize) -> Result<Place, Failure> {
    let number = |at| parse_double(args.at(at)).ok_or("ERR value is not a valid float");
    let (longitude, latitude) = (number(at)?, number(at + 1)?);
    Place::new(longitude, latitude).ok_or_else(|| {
        format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}").into()
    })
}

/// Meters in a unit.
pub(super) fn unit(name: &[u8]) -> Result<f64, Failure> {
    match name.to_ascii_lowercase().as_slice() {
        b"m" => Ok(1.0),
        b"km" => Ok(1000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1609.34),
        _ => Err("ERR unsupported unit provided. please use M, KM, FT, MI".into()),
    }
}

/// Replies with a distance, to four places.
pub(super) fn reply_distance(distance: f64, reply: &mut Reply) {
    let scaled = (distance * 10_000.0).round_ties_even() as i64;
    let (sign, scaled) = (if scaled < 0 { "-" } else { "" }, scaled.unsigned_abs());
    reply.bulk(format!("{sign}{}.{:04}", scaled / 10_000, scaled % 10_000).as_bytes());
}

/// Replies with a place.
pub(super) fn reply_place(place: Place, reply: &mut Reply) {
    reply.array(2);
    for degrees in [place.longitude, place.latitude] {
        let text = format!("{degrees:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        reply.double_as(if text == "-0" { "0" } else { text });
    }
}

fn geoadd(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (mut options, mut at) = (AddOptions::default(), 2);
    while at < args.count() {
        match args.at(at).to_ascii_uppercase().as_slice() {
            b"NX" => options.only_new = true,
            b"XX" => options.only_old = true,
            b"CH" => options.counts_changed = true,
            _ => break,
        }
        at += 1;
    }
    let rest = args.count() - at;
    if !rest.is_multiple_of(3) || options.only_new && options.only_old {
        return Err(SYNTAX.into());
    }
    let mut members = Vec::with_capacity(rest / 3);
    for at in (at..args.count()).step_by(3) {
        members.push((place(args, at)?.score(), args.at(at + 2)));
    }
    if members.is_empty() {
        return Err(SYNTAX.into());
    }
    add_members(context, args.at(1), options, &members, reply)
}

/// The places of members.
fn places(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    last: usize,
) -> Result<Vec<Option<Place>>, Failure> {
    let mut set = SortedSet::open(context.data, (context.session.db, args.at(1)))?;
    let members = args.from(2).take(last - 1);
    members.map(|member| Ok(set.score(member)?.map(Place::of_score))).collect()
}

fn geopos(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let places = places(context, args, args.count())?;
    reply.array(places.len());
    for place in places {
        match place {
            Some(place) => reply_place(place, reply),
            None => reply.null_array(),
        }
    }
    Ok(())
}

fn geohash(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let places = places(context, args, args.count())?;
    reply.array(places.len());
    for place in places {
        match place {
            Some(place) => reply.bulk(&place.text()),
            None => reply.null(),
        }
    }
    Ok(())
}

fn geodist(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let meters = match args.count() {
        4 => 1.0,
        5 => unit(args.at(4))?,
        _ => return Err(SYNTAX.into()),
    };
    match places(context, args, 3)?[..] {
        [Some(from), Some(to)] => reply_distance(from.distance(to) / meters, reply),
        _ => reply.null(),
    }
    Ok(())
}
