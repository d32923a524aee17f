// What the programs share that are started by tests: they tell their test how far they are by lines of JSON.

export const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
export const args = JSON.parse(process.argv[2] ?? "{}");
export { ToolGateway, getNativeToolGateway, getNativeToolGatewayError } from "../../../crates/drawgate-node/npm/index.mjs";
