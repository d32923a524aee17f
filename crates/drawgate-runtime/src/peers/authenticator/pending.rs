//! Connections that have not logged in yet. Their number is bounded: when it is reached, a new
//! connection evicts the oldest one of the network that has most of them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::peers::Disconnection;

/// How many connections may wait for their login. A login takes milliseconds, so that strangers who
/// connect and send nothing can't keep others out.
pub(super) const MAX_PENDING: usize = 256;

#[derive(Default)]
pub(super) struct PendingLogins(BTreeMap<u64, PendingLogin>);

struct PendingLogin {
    disconnection: Arc<Disconnection>,
    network: IpAddr,
    is_proving: bool,
}

impl PendingLogins {
    /// Adds a connection. Returns the one that was evicted for it.
    pub(super) fn insert(
        &mut self,
        number: u64,
        disconnection: &Arc<Disconnection>,
        remote: IpAddr,
    ) -> Option<Arc<Disconnection>> {
        let evicted = if self.0.len() >= MAX_PENDING { self.pick_evicted() } else { None };
        let evicted = evicted.and_then(|number| self.0.remove(&number));
        let login = PendingLogin {
            disconnection: Arc::clone(disconnection),
            network: network(remote),
            is_proving: false,
        };
        self.0.insert(number, login);
        evicted.map(|evicted| evicted.disconnection)
    }

    pub(super) fn remove(&mut self, number: u64) {
        self.0.remove(&number);
    }

    /// Protects a connection from eviction while its proof is verified.
    pub(super) fn begin_proof(&mut self, number: u64) {
        self.set_proving(number, true);
    }

    pub(super) fn end_proof(&mut self, number: u64) {
        self.set_proving(number, false);
    }

    fn set_proving(&mut self, number: u64, is_proving: bool) {
        if let Some(login) = self.0.get_mut(&number) {
            login.is_proving = is_proving;
        }
    }

    /// The oldest connection of the network that has most of them.
    fn pick_evicted(&self) -> Option<u64> {
        let mut networks: BTreeMap<IpAddr, usize> = BTreeMap::new();
        let idle = || self.0.iter().filter(|(_, login)| !login.is_proving);
        for (_, login) in idle() {
            *networks.entry(login.network).or_default() += 1;
        }
        let largest =
            networks.into_iter().max_by_key(|(_, size)| *size).map(|(network, _)| network);
        let picked = idle().find(|(_, login)| Some(login.network) == largest);
        picked.or_else(|| self.0.iter().next()).map(|(number, _)| *number)
    }
}

/// The network of an address. Whoever has one IPv6 address usually has the whole /64.
fn network(remote: IpAddr) -> IpAddr {
    match remote.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills the table; connection n comes from `from(n)`.
    fn full(from: impl Fn(u64) -> IpAddr) -> (PendingLogins, Vec<Arc<Disconnection>>) {
        let mut pending = PendingLogins::default();
        let connections: Vec<_> = (0..MAX_PENDING).map(|_| Arc::default()).collect();
        for (number, disconnection) in (0..).zip(&connections) {
            assert!(pending.insert(number, disconnection, from(number)).is_none());
        }
        (pending, connections)
    }

    fn v4(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn the_oldest_of_the_largest_network_is_evicted() {
        // The first three are of another network, and older.
        let (mut pending, connections) = full(|number| if number < 3 { v4(1) } else { v4(2) });
        pending.begin_proof(3);
        let evicted = pending.insert(1000, &Arc::default(), v4(9)).unwrap();
        assert!(Arc::ptr_eq(&evicted, &connections[4]), "3 is proving itself");
        pending.end_proof(3);
        let evicted = pending.insert(1001, &Arc::default(), v4(9)).unwrap();
        assert!(Arc::ptr_eq(&evicted, &connections[3]));
    }

    #[test]
    fn an_ipv6_network_counts_as_one() {
        let far =
            |number: u64| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::try_from(number).unwrap()]);
        let (mut pending, connections) =
            full(|number| if number < 2 { v4(1) } else { far(number) });
        let evicted = pending.insert(1000, &Arc::default(), v4(9)).unwrap();
        assert!(Arc::ptr_eq(&evicted, &connections[2]));
    }

    #[test]
    fn one_is_evicted_even_if_all_are_proving() {
        let (mut pending, connections) = full(|_| v4(1));
        (0..MAX_PENDING as u64).for_each(|number| pending.begin_proof(number));
        let evicted = pending.insert(1000, &Arc::default(), v4(1)).unwrap();
        assert!(Arc::ptr_eq(&evicted, &connections[0]));
    }
}
