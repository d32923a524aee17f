//! A start whose clock is behind the newest event.

use std::sync::Arc;

use drawgate_core::audit::EventKind;
use drawgate_core::clock::Clock;
use drawgate_core::model::{Capability, CapabilityGrant, Principal};
use drawgate_core::policy::{Approval, ApprovalState};
use drawgate_core::store::{AuditLog, Store, Write};
use drawgate_core::testing::TestClock;
use drawgate_host::store::Durability;
use drawgate_host::store::sqlite::{AuditOptions, SqliteAudit, SqliteStore};
use serde_json::json;

use super::{folder, open, options, verify};

const HOUR: u64 = 60 * 60 * 1000;

fn grant(id: &str, expires_at: Option<u64>) -> CapabilityGrant {
    let capability = Capability::new("file.read").unwrap();
    CapabilityGrant {
        grant_id: id.into(),
        capability,
        issued_at: 1,
        expires_at,
        scope: None,
        approval_id: None,
    }
}

fn approval(now: u64) -> Approval {
    Approval {
        id: "a1".to_owned(),
        tool_id: "demo:echo".to_owned(),
        principal: Principal::local(),
        binding: String::new(),
        arguments: json!({}),
        reason: String::new(),
        risk_tags: Vec::new(),
        created_at: now,
        expires_at: now + HOUR,
        state: ApprovalState::Approved,
        decided_at: None,
    }
}

#[tokio::test]
async fn time_goes_on_from_the_newest_event_unless_the_clock_was_far_off() {
    let newest = TestClock::default().now_ms();
    // How far the clock is behind; whether time goes on from the newest event.
    let rows =
        [(0, true), (HOUR, true), (23 * HOUR, true), (25 * HOUR, false), (87_600 * HOUR, false)];
    for (behind, goes_on) in rows {
        let (_keep, dir) = folder();
        open(&dir).close().await.unwrap();
        let store = SqliteStore::open(&dir, Durability::Process).unwrap();
        let writes = vec![
            Write::PutGrant(grant("for ever", None)),
            Write::PutGrant(grant("for a time", Some(newest + HOUR))),
            Write::PutApproval(approval(newest)),
        ];
        store.commit(writes).await.unwrap();
        let clock = Arc::new(TestClock::set_back(behind));
        let options = AuditOptions { clock: clock.clone(), ..options(Durability::Process) };
        let log = SqliteAudit::open(&dir, options).unwrap();
        let opened = log.read(log.head() - 1, 1).await.unwrap().remove(0).event().unwrap();
        assert_eq!(opened.kind, EventKind::LogOpened);
        let expected = if goes_on { newest } else { newest - behind };
        assert_eq!((opened.created_at, clock.now_ms()), (expected, expected), "{behind}");
        let noted = opened.rest.get("clockBehindMs").and_then(serde_json::Value::as_u64);
        assert_eq!(noted, (behind > 0).then_some(behind));
        assert_eq!(opened.rest.get("ended"), (!goes_on).then_some(&json!(2)), "{behind}");
        let left = if goes_on { vec!["for a time", "for ever"] } else { vec!["for ever"] };
        let grants = store.grants().await.unwrap();
        assert_eq!(grants.iter().map(|it| &*it.grant_id).collect::<Vec<_>>(), left, "{behind}");
        let state = store.approvals().await.unwrap().remove(0).state;
        assert_eq!(state == ApprovalState::Approved, goes_on, "{behind}: {state:?}");
        assert_eq!(verify(&dir).exit_code(), 0, "{}", verify(&dir));
    }
}
