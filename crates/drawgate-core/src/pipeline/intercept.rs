//! Hooks on a call's way: they rewrite arguments before validation, have an opinion after the rules, and
//! review results behind the tool.
//!
//! A hook sees the call that runs, exactly: what is masked in the log is not masked for a guard. Of its words
//! the log keeps what it keeps of the arguments. What a hook changes is written down with its name, before
//! and after. A call pays for hooks only where there are some.

use futures_util::future::join_all;
use json_patch::PatchOperation;
use serde_json::{Map, Value, json};

use super::audit::Trace;
use super::gateway::Gateway;
use super::load::check_size;
use super::resolve::Resolved;
use super::{Refusal, refuse};
use crate::canonical;
use crate::guard;
use crate::hooks::{
    HookAt, HookCall, HookError, HookMode, HookPoint, Hooks, OnFailure, Opinion, Review,
};
use crate::model::{Caller, ErrorCode, Lineage, Operation, PolicyDecision, ToolOutput, Verdict};
use crate::registry::Entry;

/// What stands before a hook's name where a decision names its rule.
pub(super) const HOOK_RULE: &str = "hook:";
/// Operations in one patch.
const MAX_OPERATIONS: usize = 256;
/// Characters of a hook's reason that are passed on.
const MAX_REASON: usize = 1000;

/// A call as hooks are asked about it.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) caller: &'a Caller,
    pub(super) entry: &'a Entry,
    pub(super) trace: &'a Trace,
    /// As they are at this point of the call's way.
    pub(super) arguments: &'a Map<String, Value>,
}

impl HookAt {
    /// Whether it is asked about a call: a plugin is not asked about what it does itself.
    fn is_asked(&self, asked: &Asked<'_>) -> bool {
        let is_own = |run: &Lineage| run.plugin.as_deref() == Some(&*self.name);
        let by_itself = asked.caller.lineage.iter().any(|run| run.upwards().any(is_own));
        !by_itself && self.terms.tools.admits(asked.entry)
    }

    fn is_enforced(&self) -> bool {
        self.terms.mode == HookMode::Enforce
    }

    /// Its answer, within its time.
    async fn answer<T>(
        &self,
        answer: impl Future<Output = Result<T, HookError>>,
    ) -> Result<T, HookError> {
        match tokio::time::timeout(self.terms.time, guard::catch(answer)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(guard::Panicked)) => Err(HookError("it panicked".to_owned())),
            Err(_) => {
                let limit = self.terms.time.as_millis();
                Err(HookError(format!("it did not answer within {limit} ms")))
            }
        }
    }
}

impl<'a> Asked<'a> {
    fn call(&self) -> HookCall<'a> {
        HookCall {
            call_id: self.trace.call_id(),
            tool: &self.entry.id,
            name: self.entry.wire.as_str(),
            operation: self.entry.operation,
            principal: &self.caller.principal,
            lineage: self.caller.lineage.as_deref(),
            arguments: self.arguments,
        }
    }

    /// A hook's words as they may be kept and passed on.
    fn words(&self, words: &str) -> String {
        // Cut after masking, so that no secret is cut into a part that is not recognised.
        let bounded: String = words.chars().take(16 * MAX_REASON).collect();
        self.trace.masked_words(self.arguments, &bounded).chars().take(MAX_REASON).collect()
    }

    /// Writes that a hook failed; refuses the call where it does not go on without the hook.
    async fn failed(
        &self,
        at: &HookAt,
        point: HookPoint,
        error: &HookError,
    ) -> Result<(), Refusal> {
        let stops = at.is_enforced() && at.terms.on_failure == OnFailure::Stop;
        let reason = self.words(&error.0);
        tracing::warn!(hook = %at.name, point = point.as_str(), error = %reason, "a hook failed");
        self.trace.hook_failed(&at.name, point, &reason, stops).await?;
        if !stops {
            return Ok(());
        }
        Err(refuse(ErrorCode::Unavailable, failure_message(&at.name, point)))
    }
}

/// What a caller hears of a failing hook. The reason is for the operator, in the log.
fn failure_message(name: &str, point: HookPoint) -> String {
    match point {
        HookPoint::Rewrite | HookPoint::Check => {
            format!("the hook `{name}` failed, and no call is made without it; nothing was done")
        }
        HookPoint::After => {
            format!("the tool ran, but its result is withheld: the hook `{name}` failed")
        }
    }
}

impl Gateway {
    /// Lets hooks change the arguments of a call.
    pub(super) async fn rewrite(
        &self,
        caller: &Caller,
        resolved: Resolved,
        trace: &mut Trace,
    ) -> Result<Resolved, Refusal> {
        if self.parts.hooks.load().rewrite.is_empty()
            || resolved.entry.operation != Operation::CallTool
        {
            return Ok(resolved);
        }
        Box::pin(self.rewrite_by_hooks(caller, resolved, trace)).await
    }

    async fn rewrite_by_hooks(
        &self,
        caller: &Caller,
        mut resolved: Resolved,
        trace: &mut Trace,
    ) -> Result<Resolved, Refusal> {
        let hooks = self.parts.hooks.load_full();
        let max_bytes = self.parts.settings.load().max_argument_bytes;
        let Resolved { entry, call, .. } = &mut resolved;
        for at in &hooks.rewrite {
            let asked = Asked { caller, entry, trace, arguments: &call.arguments };
            if !at.is_asked(&asked) {
                continue;
            }
            let patch = at.answer(at.hook.rewrite(&asked.call())).await;
            let before = || Value::Object(call.arguments.clone());
            let change = patch.and_then(|patch| Change::new(before(), patch));
            let Some(change) = (match change {
                Ok(change) => change,
                Err(error) => {
                    asked.failed(at, HookPoint::Rewrite, &error).await?;
                    None
                }
            }) else {
                continue;
            };
            let Value::Object(arguments) = change.changed else { continue };
            check_size(&arguments, max_bytes)?;
            let hashes = [trace.hash_of(&call.arguments), trace.hash_of(&arguments)];
            trace.hook_changed(at, HookPoint::Rewrite, &change.patch, hashes).await?;
            if at.is_enforced() {
                trace.input(&arguments, &call.redact_keys);
                call.arguments = arguments;
            }
        }
        Ok(resolved)
    }

    /// Asks hooks what they think of a call that the rules allow; the decision only becomes stricter.
    /// Where a hook fails that no call goes without, the decision is a no and the error says how it is
    /// told.
    pub(super) async fn consult(
        &self,
        hooks: &Hooks,
        asked: Asked<'_>,
        decision: &mut PolicyDecision,
    ) -> Result<(), Refusal> {
        let call = asked.call();
        let consulted: Vec<&HookAt> = hooks.check.iter().filter(|at| at.is_asked(&asked)).collect();
        let opinions = consulted.iter().map(|at| at.answer(at.hook.check(&call)));
        let opinions = join_all(opinions).await;
        for (at, opinion) in consulted.into_iter().zip(opinions) {
            let (verdict, reason) = match opinion {
                Ok(Opinion::Pass) => continue,
                Ok(Opinion::Confirm(reason)) => (Verdict::AllowWithConfirm, asked.words(&reason)),
                Ok(Opinion::Refuse(reason)) => (Verdict::Deny, asked.words(&reason)),
                Err(error) => {
                    if let Err(refusal) = asked.failed(at, HookPoint::Check, &error).await {
                        overrule(decision, Verdict::Deny, &at.name, "it failed");
                        return Err(refusal);
                    }
                    continue;
                }
            };
            if at.is_enforced() {
                overrule(decision, verdict, &at.name, &reason);
            } else {
                let objection = (verdict.as_str(), reason.as_str());
                asked.trace.hook_objected(at, HookPoint::Check, objection).await?;
            }
        }
        Ok(())
    }

    /// Lets hooks change or withhold an output in which known secrets have been masked. Where there was no such
    /// hook when the tool was started, no hook is asked: one that came since was not asked about the call either.
    pub(super) async fn review(
        &self,
        caller: &Caller,
        entry: &Entry,
        output: ToolOutput,
        trace: &Trace,
    ) -> Result<ToolOutput, Refusal> {
        let Some(arguments) = trace.exact_arguments() else { return Ok(output) };
        Box::pin(self.review_by_hooks(Asked { caller, entry, trace, arguments }, output)).await
    }

    async fn review_by_hooks(
        &self,
        asked: Asked<'_>,
        output: ToolOutput,
    ) -> Result<ToolOutput, Refusal> {
        let hooks = self.parts.hooks.load_full();
        let call = asked.call();
        let (mut value, kept) = as_value(asked.entry.operation, output);
        for at in hooks.after.iter().filter(|at| at.is_asked(&asked)) {
            let change = match at.answer(at.hook.after(&call, &value)).await {
                Ok(Review::Pass) => Ok(None),
                Ok(Review::Change(patch)) => Change::new(value.clone(), patch),
                Ok(Review::Withhold(reason)) => {
                    // It may quote the result as well as the arguments.
                    let result = Map::from_iter([("result".to_owned(), value.clone())]);
                    let reason = asked.trace.masked_words(&result, &asked.words(&reason));
                    withheld(&asked, at, &reason).await?;
                    Ok(None)
                }
                Err(error) => Err(error),
            };
            match change {
                Ok(None) => {}
                Ok(Some(Change { changed, patch })) => {
                    let hash = |value| canonical::hash(&asked.trace.redacted_value(value));
                    let hashes = [hash(&value), hash(&changed)];
                    asked.trace.hook_changed(at, HookPoint::After, &patch, hashes).await?;
                    if at.is_enforced() {
                        value = changed;
                    }
                }
                Err(error) => asked.failed(at, HookPoint::After, &error).await?,
            }
        }
        Ok(from_value(asked.entry.operation, value, kept))
    }

    /// Lets hooks look at the words of a tool that failed, as at a result.
    pub(super) async fn review_failure(
        &self,
        caller: &Caller,
        failure: Refusal,
        trace: &Trace,
    ) -> Refusal {
        let Some(entry) = trace.started_entry() else { return failure };
        let mut output = ToolOutput::failure(failure.message.clone());
        self.mask(&mut output);
        let shown = first_text(&output).map(str::to_owned);
        match self.review(caller, entry, output, trace).await {
            Ok(output) => match first_text(&output) {
                Some(text) if Some(text) == shown.as_deref() => failure,
                text => refuse(failure.code, text.unwrap_or("the tool failed")),
            },
            Err(refusal) => refusal,
        }
    }
}

fn first_text(output: &ToolOutput) -> Option<&str> {
    output.content.iter().find_map(|block| block.get("text")?.as_str())
}

/// Writes that a hook withholds a result, and refuses to let it leave if that counts.
async fn withheld(asked: &Asked<'_>, at: &HookAt, reason: &str) -> Result<(), Refusal> {
    asked.trace.hook_objected(at, HookPoint::After, ("withhold", reason)).await?;
    if !at.is_enforced() {
        return Ok(());
    }
    let message = format!("the tool ran, but `{}` withholds its result: {reason}", at.name);
    Err(refuse(ErrorCode::PermissionDenied, message))
}

/// Makes a decision stricter, in a hook's name.
fn overrule(decision: &mut PolicyDecision, verdict: Verdict, hook: &str, reason: &str) {
    if verdict <= decision.decision {
        return;
    }
    decision.decision = verdict;
    decision.requires_confirmation = verdict == Verdict::AllowWithConfirm;
    decision.rule_id = Some(format!("{HOOK_RULE}{hook}"));
    decision.reason = match verdict {
        Verdict::Deny => format!("`{hook}` refuses it: {reason}"),
        Verdict::AllowWithConfirm | Verdict::Allow => {
            format!("`{hook}` demands confirmation: {reason}")
        }
    };
}

/// A change that a hook makes.
struct Change {
    changed: Value,
    patch: Vec<PatchOperation>,
}

impl Change {
    fn new(mut value: Value, patch: Vec<PatchOperation>) -> Result<Option<Self>, HookError> {
        if patch.is_empty() {
            return Ok(None);
        }
        if patch.len() > MAX_OPERATIONS {
            return Err(HookError(format!("its patch has more than {MAX_OPERATIONS} operations")));
        }
        if !patch.iter().all(is_plain) {
            let message = "its patch has an operation other than `add`, `replace` and `remove`";
            return Err(HookError(message.to_owned()));
        }
        if patch.iter().any(|operation| operation.path().is_root()) {
            return Err(HookError("its patch replaces the whole".to_owned()));
        }
        json_patch::patch(&mut value, &patch)
            .map_err(|error| HookError(format!("its patch can't be applied: {error}")))?;
        Ok(Some(Self { changed: value, patch }))
    }
}

/// Whether an operation adds no more than it holds: copies of copies double with each operation.
const fn is_plain(operation: &PatchOperation) -> bool {
    match operation {
        PatchOperation::Add(_) | PatchOperation::Replace(_) | PatchOperation::Remove(_) => true,
        PatchOperation::Move(_) | PatchOperation::Copy(_) | PatchOperation::Test(_) => false,
    }
}

/// An output as hooks see it, and the part of it that they do not see.
fn as_value(operation: Operation, output: ToolOutput) -> (Value, ToolOutput) {
    let ToolOutput { content, structured, is_error, rest, input_required } = output;
    if operation != Operation::CallTool {
        let kept = ToolOutput { content, structured, is_error, input_required, rest: Map::new() };
        return (Value::Object(rest), kept);
    }
    let mut value = json!({ "content": content, "isError": is_error });
    if let (Some(structured), Some(members)) = (structured, value.as_object_mut()) {
        members.insert("structuredContent".to_owned(), structured);
    }
    (value, ToolOutput { rest, input_required, ..ToolOutput::default() })
}

/// The output again, with what hooks left of it.
fn from_value(operation: Operation, value: Value, kept: ToolOutput) -> ToolOutput {
    let Value::Object(mut members) = value else { return kept };
    if operation != Operation::CallTool {
        return ToolOutput { rest: members, ..kept };
    }
    let content = match members.shift_remove("content") {
        Some(Value::Array(content)) => content,
        // Content that is no list is shown as text, so that no client stumbles over it.
        Some(other) => ToolOutput::text(other.to_string()).content,
        None => Vec::new(),
    };
    ToolOutput {
        content,
        structured: members.shift_remove("structuredContent"),
        is_error: members.get("isError").is_some_and(|flag| flag == &Value::Bool(true)),
        ..kept
    }
}

#[cfg(test)]
#[path = "intercept_tests.rs"]
mod tests;
