//! A kind of source that exists in this test only. It is one folder and one row, and yet servers of
//! the configuration and connectors of toolpacks can be of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use drawgate_core::model::{McpManifest, McpToolSpec, Offer, SourceId, ToolInvocation, ToolOutput};
use drawgate_core::pipeline::CallOptions;
use drawgate_core::source::{CallContext, PermittedCall, SourceError, ToolSource};
use drawgate_core::testing::{TestGate, caller};
use drawgate_host::Host;
use drawgate_host::secrets::Secrets;
use drawgate_sources::server::{ServerConfig, ServerKind, ServerSettings, keys_of};
use drawgate_sources::toolpack::manifest::{ConnectorCheck, Manifest};
use drawgate_sources::toolpack::{
    ConnectorKind, ConnectorSettings, PackContext, Selection, ToolpackConfig, ToolpackSource,
};
use drawgate_sources::{ConfigError, KINDS, Kinds, SourceKind};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Config, ConfigSource};

const KIND: SourceKind = SourceKind::new("greeter").with_server(&Greeter).with_connector(&Greeter);

fn kinds() -> Kinds {
    static ROWS: LazyLock<Vec<SourceKind>> =
        LazyLock::new(|| KINDS.iter().copied().chain([KIND]).collect());
    Kinds::new(&ROWS)
}

struct Greeter;

/// The greeting.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Settings {
    /// What comes before the name.
    greeting: String,
}

struct GreeterSource {
    id: SourceId,
    settings: Settings,
}

#[async_trait]
impl ToolSource for GreeterSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        let tool = json!({ "name": "greet", "description": "Greets.", "inputSchema": { "type": "object" } });
        Ok(McpManifest {
            server_id: self.id.clone(),
            name: "greeter".to_owned(),
            version: String::new(),
            description: None,
            tools: vec![McpToolSpec::deserialize(tool).unwrap()],
            offer: Offer::default(),
        })
    }

    async fn call(&self, call: PermittedCall, _: &CallContext) -> Result<ToolOutput, SourceError> {
        let text = format!("{} {}", self.settings.greeting, call.arguments()["name"]);
        let content = vec![json!({ "type": "text", "text": text })];
        Ok(ToolOutput { content, ..ToolOutput::default() })
    }
}

impl ServerKind for Greeter {
    fn protocol(&self) -> &'static str {
        "greeter"
    }

    fn description(&self) -> &'static str {
        "Greetings."
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        Settings::json_schema(generator)
    }

    fn read(&self, keys: &Map<String, Value>) -> serde_json::Result<Box<dyn ServerSettings>> {
        Ok(Box::new(Settings::deserialize(keys)?))
    }
}

impl ServerSettings for Settings {
    fn keys(&self) -> Map<String, Value> {
        keys_of(self)
    }

    fn build(
        self: Box<Self>,
        id: SourceId,
        _: ServerConfig,
        _: &Arc<Host>,
    ) -> Result<Arc<dyn ToolSource>, ConfigError> {
        Ok(Arc::new(GreeterSource { id, settings: *self }))
    }
}

impl ConnectorKind for Greeter {
    fn description(&self) -> &'static str {
        "A greeter."
    }

    fn settings_description(&self) -> &'static str {
        "For type `greeter`: the greeting."
    }

    fn tool_description(&self) -> &'static str {
        "A greeting."
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Settings>()
    }

    fn example(&self) -> &'static str {
        "\"greeter\": { \"greeting\": … }"
    }

    fn read(&self, settings: &Value) -> serde_json::Result<Arc<dyn ConnectorSettings>> {
        Ok(Arc::new(Settings::deserialize(settings)?))
    }
}

impl ConnectorSettings for Settings {
    fn check(&self, check: &mut ConnectorCheck<'_>) {
        if self.greeting.is_empty() {
            check.problem("greeting", "it is empty", "write one such as `Hello`");
        }
    }

    fn build(
        &self,
        id: SourceId,
        _: Selection<'_>,
        _: &PackContext<'_>,
    ) -> Result<Arc<dyn ToolSource>, ConfigError> {
        Ok(Arc::new(GreeterSource { id, settings: self.clone() }))
    }
}

fn host() -> Arc<Host> {
    Arc::new(Host::new(Secrets::new(BTreeMap::new()), None).unwrap())
}

/// What a caller is told by a tool of a source.
async fn greeted(source: Arc<dyn ToolSource>, tool: &str) -> Value {
    let gate = TestGate::new().await;
    gate.grant("ann", "*", None).await;
    let id = source.id().clone();
    assert_eq!(gate.register(source).await.unwrap(), []);
    let mut call = ToolInvocation { tool_id: format!("{id}:{tool}"), ..ToolInvocation::default() };
    call.request_id.push('r');
    call.arguments.insert("name".to_owned(), "Ann".into());
    let result = gate.gateway.call(&caller("ann"), call, CallOptions::default()).await;
    result.content.first().map_or(Value::Null, |block| block["text"].clone())
}

fn load(folder: &Path, text: &str) -> Result<super::Loaded, super::ConfigErrors> {
    let file = folder.join("drawgate.toml");
    std::fs::write(&file, text).unwrap();
    Config::load_with(ConfigSource::File(file), kinds())
}

#[tokio::test]
async fn a_server_of_the_configuration_can_be_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[servers.hall]\nurl = \"http://127.0.0.1:1/\"\nprotocol = \"greeter\"\n";
    let loaded = load(folder.path(), &format!("{text}greeting = \"Hello\"\n")).unwrap();
    assert_eq!(loaded.reload().unwrap().config, loaded.config);
    let server = &loaded.config.servers["hall"];
    let settings = server.settings(loaded.config.kinds).unwrap();
    let id = SourceId::new("hall").unwrap();
    let source = settings.build(id, ServerConfig::default(), &host()).unwrap();
    assert_eq!(greeted(source, "greet").await, "Hello \"Ann\"");

    for (line, problem) in [
        ("greeting = 7\n", "4:12: error: `greeting`"),
        ("greetin = \"Hello\"\n", "did you mean `greeting`?"),
        ("greeting = \"Hello\"\nsessions = \"per_client\"\n", "`sessions` has no meaning for"),
    ] {
        let errors = load(folder.path(), &format!("{text}{line}")).unwrap_err().to_string();
        assert!(errors.contains(problem), "{line}: {errors}");
    }
    // The table itself has not changed.
    let file = folder.path().join("drawgate.toml");
    let errors = Config::load(ConfigSource::File(file)).unwrap_err().to_string();
    assert!(errors.contains("unknown protocol `greeter`"), "{errors}");
}

fn pack(folder: &Path, greeting: &Value) -> PathBuf {
    let folder = folder.join("hall");
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = json!({
        "id": "hall", "name": "Hall", "version": "1", "enabled": true,
        "connectors": [{ "id": "door", "type": "greeter", "greeter": { "greeting": greeting } }],
        "tools": [{
            "name": "welcome", "type": "greeter", "connector_id": "door", "remote_tool": "greet",
        }],
    });
    std::fs::write(folder.join("toolpack.json"), manifest.to_string()).unwrap();
    folder
}

#[tokio::test]
async fn a_connector_of_a_toolpack_can_be_of_it() {
    let place = tempfile::tempdir().unwrap();
    let folder = pack(place.path(), &json!("Welcome"));
    let config = ToolpackConfig {
        kinds: kinds(),
        ..serde_json::from_value(json!({ "folder": folder, "workspace": place.path().join("w") }))
            .unwrap()
    };
    let source = ToolpackSource::new(SourceId::new("hall").unwrap(), &config, &host()).unwrap();
    assert_eq!(greeted(Arc::new(source), "welcome").await, "Welcome \"Ann\"");

    for (greeting, problem) in [
        (json!(7), "$.connectors[0].greeter.greeting: "),
        (json!(""), "$.connectors[0].greeter.greeting: it is empty; write one such as `Hello`"),
    ] {
        let folder = pack(place.path(), &greeting);
        let problems = Manifest::read_with(&folder, kinds()).unwrap_err().to_string();
        assert!(problems.contains(problem), "{problems}");
    }
    let problems = Manifest::read(&folder).unwrap_err().to_string();
    assert!(problems.contains("$.connectors[0].type: unknown type `greeter`"), "{problems}");
}
