use super::*;

/// A connection's place, and its requests under way.
type Connection = (Arc<Place>, Vec<Request>);

/// What a connection has done, in letters: `t` it has shown a token, `r` a request is under way, `d`
/// one was and is done.
fn connections(all: &[&str]) -> (Arc<Places>, Vec<Connection>) {
    let places = Places::new(all.len());
    let new = |_: &&str| (places.take().unwrap(), Vec::new());
    let mut taken: Vec<Connection> = all.iter().map(new).collect();
    for ((place, requests), done) in taken.iter_mut().zip(all) {
        for letter in done.chars() {
            match letter {
                't' => place.is_callers(),
                'r' => requests.push(place.request()),
                'd' => drop(place.request()),
                other => panic!("{other}"),
            }
        }
    }
    (places, taken)
}

#[test]
fn the_one_that_is_missed_least_makes_way() {
    let cases: [(&[&str], Option<usize>); 9] = [
        (&["", "", ""], Some(0)),
        (&["d", "", "t"], Some(1)),
        (&["t", "r", ""], Some(2)),
        (&["t", "r", "tr"], Some(1)),
        (&["t", "td", "tr"], Some(0)),
        (&["td", "t", "tr"], Some(1)),
        (&["tr", "trd", "tr"], None),
        (&["trr", "tr"], None),
        (&["r", "r"], Some(0)),
    ];
    for (all, expected) in cases {
        let (places, taken) = connections(all);
        let new = places.take();
        assert_eq!(new.is_some(), expected.is_some(), "{all:?}");
        let left = taken.iter().position(|(place, _)| place.leave.is_cancelled());
        assert_eq!(left, expected, "{all:?}");
    }
}

#[test]
fn a_place_that_was_left_is_free_and_counted_once() {
    let places = Places::new(2);
    let (first, second) = (places.take().unwrap(), places.take().unwrap());
    let third = places.take().unwrap();
    assert!(first.leave.is_cancelled());
    // What still runs of the first frees no place of another.
    let late = first.request();
    drop((late, first));
    assert_eq!(places.taken.lock().by_number.len(), 2);
    drop((second, third));
    assert_eq!(places.taken.lock().by_number.len(), 0);
}
