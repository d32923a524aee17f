// The program's own manual, against which commands in running text are held.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The man pages of a program, by the words of the command with dashes between them. */
export function manualOf(program) {
  const folder = mkdtempSync(join(tmpdir(), "drawgate-manual-"));
  try {
    execFileSync(program, ["man-pages", folder]);
    const read = (file) => readFileSync(join(folder, file), "utf8").replaceAll("\\", "");
    return new Map(readdirSync(folder).map((file) => [file.replace(/\.1$/, ""), read(file)]));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The command or option of a text such as `drawgate audit tail --follow` that the manual does not have. */
export function unknown(manual, text) {
  const words = text.split(/\s+/).slice(1);
  let name = "drawgate";
  while (manual.has(`${name}-${words[0]}`)) name += `-${words.shift()}`;
  const page = manual.get(name);
  if (page.includes(".SH SUBCOMMANDS") && /^[a-z]/.test(words[0] ?? "")) return words[0];
  const own = words.includes("--") ? words.slice(0, words.indexOf("--")) : words;
  return own.filter((word) => /^--[a-z-]+$/.test(word)).find((option) => !page.includes(option));
}
