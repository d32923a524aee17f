//! What a plugin asks of the gateway: parsed strictly, held to its permissions, and done in its name.

use drawgate_core::model::shown_name;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Shared;
use super::session::METHOD_NOT_FOUND;
use crate::plugin::manifest::FILE;
use crate::plugin::{InvokeOptions, NewTask, PluginError};

const INVOKE: &str = "drawgate/invoke";
const INVALID_PARAMS: i64 = -32602;
const FAILED: i64 = -32000;
const NOT_PERMITTED: i64 = -32001;
const BUSY: i64 = -32002;

/// Why a plugin does not get what it asked for, as the error of JSON-RPC.
#[derive(Debug, Serialize)]
pub(super) struct Refusal {
    code: i64,
    message: String,
}

impl Refusal {
    pub(super) fn failed(message: String) -> Self {
        Self { code: FAILED, message }
    }

    pub(super) fn busy(most: usize) -> Self {
        let message = format!("{most} requests are under way; wait for their answers first");
        Self { code: BUSY, message }
    }
}

impl From<PluginError> for Refusal {
    fn from(error: PluginError) -> Self {
        Self::failed(error.0)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Invoke {
    prompt: String,
    #[serde(flatten)]
    options: InvokeOptions,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ToThread {
    thread_id: String,
    message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Broadcast {
    event: String,
    #[serde(default)]
    data: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Task {
    task_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    key: String,
    #[serde(default)]
    value: Option<Value>,
}

/// Whether a request is done soon, so that the tool call in which it is made can wait for it. A prompt to a model
/// may take minutes.
pub(super) fn takes_effect(method: &str) -> bool {
    method != INVOKE
}

/// Does what a plugin asks for.
pub(super) async fn answer(
    shared: &Shared,
    method: &str,
    params: Option<Value>,
) -> Result<Value, Refusal> {
    let context = &*shared.context;
    match method {
        "ping" => {}
        INVOKE => {
            let Invoke { prompt, options } = read(params)?;
            may_invoke(shared, "ctx.invoker.invoke")?;
            return written(&context.invoke(prompt, options).await);
        }
        "drawgate/sendToThread" => {
            let ToThread { thread_id, message } = read(params)?;
            context.send_to_thread(&thread_id, message).await?;
        }
        "drawgate/broadcast" => {
            let Broadcast { event, data } = read(params)?;
            context.broadcast(event, data).await?;
        }
        "drawgate/delegate" => {
            let task: NewTask = read(params)?;
            may_invoke(shared, "ctx.tasks.delegate")?;
            return written(&context.delegate(task).await?);
        }
        "drawgate/task" => {
            let Task { task_id } = read(params)?;
            return written(&context.task(&task_id).await?);
        }
        "drawgate/checkIn" => {
            let ToThread { thread_id, message } = read(params)?;
            context.check_in(&thread_id, message).await?;
        }
        "drawgate/load" => {
            let Stored { key, .. } = read(params)?;
            let value = context.load(&key).await?;
            return Ok(value.map_or_else(|| json!({}), |value| json!({ "value": value })));
        }
        "drawgate/save" => {
            let Stored { key, value } = read(params)?;
            context.save(&key, value).await?;
        }
        _ => {
            let message = format!("unknown method `{}`", shown_name(method));
            return Err(Refusal { code: METHOD_NOT_FOUND, message });
        }
    }
    Ok(json!({}))
}

fn read<T: DeserializeOwned>(params: Option<Value>) -> Result<T, Refusal> {
    let params = params.unwrap_or_else(|| json!({}));
    serde_json::from_value(params).map_err(|error| Refusal {
        code: INVALID_PARAMS,
        message: format!("invalid params: {error}"),
    })
}

fn written(value: &impl Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(value).map_err(|error| Refusal::failed(error.to_string()))
}

fn may_invoke(shared: &Shared, what: &str) -> Result<(), Refusal> {
    if shared.manifest.permissions.invoke {
        return Ok(());
    }
    let message = format!(
        "`{what}` needs the permission `invoke`; set `permissions.invoke` to true in the plugin's {FILE}"
    );
    Err(Refusal { code: NOT_PERMITTED, message })
}
