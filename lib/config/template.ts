import type { Advice } from '../text/advice.ts';

/** What to do about a text that a program such as Helm has yet to complete. */
export const RENDER = 'render the template first, such as with helm template';

/** What is wrong with a text that a program such as Helm has yet to complete. */
export const TEMPLATE_MARK: Advice = { message: 'has "{{", a placeholder of a template', remedy: RENDER };

/** Where the first `{{` outside of comments is; undefined if there is none. No valid config has one. */
export function templateMarkIn(text: string): number | undefined {
  let at = text.indexOf('{{');
  while (at !== -1) {
    const lineStart = text.lastIndexOf('\n', at) + 1;
    if (!/(?:^|\s)#/.test(text.slice(lineStart, at))) return at;
    const lineEnd = text.indexOf('\n', at);
    at = lineEnd === -1 ? -1 : text.indexOf('{{', lineEnd);
  }
  return undefined;
}
