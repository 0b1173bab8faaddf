//! Places around a place: GEOSEARCH, GEORADIUS and their kin.

use crate::args::Args;
use crate::collection::{SortedSet, Span};
use crate::command::{Command, Context, DENY_OOM, READ, SORTED_SET, WRITE};
use crate::commands::argument::integer;
use crate::commands::geo::{place, reply_distance, reply_place, unit};
use crate::commands::sorted_set::{scored, store};
use crate::effects::send_state;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::float::parse_double;
use crate::geo::{Place, Shape};
use crate::reply::Reply;
use tembo_kv::Direction;

const READS: u32 = SORTED_SET | READ;
const GROWS: u32 = SORTED_SET | WRITE | DENY_OOM;
const ONE: (i32, i32, i32) = (1, 1, 1);

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::keyed("geosearch", -7, READS, ONE, geosearch),
    Command::keyed("geosearchstore", -8, GROWS, (1, 2, 1), geosearchstore),
    Command::keyed("georadius", -6, GROWS, ONE, georadius),
    Command::keyed("georadius_ro", -6, READS, ONE, georadius_ro),
    Command::keyed("georadiusbymember", -5, GROWS, ONE, georadiusbymember),
    Command::keyed("georadiusbymember_ro", -5, READS, ONE, georadiusbymember_ro),
];

/// Which command it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// GEOSEARCH: the center and the shape are options.
    Search,
    /// GEOSEARCHSTORE: the first key is that of the result.
    SearchStore,
    /// GEORADIUS: the center is a place; whether the result may be stored.
    Radius { stores: bool },
    /// GEORADIUSBYMEMBER: the center is a member; whether the result may be stored.
    RadiusByMember { stores: bool },
}

impl Form {
    fn is_search(self) -> bool {
        matches!(self, Form::Search | Form::SearchStore)
    }

    fn stores_by_option(self) -> bool {
        matches!(self, Form::Radius { stores: true } | Form::RadiusByMember { stores: true })
    }
}

/// What is looked for.
struct Query<'a> {
    /// `None`: there is no sorted set, so that a member has no place.
    center: Option<Place>,
    has_center: bool,
    /// In meters, and meters in the unit of all lengths.
    shape: Option<(Shape, f64)>,
    with_distance: bool,
    with_score: bool,
    with_place: bool,
    order: Option<Direction>,
    count: Option<usize>,
    is_any: bool,
    target: Option<&'a [u8]>,
    stores_distance: bool,
}

/// A place that was found.
struct Found {
    member: Vec<u8>,
    score: f64,
    place: Place,
    distance: f64,
}

/// A length in a unit, in meters, and the unit's meters.
fn length(args: Args<'_>, at: usize) -> Result<(Shape, f64), Failure> {
    let radius = parse_double(args.at(at)).ok_or("ERR need numeric radius")?;
    if radius < 0.0 {
        return Err("ERR radius cannot be negative".into());
    }
    let meters = unit(args.at(at + 1))?;
    Ok((Shape::Circle(radius * meters), meters))
}

/// A width and a height in a unit, in meters, and the unit's meters.
fn sides(args: Args<'_>, at: usize) -> Result<(Shape, f64), Failure> {
    let width = parse_double(args.at(at)).ok_or("ERR need numeric width")?;
    let height = parse_double(args.at(at + 1)).ok_or("ERR need numeric height")?;
    if width < 0.0 || height < 0.0 {
        return Err("ERR height or width cannot be negative".into());
    }
    let meters = unit(args.at(at + 2))?;
    Ok((Shape::Box(width * meters, height * meters), meters))
}

impl<'a> Query<'a> {
    fn parse(
        set: &mut SortedSet<'_, '_>,
        args: Args<'a>,
        form: Form,
    ) -> Result<Query<'a>, Failure> {
        let mut query = Query {
            center: None,
            has_center: false,
            shape: None,
            with_distance: false,
            with_score: false,
            with_place: false,
            order: None,
            count: None,
            is_any: false,
            target: None,
            stores_distance: false,
        };
        let first = match form {
            Form::Search => 2,
            Form::SearchStore => {
                query.target = Some(args.at(1));
                3
            }
            Form::Radius { .. } => {
                query.center = Some(place(args, 2)?);
                query.shape = Some(length(args, 4)?);
                6
            }
            Form::RadiusByMember { .. } => {
                query.set_member(set, args.at(2))?;
                if set.count() > 0 {
                    query.shape = Some(length(args, 3)?);
                }
                5
            }
        };
        let mut at = first;
        while at < args.count() {
            at += query.parse_option(set, (args, at), form)?;
        }
        query.check(args, form)?;
        Ok(query)
    }

    /// The center is the place of a member.
    fn set_member(&mut self, set: &mut SortedSet<'_, '_>, member: &[u8]) -> Outcome {
        self.has_center = true;
        if set.count() > 0 {
            let score = set.score(member)?.ok_or("ERR could not decode requested zset member")?;
            self.center = Some(Place::of_score(score));
        }
        Ok(())
    }

    /// Takes an option; how many arguments it has.
    fn parse_option(
        &mut self,
        set: &mut SortedSet<'_, '_>,
        (args, at): (Args<'a>, usize),
        form: Form,
    ) -> Result<usize, Failure> {
        let left = args.count() - at - 1;
        match args.at(at).to_ascii_uppercase().as_slice() {
            b"WITHDIST" => self.with_distance = true,
            b"WITHHASH" => self.with_score = true,
            b"WITHCOORD" => self.with_place = true,
            b"ANY" => self.is_any = true,
            b"ASC" => self.order = Some(Direction::Forward),
            b"DESC" => self.order = Some(Direction::Backward),
            b"COUNT" if left >= 1 => {
                let count = integer(args.at(at + 1))?;
                if count <= 0 {
                    return Err("ERR COUNT must be > 0".into());
                }
                self.count = Some(count as usize);
                return Ok(2);
            }
            name @ (b"STORE" | b"STOREDIST") if left >= 1 && form.stores_by_option() => {
                self.target = Some(args.at(at + 1));
                self.stores_distance = name == b"STOREDIST";
                return Ok(2);
            }
            b"STOREDIST" if form == Form::SearchStore => self.stores_distance = true,
            b"FROMMEMBER"
                if left >= 1 && form.is_search() && (self.center.is_none() || self.has_center) =>
            {
                self.set_member(set, args.at(at + 1))?;
                return Ok(2);
            }
            b"FROMLONLAT" if left >= 2 && form.is_search() && !self.has_center => {
                self.center = Some(place(args, at + 1)?);
                return Ok(3);
            }
            b"BYRADIUS"
                if left >= 2
                    && form.is_search()
                    && !matches!(self.shape, Some((Shape::Box(..), _))) =>
            {
                self.shape = Some(length(args, at + 1)?);
                return Ok(3);
            }
            b"BYBOX"
                if left >= 3
                    && form.is_search()
                    && !matches!(self.shape, Some((Shape::Circle(_), _))) =>
            {
                self.shape = Some(sides(args, at + 1)?);
                return Ok(4);
            }
            _ => return Err(SYNTAX.into()),
        }
        Ok(1)
    }

    /// Whether the options fit together.
    fn check(&self, args: Args<'_>, form: Form) -> Outcome {
        if self.target.is_some() && (self.with_distance || self.with_score || self.with_place) {
            let name = match form {
                Form::SearchStore => "GEOSEARCHSTORE",
                _ => "STORE option in GEORADIUS",
            };
            let text = "is not compatible with WITHDIST, WITHHASH and WITHCOORD options";
            return Err(format!("ERR {name} {text}").into());
        }
        let missing = if !form.is_search() {
            None
        } else if !self.has_center && self.center.is_none() {
            Some("of FROMMEMBER or FROMLONLAT")
        } else if self.shape.is_none() {
            Some("of BYRADIUS and BYBOX")
        } else {
            None
        };
        if let Some(missing) = missing {
            let name = String::from_utf8_lossy(args.at(0));
            return Err(format!("ERR exactly one {missing} can be specified for {name}").into());
        }
        if self.is_any && self.count.is_none() {
            return Err("ERR the ANY argument requires COUNT argument".into());
        }
        Ok(())
    }

    /// The places, in the order asked for, and their number restricted.
    fn find(&self, set: &mut SortedSet<'_, '_>) -> Result<Vec<Found>, Failure> {
        let (Some(center), Some((shape, _))) = (self.center, self.shape) else {
            return Ok(Vec::new());
        };
        let enough = self.count.filter(|_| self.is_any).unwrap_or(usize::MAX);
        let mut found: Vec<Found> = Vec::new();
        for (from, to) in center.scores_around(shape) {
            if found.len() >= enough {
                break;
            }
            let span = Span::scores((from, false), (to, true));
            set.visit(&span, Direction::Forward, &mut |member, score| {
                let place = Place::of_score(score);
                if let Some(distance) = center.distance_within(shape, place) {
                    found.push(Found { member: member.to_vec(), score, place, distance });
                }
                found.len() < enough
            })?;
        }
        // The nearest ones are asked for, if some are to be left out.
        let nearest = self.count.filter(|_| !self.is_any).map(|_| Direction::Forward);
        match self.order.or(nearest) {
            Some(Direction::Forward) => found.sort_by(|a, b| a.distance.total_cmp(&b.distance)),
            Some(Direction::Backward) => found.sort_by(|a, b| b.distance.total_cmp(&a.distance)),
            None => {}
        }
        found.truncate(self.count.unwrap_or(usize::MAX));
        Ok(found)
    }
}

fn search(context: &mut Context<'_, '_>, args: Args<'_>, form: Form, reply: &mut Reply) -> Outcome {
    let source = if form == Form::SearchStore { 2 } else { 1 };
    let mut set = SortedSet::open(context.data, (context.session.db, args.at(source)))?;
    let query = Query::parse(&mut set, args, form)?;
    let found = query.find(&mut set)?;
    let meters = query.shape.map_or(1.0, |(_, meters)| meters);
    if let Some(target) = query.target {
        let members: Vec<(Vec<u8>, f64)> = found
            .into_iter()
            .map(|found| {
                let score =
                    if query.stores_distance { found.distance / meters } else { found.score };
                (found.member, score)
            })
            .collect();
        reply.integer(members.len() as i64);
        let event = if form.is_search() { "geosearchstore" } else { "georadiusstore" };
        store(context, target, scored(&members), event)?;
        return send_state(context, target);
    }
    let options = [query.with_distance, query.with_score, query.with_place];
    let parts = 1 + options.iter().filter(|is_asked| **is_asked).count();
    reply.array(found.len());
    for found in found {
        if parts > 1 {
            reply.array(parts);
        }
        reply.bulk(&found.member);
        if query.with_distance {
            reply_distance(found.distance / meters, reply);
        }
        if query.with_score {
            reply.integer(found.score as i64);
        }
        if query.with_place {
            reply_place(found.place, reply);
        }
    }
    Ok(())
}

fn geosearch(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    search(context, args, Form::Search, reply)
}

fn geosearchstore(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    search(context, args, Form::SearchStore, reply)
}

fn georadius(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    search(context, args, Form::Radius { stores: true }, reply)
}

fn georadius_ro(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    search(context, args, Form::Radius { stores: false }, reply)
}

fn georadiusbymember(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    search(context, args, Form::RadiusByMember { stores: true }, reply)
}

fn georadiusbymember_ro(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    search(context, args, Form::RadiusByMember { stores: false }, reply)
}
