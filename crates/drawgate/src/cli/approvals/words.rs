//! An approval for people: in short, as a list has it, and in full.

use drawgate_core::policy::{Approval, ApprovalState};
use drawgate_core::redact::has_masks;
use drawgate_core::registry::{visible_line, visible_text};
use drawgate_runtime::operations::ListedApproval;

use crate::cli::screen::{Screen, Tone, local_time};
use crate::cli::table::{shortened, tone_of};

/// Characters of the arguments where there is no terminal; `show` has all of them.
const SHORT: usize = 200;
/// What the lines below the first begin with.
const INDENT: &str = "    ";

/// One approval in a few lines: what, by whom, with which arguments, why, and where to decide.
pub(super) fn block(listed: &ListedApproval, screen: Screen) -> String {
    let Approval { id, state, principal, tool_id, arguments, reason, .. } = &listed.approval;
    let word = state.as_str();
    let mut lines = vec![format!(
        "{}  {}  {} by {}",
        screen.paint(Tone::Title, id),
        screen.paint(tone_of(word), word),
        visible_line(tool_id),
        visible_line(principal.as_str()),
    )];
    let room = screen.width.map_or(SHORT, |width| width.saturating_sub(INDENT.len()));
    let mut add = |text: &str| {
        let cut = shortened(&visible_line(text), room);
        lines.push(format!("{INDENT}{cut}"));
    };
    add(&arguments.to_string());
    let when = local_time(listed.approval.expires_at);
    add(&match state {
        ApprovalState::Pending => format!("{reason}; expires {when}"),
        _ => reason.clone(),
    });
    // An address that is cut leads nowhere.
    lines.extend(listed.page.as_ref().map(|page| format!("{INDENT}{page}")));
    lines.join("\n")
}

/// All of it: what is cut off can't be approved with open eyes.
pub(super) fn describe(listed: &ListedApproval) -> String {
    let approval = &listed.approval;
    let arguments = serde_json::to_string_pretty(&approval.arguments).unwrap_or_default();
    let risks: Vec<&str> = approval.risk_tags.iter().map(|tag| tag.as_str()).collect();
    let waits = match listed.is_awaited {
        Some(true) => ", and a call waits",
        Some(false) => ", and no call waits at this moment",
        None => "",
    };
    let masked = if has_masks(&approval.arguments) {
        "\nparts that look like secrets are masked; the tool gets all of it: `--reveal` shows it"
    } else {
        ""
    };
    let mut lines = vec![
        format!("tool       {}", approval.tool_id),
        format!("agent      {}", approval.principal),
        format!("state      {}{waits}", approval.state.as_str()),
        format!("reason     {}", visible_line(&approval.reason)),
    ];
    if !risks.is_empty() {
        lines.push(format!("risks      {}", risks.join(" ")));
    }
    lines.push(format!("expires    {}", local_time(approval.expires_at)));
    lines.extend(listed.page.as_ref().map(|page| format!("page       {page}")));
    lines.push(format!("arguments\n{}{masked}", visible_text(&arguments)));
    lines.join("\n")
}
