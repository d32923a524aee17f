//! Where each attack of the catalogues that concerns MCP has its test: so that none is lost when a
//! test is renamed or removed.

use std::collections::BTreeSet;
use std::path::Path;

/// Files of tests, by a short name.
const FILES: &[(&str, &str)] = &[
    ("approval flow", "drawgate-core/src/pipeline/approval_flow_tests.rs"),
    ("approvals", "drawgate/tests/it/approvals.rs"),
    ("approvals protocol", "drawgate/tests/it/approvals_protocol.rs"),
    ("artifacts", "drawgate/tests/it/artifacts.rs"),
    ("auth", "drawgate/tests/it/auth.rs"),
    ("beyond", "drawgate/tests/it/beyond_tools.rs"),
    ("callers", "drawgate/tests/it/callers.rs"),
    ("clock", "drawgate-host/src/clock.rs"),
    ("consent", "drawgate/tests/it/catalogue/consent.rs"),
    ("credentials", "drawgate/tests/it/catalogue/credentials.rs"),
    ("definitions", "drawgate/tests/it/catalogue/definitions.rs"),
    ("differential", "drawgate/tests/it/catalogue/differential.rs"),
    ("authentication", "drawgate/tests/it/catalogue/authentication.rs"),
    ("exchange", "drawgate-core/src/pipeline/exchange_tests.rs"),
    ("grants", "drawgate-core/src/policy/grants_tests.rs"),
    ("http", "drawgate/tests/it/protocol.rs"),
    ("supervisor", "drawgate-core/src/registry/supervisor_tests.rs"),
    ("login", "drawgate-sources/tests/it/mcp_oauth/refusals.rs"),
    ("names", "drawgate-core/src/registry/names_tests.rs"),
    ("opened", "drawgate/tests/it/oauth/opened.rs"),
    ("output", "drawgate-core/src/pipeline/output_tests.rs"),
    ("parameters", "drawgate-sources/src/mcp/parameters.rs"),
    ("pins", "drawgate-core/src/registry/pins_tests.rs"),
    ("pipeline", "drawgate-core/src/pipeline/pipeline_tests.rs"),
    ("questions", "drawgate/tests/it/questions.rs"),
    ("registry", "drawgate-core/src/registry/registry_tests.rs"),
    ("results", "drawgate/tests/it/catalogue/results.rs"),
    ("schema", "drawgate-core/src/registry/schema_tests.rs"),
    ("secrets", "drawgate/tests/it/secrets.rs"),
    ("sessions", "drawgate/tests/it/sessions.rs"),
    ("sse", "drawgate-sources/tests/it/mcp_sse.rs"),
    ("stdio", "drawgate-sources/tests/it/mcp_stdio.rs"),
    ("streams", "drawgate/tests/it/streams.rs"),
    ("supervision", "drawgate-sources/tests/it/mcp_supervision.rs"),
    ("tasks", "drawgate/tests/it/tasks.rs"),
    ("trust", "drawgate/tests/it/trust.rs"),
    ("upstream", "drawgate/tests/it/catalogue/upstream.rs"),
    ("upstream questions", "drawgate-sources/tests/it/mcp_features.rs"),
    ("visible", "drawgate-core/src/registry/visible_tests.rs"),
];

/// Row, file, test.
type Row = (&'static str, &'static str, &'static str);

/// Rows about the protocol between clients and the gateway.
const CLIENTS: &[Row] = &[
    ("smuggle_cl_te", "http", "nothing_follows_a_request_with_two_ends"),
    ("idle_keepalive", "http", "idle_connections_cost_little"),
    ("sess_of_other_principal", "sessions", "a_session_of_another_is_no_session"),
    ("sess_missing", "sessions", "a_session_is_needed_and_ends_when_told"),
    ("sess_terminated", "sessions", "a_session_is_needed_and_ends_when_told"),
    ("sess_sse_second_stream", "authentication", "sess_sse_second_stream_and_session_hijack"),
    ("sess_expired_mid_stream", "authentication", "sess_expired_mid_stream"),
    ("sse_client_half_close", "streams", "a_half_closed_client_leaves_nothing_behind"),
    ("sse_client_stops_reading", "streams", "clients_that_do_not_read_cost_little"),
    ("sse_listen_10k", "streams", "listeners_leave_room_for_callers"),
    ("sse_injection", "streams", "no_text_of_a_tool_ends_an_event"),
    (
        "approval_reuse",
        "approvals",
        "a_call_that_is_not_answered_in_time_names_the_approval_for_one_retry",
    ),
    ("approval_reuse", "approval flow", "an_approval_is_for_this_call_and_no_other"),
    ("approval_reuse", "approval flow", "an_approval_that_expired_is_no_approval"),
    ("list_cache_cross", "callers", "each_caller_has_a_list_of_its_own"),
    ("hidden_tool_call", "callers", "a_hidden_tool_is_an_unknown_tool"),
    ("grant_race_revoke", "pipeline", "after_revoke_returned_nothing_starts"),
    ("grant_expiry_edge", "grants", "a_grant_ends_at_its_expiry_not_after_it"),
    ("grant_clock_back", "clock", "time_goes_on_when_the_clock_is_set_back"),
];

/// Rows about what servers say of their tools.
const SCHEMAS: &[Row] = &[
    ("ref_http", "schema", "references_stay_in_the_document"),
    ("ref_self", "schema", "a_schema_that_refers_to_itself_is_bounded"),
    ("ref_exponential", "schema", "references_that_multiply_are_refused"),
    ("unevaluated", "schema", "unevaluated_is_within_the_same_budget"),
    ("regex_unicode", "schema", "patterns_are_linear_and_small"),
    ("depth_1000", "schema", "depth_is_bounded"),
    ("bool_schema", "schema", "only_schemas_of_objects"),
    ("x_mcp_header_bad", "parameters", "wrong_annotations_are_refused"),
    ("title_ansi", "visible", "nothing_is_hidden_from_a_model_or_a_person"),
    ("name_bad", "registry", "names_that_are_no_names_are_replaced_or_refused"),
    ("list_changed_storm", "supervisor", "a_storm_of_changes_is_one_question_a_second"),
    ("annotations_lie", "registry", "a_server_may_tighten_and_the_operator_decides"),
    ("annotations_lie", "definitions", "hint_trust_and_annotations_lie"),
];

/// Rows about what servers answer and how their processes behave.
const SERVERS: &[Row] = &[
    ("wrong_id", "stdio", "answers_to_others_are_ignored_and_counted"),
    ("twice", "stdio", "the_first_of_two_answers_wins"),
    ("error_and_result", "stdio", "errors_of_the_protocol_become_failures"),
    ("server_request", "stdio", "a_server_may_ping_but_not_ask"),
    ("progress_flood", "stdio", "progress_is_thinned_and_has_no_token"),
    ("split_writes", "stdio", "servers_that_only_look_odd_work"),
    ("exit_mid_call", "stdio", "a_server_that_exits_fails_its_calls_and_comes_back"),
    (
        "exit_mid_call",
        "supervision",
        "a_server_killed_again_and_again_loses_no_call_and_leaves_nothing",
    ),
    ("protocol_old", "upstream", "upstream_result_and_stdio_upstream"),
    ("image_100mb", "results", "image_100mb"),
    ("schema_mismatch", "results", "schema_mismatch"),
    ("schema_mismatch", "output", "structured_results_keep_to_the_output_schema"),
    ("stdin_not_read", "upstream", "stdin_not_read"),
    ("exit_at_start", "upstream", "exit_at_start"),
    ("exit_at_start", "supervisor", "retries_grow_apart_and_never_stop"),
    ("ignores_stdin_close", "upstream", "ignores_stdin_close_and_grandchildren"),
    ("grandchildren", "upstream", "ignores_stdin_close_and_grandchildren"),
];

/// Rows about the security of MCP.
const SECURITY: &[Row] = &[
    ("confused_deputy", "login", "strangers_can_not_end_a_login"),
    ("token_passthrough", "credentials", "token_passthrough"),
    ("token_passthrough", "auth", "tokens_are_not_passed_on"),
    ("audience", "auth", "forged_tokens_are_refused"),
    ("session_hijack", "authentication", "sess_sse_second_stream_and_session_hijack"),
    ("session_hijack", "authentication", "session_hijack_by_equal_ids"),
    ("session_hijack", "questions", "answers_come_from_the_session_that_was_asked"),
    ("dns_rebinding", "http", "every_request_gets_its_answer"),
    ("csrf_simple_request", "http", "every_request_gets_its_answer"),
    ("csrf_simple_request", "approvals protocol", "only_the_operator_decides_once_and_here"),
    ("ssrf_oauth", "login", "redirected_metadata_are_not_fetched"),
    ("ssrf_oauth", "sse", "hostile_servers_are_refused_with_a_reason"),
    ("authz_url_exec", "login", "refused_before_anybody_is_asked"),
    ("authz_url_exec", "opened", "the_browser_gets_one_address_that_commands_nobody"),
    ("authz_url_exec", "opened", "what_is_no_plain_address_is_not_opened"),
    ("mixup", "login", "answers_that_are_not_believed"),
    ("mixup", "login", "an_issuer_is_not_normalised"),
    ("scope_min", "auth", "scopes_decide_what_is_listed_and_called"),
    ("local_server_exec", "authentication", "object_authz_of_the_operators_things"),
    ("env_expand_leak", "credentials", "env_expand_leak"),
    ("mrtr_state", "questions", "a_state_counts_only_for_whom_and_what_it_was_given"),
    ("mrtr_state", "questions", "a_client_without_session_answers_in_a_second_call"),
    ("mrtr_state", "exchange", "a_state_counts_for_its_own_call_only"),
    ("header_body_mismatch", "http", "every_request_gets_its_answer"),
    ("header_body_mismatch", "questions", "headers_must_repeat_what_the_arguments_say"),
    ("parser_differential", "differential", "parser_differential"),
    ("body_limit_ignored", "http", "every_request_gets_its_answer"),
    ("cross_client_leak", "differential", "cross_client_leak"),
    ("cross_client_leak", "callers", "equal_ids_of_many_clients_are_not_mixed_up"),
    ("redos_sdk", "schema", "patterns_are_linear_and_small"),
    ("missing_auth_one_route", "authentication", "missing_auth_one_route"),
    ("token_in_logs", "secrets", "no_row_of_the_catalogue_is_found_anywhere"),
    ("bind_all", "callers", "beyond_this_machine_only_with_tls_or_by_insisting"),
    ("proxy_header_trust", "credentials", "proxy_header_trust"),
    ("fail_open_scope", "authentication", "fail_open_scope"),
    ("object_authz", "authentication", "object_authz_of_the_operators_things"),
    ("object_authz", "tasks", "a_task_belongs_to_its_caller_and_to_clients_that_take_tasks"),
    ("object_authz", "artifacts", "five_megabytes_come_back_as_a_link"),
    ("object_authz", "beyond", "who_loses_the_right_hears_no_more"),
    ("object_authz", "beyond", "a_stranger_can_not_tell_it_from_nothing"),
    ("tool_poisoning", "definitions", "tool_poisoning_and_line_jumping"),
    ("line_jumping", "definitions", "tool_poisoning_and_line_jumping"),
    ("line_jumping", "trust", "under_review_a_new_server_shows_nothing_until_it_is_accepted"),
    ("rug_pull", "pins", "a_thousand_flips_are_all_blocked"),
    ("rug_pull", "trust", "a_changed_tool_is_blocked_until_a_person_accepts_it"),
    ("shadowing", "names", "no_server_imitates_another"),
    ("ansi", "visible", "nothing_is_hidden_from_a_model_or_a_person"),
    ("unicode_tags", "visible", "nothing_is_hidden_from_a_model_or_a_person"),
    (
        "approval_truncation",
        "approvals protocol",
        "the_page_tells_nothing_before_the_token_and_everything_after",
    ),
    ("approval_truncation", "consent", "approval_truncation"),
    ("approval_binding", "approval flow", "an_approval_is_for_this_call_and_no_other"),
    (
        "approval_binding",
        "approval flow",
        "a_definition_that_changes_while_a_person_thinks_is_not_run",
    ),
    ("hint_trust", "definitions", "hint_trust_and_annotations_lie"),
    ("result_injection", "results", "result_injection"),
    ("result_injection", "results", "result_injection_by_members"),
    ("sampling_abuse", "stdio", "a_server_may_ping_but_not_ask"),
    ("sampling_abuse", "upstream questions", "sampling_is_refused_unless_the_operator_allows_it"),
    ("over_sharing", "callers", "each_caller_has_a_list_of_its_own"),
];

#[test]
fn every_row_has_its_test() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut missing = Vec::new();
    let mut used = BTreeSet::new();
    for (row, file, test) in [CLIENTS, SCHEMAS, SERVERS, SECURITY].concat() {
        used.insert(file);
        let path = FILES.iter().find(|(name, _)| *name == file).map(|(_, path)| crates.join(path));
        let source = path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        let is_test =
            source.split("fn ").zip(source.split("fn ").skip(1)).any(|(before, after)| {
                let attributes = before.rsplit('}').next().unwrap_or_default();
                after.starts_with(&format!("{test}()")) && attributes.contains("test")
            });
        if !is_test {
            missing.push(format!("{row}: no test `{test}` in {file}"));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    let unused: Vec<&str> =
        FILES.iter().map(|(name, _)| *name).filter(|name| !used.contains(name)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}
