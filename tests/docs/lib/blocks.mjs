// Reads a Markdown page: its fenced blocks in order, and the commands of a block.

/** The fenced blocks: language, text without the indentation of the fence, and the line that they begin in. */
export function blocks(page) {
  const found = [];
  let open;
  for (const [index, line] of page.split("\n").entries()) {
    const fence = /^(\s*)```(\S*)\s*$/.exec(line);
    if (open === undefined && fence) {
      open = { language: fence[2], indent: fence[1].length, line: index + 1, lines: [] };
    } else if (open !== undefined && fence && fence[2] === "") {
      const text = open.lines.map((each) => each.slice(Math.min(open.indent, each.search(/\S|$/)))).join("\n");
      found.push({ language: open.language, line: open.line, text: `${text}\n` });
      open = undefined;
    } else {
      open?.lines.push(line);
    }
  }
  if (open !== undefined) throw new Error(`the block of line ${open.line} does not end`);
  return found;
}

/** Commands outside of fences, indented by four: nobody would run them, so they must be fenced. */
export function unfenced(page) {
  const fenced = new Set();
  let inside = false;
  const lines = page.split("\n");
  for (const [index, line] of lines.entries()) {
    const isFence = /^\s*```/.test(line);
    if (inside || isFence) fenced.add(index);
    if (isFence) inside = !inside;
  }
  const isCommand = /^ {4,}(\$ )?(drawgate|cargo|npm|npx|node|ssh-keygen|curl|\.\/)\S* /;
  return lines.flatMap((line, index) => (!fenced.has(index) && isCommand.test(line) ? [`${index + 1}: ${line.trim()}`] : []));
}

const count = (text, mark) => text.split(mark).length - 1;

/**
 * The commands of a block: lines, with those that follow a backslash, stand inside quotes or belong to a here-document.
 * Comments that stand alone are left out.
 */
export function commands(text) {
  const found = [];
  let open = "";
  let here;
  for (const line of text.split("\n")) {
    open += open === "" ? line : `\n${line}`;
    here ??= /<<-?\s*'?(\w+)'?/.exec(line)?.[1];
    if (here !== undefined ? line.trim() !== here : line.endsWith("\\") || count(open.replace(/"[^"'\n]*'[^"\n]*"/g, ""), "'") % 2 === 1) continue;
    here = undefined;
    if (open.trim() !== "" && !open.trim().startsWith("#")) found.push(open);
    open = "";
  }
  if (open !== "") throw new Error(`a command does not end: ${open}`);
  return found;
}
