import type { Advice } from '../text/advice.ts';

/** What to do about a text that a program such as Helm, Terraform or envsubst has yet to complete. */
export const RENDER = 'render the template first, such as with helm template, terraform or envsubst';

/** What is wrong with such a text. */
export function templateAdvice(mark = '{{'): Advice {
  return { message: `has "${mark}", a placeholder of a template`, remedy: RENDER };
}

/** Of Helm and other Go templates; of Jinja; of Terraform, Flux and envsubst. */
const MARK = /\{\{|\{%|[$%]\{/;

/** The first mark of a template outside of comments, and where it is; undefined if there is none. No valid config has one. */
export function templateMarkIn(text: string): { readonly mark: string; readonly offset: number } | undefined {
  if (!MARK.test(text)) return undefined;
  for (const { 0: line, index } of text.matchAll(/[^\r\n]+/g)) {
    const found = MARK.exec(line);
    if (found !== null && !/(?:^|\s)#/.test(line.slice(0, found.index)))
      return { mark: found[0], offset: index + found.index };
  }
  return undefined;
}
