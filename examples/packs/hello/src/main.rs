//! A pack with two tools. Change it into your own.

use drawgate_sdk::{Call, Gateway, Key, Pack, PackClient, ToolError, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// Who is to be greeted.
    name: String,
}

async fn greet(input: Greet, _: Call) -> Result<String, ToolError> {
    Ok(format!("Hello, {}!", input.name))
}

#[derive(Deserialize, JsonSchema)]
struct Divide {
    dividend: i64,
    divisor: i64,
}

#[derive(Serialize, JsonSchema)]
struct Division {
    quotient: i64,
    remainder: i64,
}

async fn divide(input: Divide, _: Call) -> Result<Division, ToolError> {
    let (a, b) = (input.dividend, input.divisor);
    let quotient = a.checked_div(b).ok_or_else(|| ToolError::new("cannot divide by this"))?;
    Ok(Division { quotient, remainder: a.wrapping_rem(b) })
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let gateway = arguments.next().unwrap_or_else(|| "http://127.0.0.1:7700".to_owned());
    let key = Key::from_file(arguments.next().unwrap_or_else(|| "id_ed25519".to_owned()))?;
    let pack = Pack::new("hello", env!("CARGO_PKG_VERSION"))
        .tool(tool("greet", "Greets somebody by name.").run(greet))
        .tool(tool("divide", "Divides whole numbers.").output::<Division>().run(divide));
    let client = PackClient::new(Gateway::at(&gateway)?, key);
    client.observe(|event| eprintln!("{event}")).serve(pack).await?;
    Ok(())
}
