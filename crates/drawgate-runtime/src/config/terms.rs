//! The operator's terms for tools, as the registry takes them.

use std::time::Duration;

use drawgate_core::registry::{
    Limits, Naming, ServerAnnotations, SourceTerms, ToolTerms, Trust, Validation,
};

use super::{Config, Names, Server, ToolSettings};

/// The terms of every source.
pub(crate) fn base_terms(config: &Config) -> SourceTerms {
    let defaults = SourceTerms::default();
    SourceTerms {
        limits: Limits {
            timeout: Duration::from_secs(config.limits.timeout_seconds),
            max_output_bytes: config.limits.max_output_bytes,
            max_output_lines: config
                .limits
                .max_output_lines
                .unwrap_or(defaults.limits.max_output_lines),
        },
        actions: defaults
            .actions
            .iter()
            .cloned()
            .chain(config.policy.actions.iter().cloned())
            .collect(),
        require_action: config.policy.require_policy_action,
        ..defaults
    }
}

/// The operator's terms for a server's tools, whichever server it is.
pub(crate) fn declared_terms(config: &Config, server: &Server) -> SourceTerms {
    let base = base_terms(config);
    let tools = server.tools.iter().map(|(name, own)| (name.clone(), tool_terms(own)));
    SourceTerms {
        naming: match server.names {
            Names::Qualified => Naming::Qualified,
            Names::Flat => Naming::Flat,
        },
        capabilities: server.capabilities.clone(),
        limits: Limits {
            timeout: server.limits.timeout_seconds.map_or(base.limits.timeout, Duration::from_secs),
            max_output_bytes: server
                .limits
                .max_output_bytes
                .unwrap_or(base.limits.max_output_bytes),
            max_output_lines: server
                .limits
                .max_output_lines
                .unwrap_or(base.limits.max_output_lines),
        },
        concurrency: server.concurrency.unwrap_or(base.concurrency),
        tools: tools.collect(),
        trust: match server.trust {
            super::Trust::Pin => Trust::Pin,
            super::Trust::Follow => Trust::Follow,
            super::Trust::Review => Trust::Review,
        },
        validation: match server.validation {
            super::Validation::Schema => Validation::Gate,
            super::Validation::Server => Validation::Source,
        },
        annotations: match server.annotations {
            super::ServerAnnotations::Tighten => ServerAnnotations::Tighten,
            super::ServerAnnotations::Ignore => ServerAnnotations::Ignore,
        },
        ..base
    }
}

/// The operator's terms for one tool.
pub(crate) fn tool_terms(own: &ToolSettings) -> ToolTerms {
    ToolTerms {
        disabled: own.enabled == Some(false),
        // An empty list means what the server as a whole requires.
        capabilities: (!own.capabilities.is_empty()).then(|| own.capabilities.clone()),
        requires_confirmation: own.requires_confirmation,
        policy_action: own.policy_action.clone(),
        idempotent: own.idempotent == Some(true),
        description: own.description.clone(),
        timeout: own.limits.timeout_seconds.map(Duration::from_secs),
        max_output_bytes: own.limits.max_output_bytes,
        max_output_lines: own.limits.max_output_lines,
        audience: None,
        declared: None,
    }
}
