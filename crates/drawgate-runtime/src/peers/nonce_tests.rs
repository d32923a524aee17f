use super::*;
use drawgate_core::testing::TestIds;

const NOW: u64 = 1_700_000_000_000;
const LIFE: u64 = NONCE_SECONDS as u64 * 1000;

fn nonces() -> Nonces {
    Nonces::new(&[7; 32])
}

#[test]
fn a_nonce_counts_once() {
    let (nonces, ids) = (nonces(), TestIds::default());
    let nonce = nonces.make(1, NOW, &ids);
    let mut open = vec![nonces.make(1, NOW, &ids), nonce.clone()];
    assert_eq!(nonces.spend(&nonce, 1, NOW, &mut open), Ok(()));
    assert_eq!(open.len(), 1);
    assert_eq!(nonces.spend(&nonce, 1, NOW, &mut open), Err(Refusal::Replayed));
    assert_eq!(nonces.spend(&nonce, 2, NOW, &mut Vec::new()), Err(Refusal::Replayed));
    // Even if the connection believed that it is still open.
    assert_eq!(nonces.spend(&nonce, 1, NOW, &mut vec![nonce.clone()]), Err(Refusal::Replayed));
}

#[test]
fn a_nonce_counts_on_its_own_connection() {
    let nonces = nonces();
    let nonce = nonces.make(1, NOW, &TestIds::default());
    assert_eq!(nonces.spend(&nonce, 2, NOW, &mut Vec::new()), Err(Refusal::Foreign));
    assert_eq!(nonces.spend(&nonce, 1, NOW, &mut vec![nonce.clone()]), Ok(()));
}

#[test]
fn a_nonce_counts_for_a_minute() {
    let (nonces, ids) = (nonces(), TestIds::default());
    for (age, expected) in [(0, Ok(())), (LIFE, Ok(())), (LIFE + 1, Err(Refusal::Stale))] {
        let nonce = nonces.make(1, NOW, &ids);
        let verified = nonces.spend(&nonce, 1, NOW + age, &mut vec![nonce.clone()]);
        assert_eq!(verified, expected, "{age}");
    }
}

#[test]
fn a_nonce_of_another_process_is_foreign() {
    let nonce = Nonces::new(&[8; 32]).make(1, NOW, &TestIds::default());
    assert_eq!(nonces().spend(&nonce, 1, NOW, &mut Vec::new()), Err(Refusal::Foreign));
}

#[test]
fn a_nonce_can_not_be_changed() {
    let nonces = nonces();
    let nonce = nonces.make(1, NOW, &TestIds::default());
    let (body, tag) = nonce.rsplit_once('.').unwrap();
    let later = body.replacen(&format!("{NOW:x}"), &format!("{:x}", NOW + LIFE), 1);
    let rows = [
        (format!("{later}.{tag}"), Refusal::Foreign),
        (format!("2{body}.{tag}"), Refusal::Foreign),
        (format!("{body}.{}", tag.replacen(char::is_numeric, "f", 1)), Refusal::Foreign),
        (format!("{body}.{}", &tag[..62]), Refusal::Foreign),
        (format!("{body}."), Refusal::Foreign),
        (format!("{body}.xyz"), Refusal::Malformed),
        (body.replace('.', ""), Refusal::Malformed),
        (String::new(), Refusal::Malformed),
        ("x".repeat(4000), Refusal::Malformed),
    ];
    for (nonce, expected) in rows {
        assert_eq!(nonces.spend(&nonce, 1, NOW, &mut Vec::new()), Err(expected), "{nonce}");
    }
}

#[test]
fn what_is_remembered_is_bounded() {
    let (nonces, ids) = (nonces(), TestIds::default());
    let first = nonces.make(1, NOW, &ids);
    assert_eq!(nonces.spend(&first, 1, NOW, &mut vec![first.clone()]), Ok(()));
    for _ in 0..REMEMBERED {
        let nonce = nonces.make(1, NOW, &ids);
        assert_eq!(nonces.spend(&nonce, 1, NOW, &mut vec![nonce.clone()]), Ok(()));
    }
    assert_eq!(nonces.used.lock().known.len(), REMEMBERED);
    // Forgotten, but still of no use: the connection has no such challenge open.
    assert_eq!(nonces.spend(&first, 1, NOW, &mut Vec::new()), Err(Refusal::Replayed));
    assert_eq!(nonces.spend(&first, 2, NOW, &mut Vec::new()), Err(Refusal::Foreign));
}
