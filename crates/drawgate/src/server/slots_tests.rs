use super::*;

/// A connection's place, and its requests under way.
type Connection = (Arc<ConnectionSlot>, Vec<ActiveRequest>);

/// What a connection has done, in letters: `t` it has shown a token, `r` a request is under way, `d`
/// one was and is done.
fn connections(all: &[&str]) -> (Arc<ConnectionSlots>, Vec<Connection>) {
    let slots = ConnectionSlots::new(all.len());
    let new = |_: &&str| (slots.take().unwrap(), Vec::new());
    let mut connections: Vec<Connection> = all.iter().map(new).collect();
    for ((slot, requests), done) in connections.iter_mut().zip(all) {
        for letter in done.chars() {
            match letter {
                't' => slot.mark_as_caller(),
                'r' => requests.push(slot.request()),
                'd' => drop(slot.request()),
                other => panic!("{other}"),
            }
        }
    }
    (slots, connections)
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
        let (slots, connections) = connections(all);
        let new = slots.take();
        assert_eq!(new.is_some(), expected.is_some(), "{all:?}");
        let left = connections.iter().position(|(slot, _)| slot.evicted.is_cancelled());
        assert_eq!(left, expected, "{all:?}");
    }
}

#[test]
fn a_place_that_was_left_is_free_and_counted_once() {
    let slots = ConnectionSlots::new(2);
    let (first, second) = (slots.take().unwrap(), slots.take().unwrap());
    let third = slots.take().unwrap();
    assert!(first.evicted.is_cancelled());
    // What still runs of the first frees no place of another.
    let late = first.request();
    drop((late, first));
    assert_eq!(slots.table.lock().by_number.len(), 2);
    drop((second, third));
    assert_eq!(slots.table.lock().by_number.len(), 0);
}

#[test]
fn connections_leave_files_to_all_else() {
    for (limit, most, control) in [
        (None, usize::MAX, 4096),
        (Some(1 << 20), 524_256, 4096),
        (Some(1024), 480, 240),
        (Some(MIN_OPEN_FILES), 32, 16),
        (Some(40), 1, 1),
        (Some(0), 1, 1),
    ] {
        assert_eq!((possible(limit), possible_for_control(limit)), (most, control), "{limit:?}");
    }
}
