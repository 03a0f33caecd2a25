/**
 * The text with everything escaped that a terminal or a log reader could take for more than text. It is `printable` of
 * lib/config once more: this folder knows no other.
 */
export function escapeText(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (char) => {
    const code = char.codePointAt(0) ?? 0;
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`;
  });
}
