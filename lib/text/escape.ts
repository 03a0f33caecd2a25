// What most texts are. To compile the expressions with names of Unicode takes 1 ms each.
const PLAIN = /^[ !"$-~]*$/;
const PLAIN_JSON = /^[\n -~]*$/;

/**
 * The text with all characters escaped that can control a terminal or a log reader: control characters, line
 * separators, bidirectional overrides, lone surrogates, and what begins a command of GitHub Actions or Azure Pipelines
 * anywhere in a line: `##[group]`, `##vso[…]`.
 */
export function printable(text: string): string {
  if (PLAIN.test(text)) return text;
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]|#(?=#\w*\[)/gu, (char) => {
    const code = char.codePointAt(0) ?? 0;
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`;
  });
}

/**
 * The name of a file for the beginning of a line, printable, and in quotes if a line that begins so is a command of GitHub
 * Actions, which skips white space before it: `::error::…` (actions/runner, ActionCommand.cs).
 */
export function fileName(name: string): string {
  return /^\s*::/.test(name) ? `"${printable(name)}"` : printable(name);
}

/** The text in quotes, escaped, and cut off after 80 characters. */
export function quote(text: string): string {
  const shown = text.length > 80 ? `${text.slice(0, 80)}…` : text;
  return `"${printable(shown)}"`;
}

/**
 * The value as indented JSON (RFC 8259) with a final line feed. Characters that can control a terminal are JSON escape
 * sequences.
 */
export function prettyJson(value: unknown): string {
  return `${escapeJson(JSON.stringify(value, null, 2))}\n`;
}

/** The JSON text with the control and format characters escaped that JSON itself does not escape. */
export function escapeJson(json: string): string {
  if (PLAIN_JSON.test(json)) return json;
  return json.replace(/[^\P{Cc}\n]|[\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (char) =>
    Array.from(
      { length: char.length },
      (_, index) => `\\u${char.charCodeAt(index).toString(16).padStart(4, '0')}`,
    ).join(''),
  );
}
