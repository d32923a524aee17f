use super::*;

fn example(signer: &Signer) -> Checkpoint {
    signer.checkpoint(Checkpoint {
        sequence: 20,
        head: "ab".repeat(32),
        at: 5,
        install: "here".to_owned(),
        oldest_open: Some(7),
        times: Some((3, 4)),
        previous: ZERO_HASH.to_owned(),
        key: String::new(),
        signature: String::new(),
    })
}

#[test]
fn a_checkpoint_survives_its_text_and_is_signed() {
    let signer = Signer::new(&[1; 32]);
    let checkpoint = example(&signer);
    assert_eq!(Checkpoint::parse(&checkpoint.to_json()), Ok(checkpoint.clone()));
    assert_eq!(signer.keys().check(&checkpoint.to_json()), Ok(()));
    let public = VerifyKeys::public(&signer.keys().public_hex()).unwrap();
    assert_eq!(public.check(&checkpoint.to_json()), Ok(()));
}

#[test]
fn any_change_breaks_the_signature() {
    let signer = Signer::new(&[1; 32]);
    let body = example(&signer).to_json();
    for (from, to) in [
        ("\"sequence\":20", "\"sequence\":21"),
        ("\"at\":5", "\"at\":6"),
        ("\"oldestOpen\":7", "\"oldestOpen\":8"),
        ("\"latest\":4", "\"latest\":9"),
        ("\"install\":\"here\"", "\"install\":\"there\""),
        ("{\"at\"", "{\"a\":1,\"at\""),
    ] {
        assert!(body.contains(from), "{from}");
        assert_eq!(
            signer.keys().check(&body.replace(from, to)),
            Err(CheckpointError::Signature),
            "{from}"
        );
    }
    assert_eq!(Signer::new(&[2; 32]).keys().check(&body), Err(CheckpointError::Key));
}

#[test]
fn a_head_record_is_bound_to_everything_in_it() {
    let signer = Signer::new(&[1; 32]);
    let record = signer.head_record("here", 3, "aa", "bb");
    assert_eq!(HeadRecord::parse(&record.to_line()), Some(record.clone()));
    let ours = |install: &str, record: &HeadRecord| signer.keys().is_head_ours(install, record);
    assert_eq!(ours("here", &record), Some(true));
    assert_eq!(ours("there", &record), Some(false));
    assert_eq!(ours("here", &HeadRecord { sequence: 4, ..record.clone() }), Some(false));
    assert_eq!(ours("here", &HeadRecord { head: "ab".to_owned(), ..record.clone() }), Some(false));
    assert_eq!(
        ours("here", &HeadRecord { checkpoint: "cc".to_owned(), ..record.clone() }),
        Some(false)
    );
    assert_eq!(Signer::new(&[2; 32]).keys().is_head_ours("here", &record), Some(false));
    let public = VerifyKeys::public(&signer.keys().public_hex()).unwrap();
    assert_eq!(public.is_head_ours("here", &record), None);
}

#[test]
fn the_secret_is_not_shown() {
    let shown = format!("{:?}", Signer::new(&[0x5a; 32]));
    assert!(!shown.contains("5a5a5a5a"), "{shown}");
}
