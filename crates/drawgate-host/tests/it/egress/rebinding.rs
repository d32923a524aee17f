//! Names that mean another address each time they are asked for.

use drawgate_host::egress::Egress;

use super::excerpt;
use super::town::Town;

#[tokio::test]
async fn no_rebinding_name_reaches_this_machine() {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    let (mut served, mut refused) = (0, 0);
    for _ in 0..1000 {
        // The server ends each connection, so that each request needs a new one.
        match excerpt(&egress, "http://rebind.tg.test/once").await {
            Ok(excerpt) => {
                assert_eq!(excerpt.fetched.body, "once");
                served += 1;
            }
            Err(error) => {
                assert_eq!(error.code(), "private_address", "{error}");
                refused += 1;
            }
        }
    }
    assert_eq!(town.breaches(), 0);
    assert_eq!((served, refused), (500, 500), "each look is one for one connection");
}

#[tokio::test]
async fn a_kept_connection_stays_where_it_was_made() {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    for _ in 0..10 {
        excerpt(&egress, "http://rebind.tg.test/plain").await.unwrap();
    }
    assert_eq!((town.visits(), town.breaches()), (1, 0));
    // The server ends this one, and the name means this machine by now.
    excerpt(&egress, "http://rebind.tg.test/once").await.unwrap();
    let error = excerpt(&egress, "http://rebind.tg.test/plain").await.unwrap_err();
    assert_eq!(error.code(), "private_address");
    assert_eq!(town.breaches(), 0);
}
