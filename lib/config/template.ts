import type { Advice } from '../text/advice.ts';

/** What to do about a text that a program such as Helm has yet to complete. */
export const RENDER = 'render the template first, such as with helm template';

/** What is wrong with a text that a program such as Helm has yet to complete. */
export const TEMPLATE_MARK: Advice = { message: 'has "{{", a placeholder of a template', remedy: RENDER };

/** Where the first `{{` outside of comments is; undefined if there is none. No valid config has one. */
export function templateMarkIn(text: string): number | undefined {
  if (!text.includes('{{')) return undefined;
  for (const { 0: line, index } of text.matchAll(/[^\r\n]+/g)) {
    const at = line.indexOf('{{');
    if (at !== -1 && !/(?:^|\s)#/.test(line.slice(0, at))) return index + at;
  }
  return undefined;
}
