use serde_json::json;

use super::*;

fn narrowed(api: Api, body: Value) -> Result<Value, String> {
    let Value::Object(mut body) = body else { panic!("not an object") };
    narrow(api, &mut body).map(|()| Value::Object(body))
}

const DATA: &str = "data:image/png;base64,AAAA";

fn claude() -> Value {
    json!({
        "model": "m", "max_tokens": 32_000, "stream": true,
        "system": [{ "type": "text", "text": "s", "cache_control": { "type": "ephemeral" } }],
        "messages": [
            { "role": "user", "content": "hello" },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "", "signature": "x" },
                { "type": "tool_use", "id": "1", "name": "t", "input": { "source": { "type": "url" } } },
            ] },
            { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "1", "content": [
                { "type": "text", "text": "t" },
                { "type": "image", "source": { "type": "base64", "data": "AAAA" } },
            ] }] },
            { "role": "system", "content": [
                { "type": "tool_removal", "tool": { "type": "tool_reference", "name": "a" } },
                { "type": "tool_addition", "tool": { "type": "tool_definition", "definition": { "name": "b" } } },
            ] },
        ],
        "tools": [{ "name": "t", "description": "d", "input_schema": { "type": "object" } }],
        "tool_choice": { "type": "auto" },
        "metadata": { "user_id": "u" },
        "thinking": { "type": "adaptive", "display": "updates" },
        "context_management": { "edits": [{ "type": "clear_thinking_20251015", "keep": "all" }] },
        "output_config": { "effort": "high" },
    })
}

fn codex() -> Value {
    let function = json!({ "type": "function", "name": "f", "parameters": {}, "strict": false });
    json!({
        "model": "m", "stream": true, "store": false, "tool_choice": "auto",
        "parallel_tool_calls": true, "reasoning": { "summary": "auto" }, "prompt_cache_key": "k",
        "include": ["reasoning.encrypted_content"], "client_metadata": { "thread_id": "t" },
        "input": [
            { "role": "system", "content": "s" },
            { "type": "message", "role": "user", "content": [
                { "type": "input_text", "text": "t" },
                { "type": "input_image", "image_url": DATA },
            ] },
            { "type": "reasoning", "summary": [], "encrypted_content": "x" },
            { "type": "function_call", "name": "f", "arguments": "{}", "call_id": "1" },
            { "type": "function_call_output", "call_id": "1", "output": "done" },
            { "type": "custom_tool_call", "name": "c", "input": "x", "call_id": "2" },
            { "type": "tool_search_output", "tools": [function.clone()] },
        ],
        "tools": [
            function.clone(),
            { "type": "namespace", "name": "n", "tools": [function.clone()] },
            { "type": "custom", "name": "c" },
            { "type": "tool_search", "execution": "client" },
        ],
    })
}

fn chat() -> Value {
    json!({
        "model": "m", "stream": true, "stream_options": { "include_usage": true }, "max_tokens": 1,
        "messages": [
            { "role": "system", "content": "s" },
            { "role": "user", "content": [
                { "type": "text", "text": "t" },
                { "type": "image_url", "image_url": { "url": DATA } },
            ] },
            { "role": "assistant", "content": null, "tool_calls": [] },
        ],
        "tools": [{ "type": "function", "function": { "name": "f" } }], "tool_choice": "auto",
    })
}

fn gemini() -> Value {
    json!({
        "contents": [{ "role": "user", "parts": [
            { "text": "t" },
            { "inlineData": { "mimeType": "image/png", "data": "AAAA" } },
            { "functionCall": { "name": "f", "args": { "fileData": 1 } }, "thoughtSignature": "x" },
            { "functionResponse": { "name": "f", "response": { "output": "o" } } },
        ] }],
        "systemInstruction": { "parts": [{ "text": "s" }], "role": "user" },
        "tools": [{ "functionDeclarations": [{ "name": "f" }] }],
        "generationConfig": { "temperature": 1, "topP": 0.95, "topK": 64, "thinkingConfig": {} },
    })
}

/// What the programs send stays as it is.
#[test]
fn requests_of_the_programs_pass_whole() {
    for (api, body) in [
        (Api::Anthropic, claude()),
        (Api::Openai, codex()),
        (Api::OpenaiChat, chat()),
        (Api::Gemini, gemini()),
    ] {
        assert_eq!(narrowed(api, body.clone()), Ok(body), "{api:?}");
    }
}

#[track_caller]
fn one(api: Api, body: Value, left: Value) {
    assert_eq!(narrowed(api, body), Ok(left), "{api:?}");
}

#[test]
fn what_is_not_listed_is_left_out() {
    one(
        Api::Anthropic,
        json!({
            "model": "m", "mcp_servers": [{ "url": "https://evil" }], "container": "c",
            "service_tier": "priority", "speed": "fast", "betas": ["x"], "tool_choice": {},
            "tools": [
                { "type": "web_search_20250305", "name": "web_search" },
                { "type": "code_execution_20250522", "name": "code_execution" },
                { "type": "computer_20250124", "name": "computer" },
                { "type": "mcp_toolset", "mcp_server_name": "s" },
            ],
        }),
        json!({ "model": "m" }),
    );
    one(
        Api::Openai,
        json!({
            "model": "m", "previous_response_id": "r", "conversation": "c", "background": true,
            "prompt": { "id": "p" }, "store": true, "service_tier": "priority",
            "tools": [
                { "type": "web_search" }, { "type": "code_interpreter" }, { "type": "image_generation" },
                { "type": "mcp", "server_url": "https://evil" }, { "type": "tool_search" },
                { "type": "namespace", "tools": [{ "type": "web_search" }] },
                { "type": "function", "name": "f" },
            ],
        }),
        json!({ "model": "m", "store": false, "tools": [{ "type": "function", "name": "f" }] }),
    );
}

#[test]
fn what_is_not_listed_is_left_out_elsewhere_too() {
    one(
        Api::OpenaiChat,
        json!({
            "model": "m", "n": 8, "models": ["dear"], "plugins": [{ "id": "web" }],
            "web_search_options": {}, "tools": [{ "type": "browser" }], "tool_choice": "auto",
        }),
        json!({ "model": "m" }),
    );
    one(
        Api::Gemini,
        json!({
            "cachedContent": "c", "generation_config": { "maxOutputTokens": 1 },
            "generationConfig": { "candidateCount": 8, "candidate_count": 8, "seed": 1 },
            "tools": [
                { "googleSearch": {} }, { "codeExecution": {} }, { "urlContext": {} },
                { "functionDeclarations": [], "googleSearch": {} },
            ],
        }),
        json!({ "generationConfig": { "seed": 1 }, "tools": [{ "functionDeclarations": [] }] }),
    );
}

#[test]
fn parts_that_lead_elsewhere_are_refused() {
    let messages = |part: Value| json!({ "messages": [{ "role": "user", "content": [part] }] });
    let input = |part: Value| json!({ "input": [{ "role": "user", "content": [part] }] });
    let url = "https://evil/x";
    for (api, body) in [
        (
            Api::Anthropic,
            messages(json!({ "type": "image", "source": { "type": "url", "url": url } })),
        ),
        (Api::Anthropic, messages(json!({ "type": "document", "source": { "type": "file" } }))),
        (Api::Anthropic, messages(json!({ "type": "container_upload", "file_id": "f" }))),
        (
            Api::Anthropic,
            messages(json!({ "type": "tool_result", "content": [
            { "type": "image", "source": { "type": "url", "url": url } }] })),
        ),
        (
            Api::Anthropic,
            messages(json!({ "type": "tool_addition", "tool": {
            "definition": { "type": "web_search_20250305" } } })),
        ),
        (Api::Anthropic, json!({ "messages": { "0": [] } })),
        (Api::Openai, input(json!({ "type": "input_image", "image_url": url }))),
        (
            Api::Openai,
            input(json!({ "type": "input_image", "file_id": "f", "image_url": "data:," })),
        ),
        (Api::Openai, input(json!({ "type": "input_file", "file_url": url }))),
        (Api::Openai, json!({ "input": [{ "type": "item_reference", "id": "r" }] })),
        (
            Api::Openai,
            json!({ "input": [{ "type": "configuration_update",
            "tools": [{ "type": "web_search" }] }] }),
        ),
        (Api::OpenaiChat, messages(json!({ "type": "image_url", "image_url": { "url": url } }))),
        (Api::OpenaiChat, messages(json!({ "type": "file", "file": { "file_id": "f" } }))),
        (Api::Gemini, json!({ "contents": [{ "parts": [{ "fileData": { "fileUri": url } }] }] })),
        (Api::Gemini, json!({ "contents": [{ "parts": [{ "file_data": { "file_uri": url } }] }] })),
        (Api::Gemini, json!({ "systemInstruction": { "parts": [{ "fileData": {} }] } })),
    ] {
        assert!(narrowed(api, body.clone()).is_err(), "{api:?}: {body}");
    }
}

#[test]
fn betas_that_lead_elsewhere_are_left_out() {
    let sent = "claude-code-20250219, interleaved-thinking-2025-05-14,mcp-client-2025-04-04,\
        context-1m-2025-08-07,files-api-2025-04-14,effort-2025-11-24";
    let passed = "claude-code-20250219,interleaved-thinking-2025-05-14,effort-2025-11-24";
    assert_eq!(betas(sent).as_deref(), Some(passed));
    assert_eq!(betas("code-execution-2025-05-22"), None);
}
