//! Connections that have not logged in yet. There is room for so many; who comes after that takes the
//! place of one that has waited long, from where most of them are.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::peers::Ending;

/// So many connections may wait for their login. A login takes milliseconds, so that strangers who
/// only wait can't keep others out.
pub(super) const MAX_WAITING: usize = 256;

#[derive(Default)]
pub(super) struct Waiting(BTreeMap<u64, Waits>);

struct Waits {
    ending: Arc<Ending>,
    place: IpAddr,
    is_proving: bool,
}

impl Waiting {
    /// One more waits. Returns the one that had to make room.
    pub(super) fn enter(
        &mut self,
        number: u64,
        ending: &Arc<Ending>,
        remote: IpAddr,
    ) -> Option<Arc<Ending>> {
        let gone = if self.0.len() >= MAX_WAITING { self.pick() } else { None };
        let gone = gone.and_then(|number| self.0.remove(&number));
        let waits = Waits { ending: Arc::clone(ending), place: place(remote), is_proving: false };
        self.0.insert(number, waits);
        gone.map(|gone| gone.ending)
    }

    pub(super) fn leave(&mut self, number: u64) {
        self.0.remove(&number);
    }

    /// Whose proof is being looked at is not sent away.
    pub(super) fn begin_proof(&mut self, number: u64) {
        self.set_proving(number, true);
    }

    pub(super) fn end_proof(&mut self, number: u64) {
        self.set_proving(number, false);
    }

    fn set_proving(&mut self, number: u64, is_proving: bool) {
        if let Some(waits) = self.0.get_mut(&number) {
            waits.is_proving = is_proving;
        }
    }

    /// The oldest of the largest crowd.
    fn pick(&self) -> Option<u64> {
        let mut crowds: BTreeMap<IpAddr, usize> = BTreeMap::new();
        let idle = || self.0.iter().filter(|(_, waits)| !waits.is_proving);
        for (_, waits) in idle() {
            *crowds.entry(waits.place).or_default() += 1;
        }
        let largest = crowds.into_iter().max_by_key(|(_, size)| *size).map(|(place, _)| place);
        let picked = idle().find(|(_, waits)| Some(waits.place) == largest);
        picked.or_else(|| self.0.iter().next()).map(|(number, _)| *number)
    }
}

/// Where somebody is: whoever has one address of IPv6 has the whole network of 64 bits.
fn place(remote: IpAddr) -> IpAddr {
    match remote.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills the room; connection n comes from `from(n)`.
    fn full(from: impl Fn(u64) -> IpAddr) -> (Waiting, Vec<Arc<Ending>>) {
        let mut waiting = Waiting::default();
        let endings: Vec<_> = (0..MAX_WAITING).map(|_| Arc::default()).collect();
        for (number, ending) in (0..).zip(&endings) {
            assert!(waiting.enter(number, ending, from(number)).is_none());
        }
        (waiting, endings)
    }

    fn v4(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn the_oldest_of_the_largest_crowd_goes() {
        // The first three are others' and older than the crowd.
        let (mut waiting, endings) = full(|number| if number < 3 { v4(1) } else { v4(2) });
        waiting.begin_proof(3);
        let gone = waiting.enter(1000, &Arc::default(), v4(9)).unwrap();
        assert!(Arc::ptr_eq(&gone, &endings[4]), "3 is proving itself");
        waiting.end_proof(3);
        let gone = waiting.enter(1001, &Arc::default(), v4(9)).unwrap();
        assert!(Arc::ptr_eq(&gone, &endings[3]));
    }

    #[test]
    fn a_network_of_ipv6_is_one_place() {
        let far =
            |number: u64| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::try_from(number).unwrap()]);
        let (mut waiting, endings) = full(|number| if number < 2 { v4(1) } else { far(number) });
        let gone = waiting.enter(1000, &Arc::default(), v4(9)).unwrap();
        assert!(Arc::ptr_eq(&gone, &endings[2]));
    }

    #[test]
    fn somebody_goes_even_if_all_are_busy() {
        let (mut waiting, endings) = full(|_| v4(1));
        (0..MAX_WAITING as u64).for_each(|number| waiting.begin_proof(number));
        let gone = waiting.enter(1000, &Arc::default(), v4(1)).unwrap();
        assert!(Arc::ptr_eq(&gone, &endings[0]));
    }
}
