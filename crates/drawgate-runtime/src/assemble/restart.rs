//! Sections of the configuration that are read only at the start: an edit of them is not lost, but
//! it has to wait, and the operator should hear of it.

use crate::config::{Audit, Config};

/// Names the sections that differ from those in force, if there are any.
pub(super) fn warn(in_force: &Config, edited: &Config) {
    let changed = changed(in_force, edited);
    if !changed.is_empty() {
        tracing::warn!(
            sections = changed.join(", "),
            "these sections changed but take effect at the next start; restart the gateway"
        );
    }
}

/// The sections that differ from those in force.
pub(super) fn changed(in_force: &Config, edited: &Config) -> Vec<&'static str> {
    // The keys of its section that are followed at once.
    let Audit { payloads, caller_redaction, payload_bytes, .. } = in_force.audit;
    let audit = Audit { payloads, caller_redaction, payload_bytes, ..edited.audit.clone() };
    [
        ("`listen`", in_force.listen != edited.listen),
        ("`data`", in_force.data != edited.data),
        ("`[server]`", in_force.server != edited.server),
        ("`[auth]`", in_force.auth != edited.auth),
        ("`[grpc]`", in_force.grpc != edited.grpc),
        ("`[audit]`", in_force.audit != audit),
        ("`[artifacts]`", in_force.artifacts != edited.artifacts),
        ("`[telemetry]`", in_force.telemetry != edited.telemetry),
        (
            "`limits.task_after_seconds`",
            in_force.limits.task_after_seconds != edited.limits.task_after_seconds,
        ),
    ]
    .into_iter()
    .filter_map(|(name, differs)| differs.then_some(name))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Payloads;

    #[test]
    fn sections_that_need_a_restart_are_named() {
        let in_force = Config::default();
        let mut edited = in_force.clone();
        edited.limits.timeout_seconds += 1;
        edited.builtin.enabled = false;
        edited.audit.payloads = Payloads::Hash;
        edited.audit.payload_bytes += 1;
        edited.audit.caller_redaction = false;
        assert_eq!(changed(&in_force, &edited), [""; 0]);
        edited.listen.set_port(1);
        edited.data = Some("elsewhere".into());
        edited.server.max_sessions += 1;
        edited.auth =
            serde_json::from_value(serde_json::json!({ "issuer": "https://login.example" }))
                .unwrap();
        edited.grpc.grace_seconds += 1;
        edited.audit.checkpoint_every += 1;
        edited.artifacts.quota_bytes += 1;
        edited.telemetry.service_name.push('x');
        edited.limits.task_after_seconds += 1;
        let all = [
            "`listen`",
            "`data`",
            "`[server]`",
            "`[auth]`",
            "`[grpc]`",
            "`[audit]`",
            "`[artifacts]`",
            "`[telemetry]`",
            "`limits.task_after_seconds`",
        ];
        assert_eq!(changed(&in_force, &edited), all);
    }
}
