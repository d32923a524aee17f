//! `drawgate providers add`: the section of a provider in the configuration.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use drawgate_agents::model::Api;
use serde_json::json;
use toml_edit::{DocumentMut, Item, Table, TableLike, value};

use crate::cli::edit::ConfigFile;
use crate::cli::{Context, machine, secrets_file};

const HELP: &str = "\
Examples:
  drawgate providers add anthropic --model claude-sonnet-4-6
  drawgate providers add ollama --kind openai_chat --url http://127.0.0.1:11434/v1 --model qwen3

The key is not an option: other users can read command lines. `drawgate secrets set ANTHROPIC_API_KEY`
stores it.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(in super::super) struct AddArgs {
    /// A name for it: that of an API (`anthropic`, `openai`, `gemini`), or another with `--kind`
    name: String,
    /// The API that it speaks [default: the one of its name]
    #[arg(long, value_name = "API", value_parser = api)]
    kind: Option<Api>,
    /// Its address [default: that of the provider whose API it is]
    #[arg(long)]
    url: Option<String>,
    /// The variable that holds its key [default: the usual one of the API, none with `--url`]
    #[arg(long, value_name = "VARIABLE")]
    key: Option<String>,
    /// The model that agents use where none is named; written where no default is set yet
    #[arg(long)]
    model: Option<String>,
}

pub(super) async fn run(args: &AddArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let name = &args.name;
    let kind = args.kind.or_else(|| api(name).ok()).with_context(|| {
        let known = Api::ALL.map(Api::as_str).join("`, `");
        format!("say which API `{name}` speaks: `--kind` with `{known}`")
    })?;
    let usual = args.url.is_none().then(|| usual_variable(kind).to_owned());
    let key = args.key.clone().or(usual);
    let file = ConfigFile::find(context).await?;
    let edit = file.write(|document| write(document, args, kind, key.as_deref())).await?;
    let outcome = file.outcome(&edit).await?;
    let path = file.path();
    let is_set = |name: &String| {
        machine::variable(name).is_some() || secrets_file::find(&context.data, name).is_some()
    };
    let missing = key.filter(|name| !is_set(name));
    let done =
        json!({ "provider": name, "file": path, "outcome": outcome.as_str(), "missing": missing });
    context.out.either(&done, || {
        let added = format!("added `{name}` to `{}`; {}", path.display(), outcome.text(&file));
        let key = missing
            .as_ref()
            .map(|name| format!("its key is missing: `drawgate secrets set {name}` stores it"));
        let check =
            format!("then: `drawgate providers check {name}`, `drawgate profiles new NAME`");
        [Some(added), key, Some(check)].into_iter().flatten().collect::<Vec<_>>().join("\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

fn write(
    document: &mut DocumentMut,
    args: &AddArgs,
    kind: Api,
    key: Option<&str>,
) -> anyhow::Result<()> {
    let providers = table(document, "providers", true)?;
    if providers.contains_key(&args.name) {
        bail!("there is a provider `{}` already; change it in the file", args.name);
    }
    let mut section = Table::new();
    section.insert("kind", value(kind.as_str()));
    if let Some(url) = &args.url {
        section.insert("url", value(url));
    }
    if let Some(key) = key {
        section.insert("key", value(format!("env:{key}")));
    }
    providers.insert(&args.name, Item::Table(section));
    if let Some(model) = &args.model {
        let models = table(document, "models", false)?;
        if !models.contains_key("default") {
            models.insert("default", value(format!("{}/{model}", args.name)));
        }
    }
    Ok(())
}

/// A table of the document, made if it is not there.
fn table<'a>(
    document: &'a mut DocumentMut,
    key: &str,
    is_implicit: bool,
) -> anyhow::Result<&'a mut dyn TableLike> {
    let item = document.entry(key).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(is_implicit);
        Item::Table(table)
    });
    item.as_table_like_mut().with_context(|| format!("`{key}` is not a table; correct it by hand"))
}

/// The variable by which an API's own clients take the key.
const fn usual_variable(kind: Api) -> &'static str {
    match kind {
        Api::Anthropic => "ANTHROPIC_API_KEY",
        Api::Openai | Api::OpenaiChat => "OPENAI_API_KEY",
        Api::Gemini => "GEMINI_API_KEY",
    }
}

fn api(text: &str) -> Result<Api, String> {
    let found = Api::ALL.into_iter().find(|api| api.as_str() == text);
    found.ok_or_else(|| format!("use `{}`", Api::ALL.map(Api::as_str).join("`, `")))
}
