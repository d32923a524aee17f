// Opens a data folder and says how that went.

import { ToolGateway, args, say } from "./lib.mjs";

try {
  new ToolGateway({ dataDir: args.dataDir });
  say({ code: "opened" });
} catch (error) {
  say({ code: error.code, message: error.message });
}
