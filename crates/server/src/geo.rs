//! Places on earth, as sorted sets hold them: a score of 52 bits, in which those of longitude and latitude take turns, so
//! that places of one square have scores that follow each other.
//!
//! The algorithm is that of geohashes (Niemeyer 2008), over the latitudes of the Web Mercator projection. Distances are those
//! of a sphere, by the haversine formula. All of it is computed in the order in which Redis does, so that no bit differs.

/// Longitudes and latitudes end there, in degrees.
const LIMITS: (f64, f64) = (180.0, 85.051_128_78);
/// Latitudes of a geohash as text end there.
const TEXT_LATITUDE_MAX: f64 = 90.0;
/// Bits of each of both in a score.
const STEPS_MAX: u32 = 26;
/// Of a sphere, in meters.
const EARTH_RADIUS: f64 = 6_372_797.560_856;
/// Half the width of the projection, in meters.
const MERCATOR_MAX: f64 = 20_037_726.37;
/// The alphabet of geohashes.
const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// Longitude and latitude, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    /// East of Greenwich.
    pub(crate) longitude: f64,
    /// North of the equator.
    pub(crate) latitude: f64,
}

/// What lies around a place, in meters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// Not farther than this.
    Circle(f64),
    /// Of a width and a height.
    Box(f64, f64),
}

/// A square: so many leading bits of each of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    longitude: u32,
    latitude: u32,
    steps: u32,
}

/// Both ends of longitudes and of latitudes.
struct Area {
    longitude: (f64, f64),
    latitude: (f64, f64),
}

impl Place {
    /// A place that has a score; `None`: too far north, south, east or west.
    pub(crate) fn new(longitude: f64, latitude: f64) -> Option<Place> {
        let is_in = longitude.abs() <= LIMITS.0 && latitude.abs() <= LIMITS.1;
        is_in.then_some(Place { longitude, latitude })
    }

    /// The middle of the smallest square of a score.
    pub(crate) fn of_score(score: f64) -> Place {
        let area = Cell::of_bits(score as u64, STEPS_MAX).area();
        let middle =
            |(low, high): (f64, f64), limit: f64| ((low + high) / 2.0).clamp(-limit, limit);
        Place {
            longitude: middle(area.longitude, LIMITS.0),
            latitude: middle(area.latitude, LIMITS.1),
        }
    }

    /// Its score.
    pub(crate) fn score(self) -> f64 {
        Cell::of(self, STEPS_MAX, LIMITS.1).bits() as f64
    }

    /// Its geohash, the last character of which is always 0, because a score lacks the bits.
    pub(crate) fn text(self) -> [u8; 11] {
        let bits = Cell::of(self, STEPS_MAX, TEXT_LATITUDE_MAX).bits();
        let mut text = [ALPHABET[0]; 11];
        for (nth, character) in text.iter_mut().take(10).enumerate() {
            *character = ALPHABET[(bits >> (52 - (nth + 1) * 5)) as usize & 31];
        }
        text
    }

    /// Meters to another place.
    pub(crate) fn distance(self, other: Place) -> f64 {
        let half = ((other.longitude.radians() - self.longitude.radians()) / 2.0).sin();
        if half == 0.0 {
            return self.latitude_distance(other);
        }
        let (from, to) = (self.latitude.radians(), other.latitude.radians());
        let u = ((to - from) / 2.0).sin();
        let a = u * u + from.cos() * to.cos() * half * half;
        2.0 * EARTH_RADIUS * a.sqrt().asin()
    }

    fn latitude_distance(self, other: Place) -> f64 {
        EARTH_RADIUS * (other.latitude.radians() - self.latitude.radians()).abs()
    }

    /// Meters to another place that lies in a shape around this one.
    pub(crate) fn distance_within(self, shape: Shape, other: Place) -> Option<f64> {
        match shape {
            Shape::Circle(radius) => Some(self.distance(other)).filter(|meters| *meters <= radius),
            Shape::Box(width, height) => {
                let is_in = other.latitude_distance(self) <= height / 2.0
                    && other.distance(Place { latitude: other.latitude, ..self }) <= width / 2.0;
                is_in.then(|| self.distance(other))
            }
        }
    }

    /// The scores, from the first up to the last of each pair, of which those of all places in a shape around this one are.
    pub(crate) fn scores_around(self, shape: Shape) -> Vec<(f64, f64)> {
        let (west_east, south_north) = self.bounds(shape);
        let mut steps = self.steps_for(shape);
        let mut center = Cell::of(self, steps, LIMITS.1);
        let reaches = |center: Cell| {
            center.moved(0, 1).area().latitude.1 >= south_north.1
                && center.moved(0, -1).area().latitude.0 <= south_north.0
                && center.moved(1, 0).area().longitude.1 >= west_east.1
                && center.moved(-1, 0).area().longitude.0 <= west_east.0
        };
        if steps > 1 && !reaches(center) {
            steps -= 1;
            center = Cell::of(self, steps, LIMITS.1);
        }
        let area = center.area();
        let is_needed = |east: i32, north: i32| {
            steps < 2
                || !(north < 0 && area.latitude.0 < south_north.0
                    || north > 0 && area.latitude.1 > south_north.1
                    || east < 0 && area.longitude.0 < west_east.0
                    || east > 0 && area.longitude.1 > west_east.1)
        };
        let directions =
            [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let mut cells: Vec<(usize, Cell)> = Vec::with_capacity(directions.len());
        for (nth, (east, north)) in directions.into_iter().enumerate() {
            let cell = center.moved(east, north);
            // Around a large part of the earth neighbors are the same; only the first one is not compared with.
            let is_same = cells.last().is_some_and(|(last, other)| *last > 0 && *other == cell);
            if is_needed(east, north) && !is_same {
                cells.push((nth, cell));
            }
        }
        cells.into_iter().map(|(_, cell)| cell.scores()).collect()
    }

    /// The longitudes and latitudes between which a shape lies.
    fn bounds(self, shape: Shape) -> ((f64, f64), (f64, f64)) {
        let (width, height) = match shape {
            Shape::Circle(radius) => (radius, radius),
            Shape::Box(width, height) => (width / 2.0, height / 2.0),
        };
        let high = (height / EARTH_RADIUS).degrees();
        // Circles of latitude are shorter towards the poles.
        let farther = if self.latitude < 0.0 { self.latitude - high } else { self.latitude + high };
        let wide = (width / EARTH_RADIUS / farther.radians().cos()).degrees();
        (
            (self.longitude - wide, self.longitude + wide),
            (self.latitude - high, self.latitude + high),
        )
    }

    /// Bits of squares of which nine cover a shape most of the time.
    fn steps_for(self, shape: Shape) -> u32 {
        let mut meters = match shape {
            Shape::Circle(radius) => radius,
            Shape::Box(width, height) => {
                (width / 2.0 * (width / 2.0) + height / 2.0 * (height / 2.0)).sqrt()
            }
        };
        if meters == 0.0 {
            return STEPS_MAX;
        }
        let mut steps: i32 = -1;
        while meters < MERCATOR_MAX {
            meters *= 2.0;
            steps += 1;
        }
        steps -= i32::from(self.latitude.abs() > 66.0) + i32::from(self.latitude.abs() > 80.0);
        steps.clamp(1, STEPS_MAX as i32) as u32
    }
}

/// Degrees and radians, rounded as Redis does.
trait Angle {
    fn radians(self) -> f64;
    fn degrees(self) -> f64;
}

/// A degree in radians.
const DEGREE: f64 = std::f64::consts::PI / 180.0;

impl Angle for f64 {
    fn radians(self) -> f64 {
        self * DEGREE
    }

    fn degrees(self) -> f64 {
        self / DEGREE
    }
}

impl Cell {
    fn of(place: Place, steps: u32, latitude_max: f64) -> Cell {
        let part = |degrees: f64, limit: f64| {
            ((degrees + limit) / (limit + limit) * (1_u64 << steps) as f64) as u32
        };
        Cell {
            longitude: part(place.longitude, LIMITS.0),
            latitude: part(place.latitude, latitude_max),
            steps,
        }
    }

    fn of_bits(bits: u64, steps: u32) -> Cell {
        Cell { longitude: every_second(bits >> 1), latitude: every_second(bits), steps }
    }

    fn bits(self) -> u64 {
        spread(self.latitude) | spread(self.longitude) << 1
    }

    /// The scores of its places: the first, and the first behind them.
    fn scores(self) -> (f64, f64) {
        let (bits, shift) = (self.bits(), 2 * (STEPS_MAX - self.steps));
        ((bits << shift) as f64, ((bits + 1) << shift) as f64)
    }

    /// A neighbor, around the earth.
    fn moved(self, east: i32, north: i32) -> Cell {
        let step = |part: u32, by: i32| match by {
            0 => part,
            by => part.wrapping_add_signed(by) & ((1 << self.steps) - 1),
        };
        Cell {
            longitude: step(self.longitude, east),
            latitude: step(self.latitude, north),
            steps: self.steps,
        }
    }

    fn area(self) -> Area {
        let parts = (1_u64 << self.steps) as f64;
        let ends = |part: u32, limit: f64| {
            let end = |part: f64| -limit + (part / parts) * (limit + limit);
            (end(f64::from(part)), end(f64::from(part.wrapping_add(1))))
        };
        Area { longitude: ends(self.longitude, LIMITS.0), latitude: ends(self.latitude, LIMITS.1) }
    }
}

/// Puts a zero before each bit.
fn spread(number: u32) -> u64 {
    let mut bits = u64::from(number);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff_u64),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// The reverse of [`spread`]; each other bit is left out.
fn every_second(bits: u64) -> u32 {
    let mut bits = bits & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333_u64),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back() {
        for number in [0, 1, 0xffff_ffff, 0x1234_5678] {
            assert_eq!(every_second(spread(number)), number);
            assert_eq!(every_second(spread(number) << 1), 0);
        }
    }

    #[test]
    fn the_known_places() {
        let palermo = Place::new(13.361_389, 38.115_556).unwrap();
        assert_eq!(palermo.score(), 3_479_099_956_230_698.0);
        let (palermo, catania) =
            (Place::of_score(palermo.score()), Place::of_score(3_479_447_370_796_909.0));
        assert_eq!(&palermo.text(), b"sqc8b49rny0");
        assert_eq!(format!("{:.4}", palermo.distance(catania)), "166274.1516");
        assert!(Place::new(181.0, 0.0).is_none() && Place::new(0.0, 86.0).is_none());
    }
}
