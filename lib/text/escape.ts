/**
 * The text with everything escaped that a terminal or a log reader could take for more than text:
 * control characters, line separators, bidirectional overrides, lone surrogates.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (char) => {
    const code = char.codePointAt(0) ?? 0;
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`;
  });
}

/** The text in quotes, escaped, and cut off after 80 characters. */
export function quote(text: string): string {
  const shown = text.length > 80 ? `${text.slice(0, 80)}…` : text;
  return `"${printable(shown)}"`;
}

/** The text as it may stand anywhere in HTML, quoted attribute values included. */
export function escapeHtml(text: string): string {
  return printable(text).replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}

/**
 * The value as indented JSON (RFC 8259) with a final line feed. Characters that a terminal could take for more than
 * text stand in it as JSON's own escapes.
 */
export function prettyJson(value: unknown): string {
  return `${escapeJson(JSON.stringify(value, null, 2))}\n`;
}

/** JSON text with the control and format characters escaped that JSON itself leaves as they are. */
export function escapeJson(json: string): string {
  return json.replace(/[^\P{Cc}\n]|[\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (char) =>
    Array.from(
      { length: char.length },
      (_, index) => `\\u${char.charCodeAt(index).toString(16).padStart(4, '0')}`,
    ).join(''),
  );
}
